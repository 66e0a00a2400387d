"""The Commander's network in torch: one set of weights for any number of domains and pools.

Each domain is encoded alike, and decides with its own code, that of the domains it calls and of
those that call it, that of the pools it may use, and what all domains have in common.
"""

from typing import Final

import numpy as np
import torch
from torch import Tensor, nn

from models.policies.contract import (
    CLUSTER_COLUMNS,
    DOMAIN_COLUMNS,
    OUTPUTS,
    POOL_COLUMNS,
)
from models.policies.contract import Tensor as Port

_POOL_WIDTH: Final = 16
_SMALL: Final = 0.01
"""Factor on the last layer: the first policy is the heuristic, nearly."""
DOMAIN_PORTS: Final = tuple(port for port in OUTPUTS if "domains" in port.shape)
CLUSTER_PORTS: Final = tuple(port for port in OUTPUTS if "domains" not in port.shape)


def width(port: Port) -> int:
    """Numbers per domain, or per environment."""
    last = port.shape[-1]
    return last if isinstance(last, int) else 1


DOMAIN_ACTIONS: Final = sum(width(port) for port in DOMAIN_PORTS)
CLUSTER_ACTIONS: Final = sum(width(port) for port in CLUSTER_PORTS)


class Body(nn.Module):
    """From the inputs of the contract to a code per domain and one of the cluster."""

    def __init__(self, hidden: int) -> None:
        super().__init__()
        self.domain = nn.Linear(len(DOMAIN_COLUMNS), hidden)
        self.pool = nn.Linear(len(POOL_COLUMNS), _POOL_WIDTH)
        joined = 5 * hidden + _POOL_WIDTH + len(CLUSTER_COLUMNS)
        self.join = nn.Linear(joined, hidden)
        self.top = nn.Linear(hidden, hidden)

    def forward(
        self, domain: Tensor, pool: Tensor, cluster: Tensor, calls: Tensor, uses: Tensor
    ) -> tuple[Tensor, Tensor]:
        """[rows, domains, hidden] and [rows, hidden]."""
        own = torch.tanh(self.domain(domain))
        pools = torch.tanh(self.pool(pool))
        share = uses / uses.sum(dim=-1, keepdim=True).clamp(min=1.0)
        like = torch.ones_like(own)
        parts = (
            own,
            torch.matmul(calls, own),
            torch.matmul(calls.transpose(-1, -2), own),
            own.mean(dim=1, keepdim=True) * like,
            own.amax(dim=1, keepdim=True) * like,
            torch.matmul(share, pools),
            cluster.unsqueeze(1) * torch.ones_like(own[..., :1]),
        )
        code = torch.tanh(self.top(torch.tanh(self.join(torch.cat(parts, dim=-1)))))
        return code, code.mean(dim=1)


class CommanderPolicy(nn.Module):
    """Means of the raw actions, each from -1 to 1 after clipping; 0 is the heuristic."""

    moved: Tensor

    def __init__(self, hidden: int, levers: tuple[str, ...], log_std: float) -> None:
        super().__init__()
        self.body = Body(hidden)
        self.domain_head = nn.Linear(hidden, DOMAIN_ACTIONS)
        self.cluster_head = nn.Linear(hidden, CLUSTER_ACTIONS)
        for head in (self.domain_head, self.cluster_head):
            nn.init.zeros_(head.bias)
            with torch.no_grad():
                head.weight.mul_(_SMALL)
        self.log_std = nn.Parameter(torch.full((DOMAIN_ACTIONS + CLUSTER_ACTIONS,), log_std))
        columns = [
            port.name for port in (*DOMAIN_PORTS, *CLUSTER_PORTS) for _ in range(width(port))
        ]
        self.register_buffer("moved", torch.tensor([float(name in levers) for name in columns]))

    def forward(
        self, domain: Tensor, pool: Tensor, cluster: Tensor, calls: Tensor, uses: Tensor
    ) -> Tensor:
        """[rows, domains x DOMAIN_ACTIONS + CLUSTER_ACTIONS], domain by domain."""
        code, whole = self.body(domain, pool, cluster, calls, uses)
        return torch.cat((self.domain_head(code).flatten(1), self.cluster_head(whole)), dim=1)

    def spread(self, columns: int) -> tuple[Tensor, Tensor]:
        """Standard deviation of each raw action, and 1 where the policy moves it."""
        domains = (columns - CLUSTER_ACTIONS) // DOMAIN_ACTIONS
        of_domain, of_cluster = self.log_std.split([DOMAIN_ACTIONS, CLUSTER_ACTIONS])
        moved, moved_cluster = self.moved.split([DOMAIN_ACTIONS, CLUSTER_ACTIONS])
        log_std = torch.cat((of_domain.repeat(domains), of_cluster))
        return log_std.exp(), torch.cat((moved.repeat(domains), moved_cluster))


class CommanderValue(nn.Module):
    """The expected discounted reward, with a body of its own."""

    def __init__(self, hidden: int) -> None:
        super().__init__()
        self.body = Body(hidden)
        self.head = nn.Linear(hidden, 1)

    def forward(
        self, domain: Tensor, pool: Tensor, cluster: Tensor, calls: Tensor, uses: Tensor
    ) -> Tensor:
        """[rows]."""
        value: Tensor = self.head(self.body(domain, pool, cluster, calls, uses)[1])[:, 0]
        return value


class ExportedCommander(nn.Module):
    """The policy without noise, with the outputs of the contract in their units."""

    def __init__(self, policy: CommanderPolicy) -> None:
        super().__init__()
        self.policy = policy

    def forward(
        self, domain: Tensor, pool: Tensor, cluster: Tensor, calls: Tensor, uses: Tensor
    ) -> tuple[Tensor, ...]:
        """In the order of OUTPUTS."""
        policy = self.policy
        code, whole = policy.body(domain, pool, cluster, calls, uses)
        moved, moved_cluster = policy.moved.split([DOMAIN_ACTIONS, CLUSTER_ACTIONS])
        of_domain = policy.domain_head(code) * moved
        return (
            *in_units(of_domain, DOMAIN_PORTS),
            *in_units(policy.cluster_head(whole) * moved_cluster, CLUSTER_PORTS),
        )


def in_units(raw: Tensor, ports: tuple[Port, ...]) -> list[Tensor]:
    """Raw actions, one column after the other, as the outputs of the contract."""
    found, first = [], 0
    for port in ports:
        part = raw[..., first : first + width(port)].clamp(-1.0, 1.0)
        first += width(port)
        # Ranges of weights are symmetric, those of factors after the logarithm. 0 gives exactly 1.
        scaled = part * port.high if port.low < 0 else torch.exp(part * float(np.log(port.high)))
        found.append(scaled.squeeze(-1) if port.shape[-1] == "domains" else scaled)
    return found

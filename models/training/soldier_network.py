"""The Soldiers' network in torch: one for all domains, each told which one it is.

The members of a domain are encoded alike and fused with the domain's embedding and what all
members have in common. From that come a replica step, chosen among those that are feasible, and,
given the step, a larger CPU request. Both are projected to what the domain may hold.
"""

from typing import Final, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from models.policies.contract import (
    CPU_SPAN,
    MEMBER_COLUMNS,
    NO_STEP,
    SOLDIER_DOMAIN_COLUMNS,
    STEPS,
)
from models.training.projection import project

_OWN, _COMMON, _DOMAIN = 14, 8, 10
"""Fused to 32 numbers before the trunk."""
_CPU_WIDTH: Final = 16
_SMALL: Final = 0.01
"""Factor on the last layers: the first policy is the heuristic, nearly."""
_STAY: Final = 3.0
"""Added to the logit of no step: a network of zeros is the heuristic, and explores little."""
_NEVER: Final = -1e9
"""Logit of a step that is not feasible."""
_LOG_SPAN: Final = float(np.log(CPU_SPAN))


class Chosen(NamedTuple):
    """What was decided about members, [rows, members] each."""

    step: Tensor
    """Index of the replica step."""
    cpu: Tensor
    """0 for the owner's request, 1 for the largest; beyond, it is cut."""


class Body(nn.Module):
    """A code for each member."""

    def __init__(self, hidden: int) -> None:
        super().__init__()
        self.member = nn.Linear(len(MEMBER_COLUMNS), _OWN)
        self.common = nn.Linear(_OWN, _COMMON)
        self.domain = nn.Linear(len(SOLDIER_DOMAIN_COLUMNS), _DOMAIN)
        self.join = nn.Linear(_OWN + _COMMON + _DOMAIN, hidden)
        self.top = nn.Linear(hidden, hidden)

    def forward(self, domain: Tensor, member: Tensor, cores: Tensor) -> Tensor:
        """[rows, members, hidden]."""
        own = torch.tanh(self.member(member))
        weight = cores.clamp(min=0.0).unsqueeze(2)
        mean = (own * weight).sum(dim=1) / weight.sum(dim=1).clamp(min=1e-6)
        like = torch.ones_like(own[..., :1])
        whole = torch.cat((torch.tanh(self.common(mean)), torch.tanh(self.domain(domain))), dim=1)
        fused = torch.cat((own, whole.unsqueeze(1) * like), dim=2)
        code: Tensor = torch.tanh(self.top(torch.tanh(self.join(fused))))
        return code


class SoldierPolicy(nn.Module):
    """A distribution over replica steps, and given the step over CPU requests."""

    def __init__(self, hidden: int, levers: tuple[str, ...], log_std: float) -> None:
        super().__init__()
        self.body = Body(hidden)
        self.step_head = nn.Linear(hidden, len(STEPS))
        self.cpu_head = nn.Sequential(
            nn.Linear(hidden + len(STEPS), _CPU_WIDTH), nn.Tanh(), nn.Linear(_CPU_WIDTH, 1)
        )
        for last in (self.step_head, self.cpu_head[2]):
            nn.init.zeros_(last.bias)
            with torch.no_grad():
                last.weight.mul_(_SMALL)
        self.log_std = nn.Parameter(torch.full((1,), log_std))
        self.steps, self.resizes = "need" in levers, "cpu" in levers
        stay = torch.zeros(len(STEPS))
        stay[NO_STEP] = 1.0
        self.register_buffer("stay", stay)
        self.register_buffer("factors", torch.tensor(STEPS))

    stay: Tensor
    factors: Tensor

    def logits(self, code: Tensor, feasible: Tensor) -> Tensor:
        """[rows, members, STEPS]; no step is always feasible."""
        allowed = (feasible > 0.5) if self.steps else (feasible > 2.0)
        allowed = allowed | (self.stay > 0.5)
        return torch.where(allowed, self.step_head(code) + _STAY * self.stay, _NEVER)

    def asked_cpu(self, code: Tensor, step: Tensor) -> Tensor:
        """[rows, members] raw request given steps as one-hot [rows, members, STEPS]."""
        raw: Tensor = self.cpu_head(torch.cat((code, step), dim=2)).squeeze(2)
        return raw if self.resizes else torch.zeros_like(raw)

    def mean_cpu(self, code: Tensor, step: Tensor, cores: Tensor, limit: Tensor) -> Tensor:
        """The raw request after the projection: where there is no room, none is explored."""
        raw = self.asked_cpu(code, step)
        _, cpu = project((step * self.factors).sum(dim=2), cpu_of(raw), cores, limit)
        # Below 0 nothing is projected, and the gradient has to find its way back.
        return torch.where(raw > 0.0, torch.log(cpu.clamp(min=1.0)) / _LOG_SPAN, raw)

    def forward(
        self, domain: Tensor, member: Tensor, feasible: Tensor, cores: Tensor, limit: Tensor
    ) -> tuple[Tensor, Tensor]:
        """The outputs of the contract, without noise."""
        code = self.body(domain, member, cores)
        logits = self.logits(code, feasible)
        best = (logits >= logits.amax(dim=2, keepdim=True)).to(logits.dtype)
        # Of equal logits the mean; no step is added to first, so zeros are no step.
        step = best / best.sum(dim=2, keepdim=True)
        return self.projected(step, self.asked_cpu(code, step), cores, limit)

    def projected(
        self, step: Tensor, raw: Tensor, cores: Tensor, limit: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Need and CPU factors of steps as one-hot and raw requests."""
        # Inputs have these bounds; a network must not depend on it.
        held, most = cores.clamp(min=0.0), limit.clamp(min=0.0)
        return project((step * self.factors).sum(dim=2), cpu_of(raw), held, most)


class SoldierValue(nn.Module):
    """The expected discounted reward of the apps of each member."""

    def __init__(self, hidden: int) -> None:
        super().__init__()
        self.body = Body(hidden)
        self.head = nn.Linear(hidden, 1)

    def forward(self, domain: Tensor, member: Tensor, cores: Tensor) -> Tensor:
        """[rows, members]."""
        value: Tensor = self.head(self.body(domain, member, cores)).squeeze(2)
        return value


def cpu_of(raw: Tensor) -> Tensor:
    """The factor on the CPU request; 0 and less give exactly 1."""
    return torch.exp(raw.clamp(0.0, 1.0) * _LOG_SPAN)

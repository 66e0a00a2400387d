"""Fits what a Soldiers' network asks for into what its domain may hold, with a gradient.

Part of the network: training differentiates through it, and the ONNX file contains it. Everything
is in shares of the cores that the domain holds. It shortens increases only, all of them alike: what
is asked for plus what is kept then sums to no more than the limit, or to what is held already where
that is more. Whole pods and single apps are cut by the Soldiers' own rules afterwards.
"""

import torch
from torch import Tensor

_LEAST = 1e-6


def project(need: Tensor, cpu: Tensor, cores: Tensor, limit: Tensor) -> tuple[Tensor, Tensor]:
    """Factors on need and CPU [rows, members] that fit into `limit` [rows, 1].

    `cores` [rows, members] are held. Steps of replicas come first, larger pods from what they
    leave; decreases make no room in the same tick, because pods leave later than others come.
    """
    room = torch.relu(limit - cores.sum(dim=1, keepdim=True))
    steps = _fitting(need - 1.0, cores, room)
    grown = cores * (1.0 + torch.relu(steps))
    room = torch.relu(room - (grown - cores).sum(dim=1, keepdim=True))
    return 1.0 + steps, 1.0 + _fitting(cpu - 1.0, grown, room)


def _fitting(change: Tensor, cores: Tensor, room: Tensor) -> Tensor:
    """Relative changes whose increases use no more than `room` [rows, 1]."""
    more = (cores * torch.relu(change)).sum(dim=1, keepdim=True)
    share = torch.clamp(room / more.clamp(min=_LEAST), max=1.0)
    # A share of exactly 1 leaves every change as it is, bit for bit.
    return torch.where(change > 0.0, change * share, change)

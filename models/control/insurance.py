"""Pods that run before they are needed: a cushion against surges, insurance against losing a zone.

They have to run before it happens. An app whose pods cannot carry its work times out within
seconds, clients send their requests again, and several times the load needs more pods than were
lacking at first. Pods that start then come too late, whether spare nodes or lower priorities make
room for them. So the two highest priorities have a cushion beyond what they are sized for, and a
domain with `survive: zone` is sized for the pods that are left after the loss, with the zones of
its pools evenly filled. The larger of both counts, and what a domain has as headroom is part of it.

Spare nodes count, too: what standing pods fill are the nodes that would stand empty for a surge.
The price of insurance is what exceeds spare nodes and cushion.
"""

from typing import Final, NamedTuple

import numpy as np

from models.cluster.arrays import F64
from models.cluster.inventory import Inventory
from models.control.parameters import Parameters
from models.control.report import Report

_AFTER_LOSS: Final = 0.75
"""Utilisation of what is left of a domain after a loss. Below what apps can bear, because a zone
holds more of some apps than of others, and declared saturations are wrong."""
_PROTECTED: Final = 1
"""The lowest priority whose present work comes before insurance."""
_LACKING: Final = 0.01
"""Share of what these priorities hold that their apps may lack while insurance is kept up."""


class StandingNodes(NamedTuple):
    """Nodes, [E, P] each."""

    kept: F64
    """For bound pods, with the spare ones that go with them."""
    price: F64
    """The part that would not be kept without insurance."""


class StandingPods:
    """What domains of one cluster run beyond their work. E environments, D domains, P pools."""

    def __init__(self, inventory: Inventory, parameters: Parameters) -> None:
        self._choices = inventory.domain_pools
        self._protected = inventory.priority <= _PROTECTED
        left = 1.0 - 1.0 / inventory.pool_zones
        # The least of its pools, because pods may be in any of them.
        left = np.where(self._choices >= 0, left[self._choices], 1.0).min(axis=1)
        left = np.where(inventory.survives_zone, left, 1.0)
        needed = parameters.target(inventory.priority) / (_AFTER_LOSS * left) - 1.0
        self._insured = np.where(inventory.survives_zone, np.maximum(0.0, needed), 0.0)
        self._cushion = parameters.cushion(inventory.priority)

    def cushioned(self, headroom: F64, report: Report) -> F64:
        """Headroom [E, D] for demand, raised to the cushion."""
        return self._raised(headroom, self._cushion, report)

    def insured(self, headroom: F64, report: Report) -> tuple[F64, F64]:
        """Headroom [E, D] raised to what insurance takes, and the part that this adds."""
        raised = self._raised(headroom, self._insured, report)
        return raised, np.maximum(0.0, raised - np.maximum(0.0, headroom))

    def _raised(self, headroom: F64, share: F64, report: Report) -> F64:
        """Headroom, or the share where that is more.

        Not while apps of high priority lack pods for their present work: the loss or the surge has
        come, and room for another one would be taken from what is there.
        """
        lacking = report.distress[:, self._protected].sum(axis=1)
        held = report.held[:, self._protected].sum(axis=1)
        served = (lacking <= _LACKING * held)[:, None]
        # A policy may cut headroom below zero, where no share is asked for.
        raised: F64 = np.where(served & (share > 0.0), np.maximum(headroom, share), headroom)
        return raised

    def nodes(
        self, filled: F64, spare: F64, size: F64, report: Report, standing: F64, insured: F64
    ) -> StandingNodes:
        """Nodes that bound pods need when `standing` [E, D] of what domains want are such pods.

        `insured` [E, D] is the part of these that is insurance. Pods fill the nodes `filled`
        [E, P]; `size` [E, D, P] is what domains fill of one, in cores. `spare` [E, 1] nodes are
        kept free for each other one; standing pods need none.
        """
        bound = report.held - report.pending
        # Of pods that are missing, standing ones are missing first, and of them the insured ones.
        cores = np.minimum(bound, report.wanted) - (1.0 - standing) * report.wanted
        cores = np.maximum(0.0, cores)
        cushion = np.minimum(cores, np.maximum(0.0, standing - insured) * report.wanted)
        placed = self._place(cores, filled, size)
        others = filled - placed
        beyond = np.maximum(0.0, placed - spare * others)
        uninsured = np.maximum(0.0, self._place(cushion, filled, size) - spare * others)
        return StandingNodes(others * (1.0 + spare) + beyond, beyond - uninsured)

    def _place(self, cores: F64, filled: F64, size: F64) -> F64:
        """[E, P] nodes that hold `cores` [E, D] of bound pods: preferred pools first."""
        nodes = np.zeros_like(filled)
        for domain in np.flatnonzero(np.maximum(self._cushion, self._insured)):
            rest = cores[:, domain].copy()
            for pool in self._choices[domain]:
                if pool >= 0:
                    per_node = size[:, domain, pool]
                    fits = np.minimum(filled[:, pool] - nodes[:, pool], rest / per_node)
                    nodes[:, pool] += fits
                    rest -= fits * per_node
        return nodes

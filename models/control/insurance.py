"""Insurance against losing a zone: pods that insured domains run only to carry such a loss.

They have to run before it. An app whose remaining pods cannot carry its work times out within
seconds, clients send their requests again, and several times the load needs more pods than were
lost. Pods that start then come too late, whether spare nodes or lower priorities make room for
them. So a domain with `survive: zone` is sized for its remaining pods, with the zones of its pools
evenly filled; what it has as headroom for demand counts.

Spare nodes count, too: what insured pods fill are the nodes that would stand empty for a surge.
Only what exceeds them is the price of the insurance.
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


class InsuredNodes(NamedTuple):
    """Nodes, [E, P] each."""

    kept: F64
    """For bound pods, with the spare ones that go with them."""
    price: F64
    """The part that would not be kept without insurance."""


class Insurance:
    """What insured domains of one cluster need. E environments, D domains, P pools."""

    def __init__(self, inventory: Inventory, parameters: Parameters) -> None:
        self._choices = inventory.domain_pools
        self._protected = inventory.priority <= _PROTECTED
        left = 1.0 - 1.0 / inventory.pool_zones
        # The least of its pools, because pods may be in any of them.
        left = np.where(self._choices >= 0, left[self._choices], 1.0).min(axis=1)
        left = np.where(inventory.survives_zone, left, 1.0)
        needed = parameters.target(inventory.priority) / (_AFTER_LOSS * left) - 1.0
        self._share = np.where(inventory.survives_zone, np.maximum(0.0, needed), 0.0)

    def raised(self, headroom: F64, report: Report) -> tuple[F64, F64]:
        """Headroom [E, D] for demand raised to what insurance takes, and the part that this adds.

        Nothing while apps of high priority lack pods for their present work: the loss has come, or
        a surge has, and room for another one would be taken from what is there.
        """
        lacking = report.distress[:, self._protected].sum(axis=1)
        held = report.held[:, self._protected].sum(axis=1)
        served = (lacking <= _LACKING * held)[:, None]
        raised = np.where(served & (self._share > headroom), self._share, headroom)
        # A policy may cut headroom below zero: that makes no domain an insured one.
        raised = np.where(self._share > 0.0, raised, headroom)
        return raised, np.maximum(0.0, raised - np.maximum(0.0, headroom))

    def nodes(self, filled: F64, spare: F64, size: F64, report: Report, part: F64) -> InsuredNodes:
        """Nodes that bound pods need when `part` [E, D] of what domains want is insurance.

        Pods fill the nodes `filled` [E, P]; `size` [E, D, P] is what domains fill of one, in cores.
        `spare` [E, 1] nodes are kept free for each other one; insured pods need none.
        """
        bound = report.held - report.pending
        # Of pods that are missing, the insured ones are missing first.
        cores = np.minimum(bound, report.wanted) - (1.0 - part) * report.wanted
        insured = self._place(np.maximum(0.0, cores), filled, size)
        others = filled - insured
        price = np.maximum(0.0, insured - spare * others)
        return InsuredNodes(others * (1.0 + spare) + price, price)

    def _place(self, cores: F64, filled: F64, size: F64) -> F64:
        """[E, P] nodes that hold `cores` [E, D] of bound pods: preferred pools first."""
        nodes = np.zeros_like(filled)
        for domain in np.flatnonzero(self._share):
            rest = cores[:, domain].copy()
            for pool in self._choices[domain]:
                if pool >= 0:
                    per_node = size[:, domain, pool]
                    fits = np.minimum(filled[:, pool] - nodes[:, pool], rest / per_node)
                    nodes[:, pool] += fits
                    rest -= fits * per_node
        return nodes

"""The kinds of events in simulated months, modelled on the shipped scenarios.

There are no retry storms, because nothing is overloaded in the months.
"""

from typing import Final, NamedTuple

Range = tuple[float, float]
"""Smallest and largest value to draw."""

_SHOP: Final = ("edge", "checkout", "authorisation")
_BROWSING: Final = ("gateway", "catalogue")


class Part(NamedTuple):
    """Apps that an event affects, and how strongly."""

    domains: tuple[str, ...]
    tiers: tuple[str, ...] = ()
    """Empty for all tiers."""
    share: float = 1.0
    """Share of the apps in these tiers."""
    weight: float = 1.0
    """Share of the event's change of traffic; negative for a change the other way."""
    ramp_min: Range = (0.5, 2.0)
    follows: bool = False
    """Begins when the first part is over: delayed traffic arrives afterwards."""


class Kind(NamedTuple):
    """Events with a similar effect."""

    variants: tuple[tuple[Part, ...], ...]
    """One of these is drawn for each event."""
    factor: Range
    hold_min: Range
    decay_min: Range
    hours: Range
    """Hours of the day between which it begins; above 24 is after midnight."""
    weight: float
    """Frequency, relative to the other kinds."""
    plannable: bool
    """Whether it can be announced; other kinds are never in a calendar."""
    swings: int = 0
    """Number of swings up and equally far down; 0 for a single rise or fall."""

    @property
    def domains(self) -> frozenset[str]:
        """Domains that any variant affects."""
        return frozenset(name for parts in self.variants for part in parts for name in part.domains)


KINDS: Final = {
    "flash-sale": Kind(
        variants=(
            (
                Part(("payments",), _SHOP),
                Part(("merchant",), _BROWSING, weight=0.35, ramp_min=(2, 5)),
            ),
        ),
        factor=(1.5, 3.0),
        hold_min=(15, 45),
        decay_min=(5, 15),
        hours=(9, 21),
        weight=3.0,
        plannable=True,
    ),
    "campaign": Kind(
        variants=(
            (
                Part(("payments",), _SHOP, ramp_min=(2, 15)),
                Part(("merchant",), _BROWSING, weight=0.3, ramp_min=(3, 15)),
            ),
        ),
        factor=(1.3, 2.3),
        hold_min=(25, 150),
        decay_min=(10, 40),
        hours=(8, 20),
        weight=2.5,
        plannable=True,
    ),
    "evening-sale": Kind(
        variants=((Part(("payments",)),),),
        factor=(1.6, 2.6),
        hold_min=(15, 40),
        decay_min=(5, 15),
        hours=(18, 22),
        weight=1.5,
        plannable=True,
    ),
    "nightly-batch": Kind(
        variants=(
            (
                Part(("internal",), ("tooling", "batch"), ramp_min=(1, 4)),
                Part(("data",), ("ingest", "transform"), share=0.5, weight=0.6, ramp_min=(1, 5)),
            ),
        ),
        factor=(1.8, 3.0),
        hold_min=(30, 90),
        decay_min=(3, 10),
        hours=(20, 28),
        weight=2.5,
        plannable=True,
    ),
    "partner-maintenance": Kind(
        variants=((Part(("merchant",), ramp_min=(1, 5)),),),
        factor=(0.3, 0.7),
        hold_min=(30, 120),
        decay_min=(2, 10),
        hours=(0, 24),
        weight=1.5,
        plannable=True,
    ),
    "spike": Kind(
        variants=tuple(
            (Part((domain,)),) for domain in ("payments", "fraud", "merchant", "data", "internal")
        ),
        factor=(1.4, 2.8),
        hold_min=(8, 30),
        decay_min=(5, 12),
        hours=(0, 24),
        weight=2.0,
        plannable=False,
    ),
    "correlated-spike": Kind(
        variants=((Part(("payments", "fraud", "merchant", "data"), share=0.7),),),
        factor=(1.3, 2.0),
        hold_min=(10, 25),
        decay_min=(5, 12),
        hours=(7, 23),
        weight=1.0,
        plannable=False,
    ),
    "rise": Kind(
        variants=((Part(("payments", "fraud", "merchant"), ramp_min=(5, 15)),),),
        factor=(1.1, 1.4),
        hold_min=(15, 45),
        decay_min=(5, 15),
        hours=(7, 20),
        weight=1.5,
        plannable=False,
    ),
    "slow-drift": Kind(
        variants=(
            (
                Part(("merchant",), ramp_min=(60, 150)),
                Part(("payments",), weight=0.6, ramp_min=(60, 120)),
            ),
            (Part(("data", "internal"), ramp_min=(60, 180)),),
        ),
        factor=(1.2, 1.7),
        hold_min=(30, 240),
        decay_min=(60, 180),
        hours=(6, 18),
        weight=1.5,
        plannable=False,
    ),
    "regime": Kind(
        variants=((Part(("merchant",), ramp_min=(2, 5)),), (Part(("data",), ramp_min=(2, 5)),)),
        factor=(1.15, 1.4),
        hold_min=(10, 25),
        decay_min=(2, 5),
        hours=(8, 20),
        weight=1.0,
        plannable=False,
        swings=2,
    ),
    "outage-elsewhere": Kind(
        variants=tuple(
            (
                Part(domains, share=0.8),
                Part(domains, share=0.8, weight=-0.5, ramp_min=(1, 3), follows=True),
            )
            for domains in (("payments", "fraud"), ("merchant",), ("data", "internal"))
        ),
        factor=(0.2, 0.7),
        hold_min=(5, 45),
        decay_min=(0.5, 4),
        hours=(0, 24),
        weight=1.5,
        plannable=False,
    ),
}

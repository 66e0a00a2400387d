"""HPA's trade-off between nodes and violations: entrants that only a comparison needs."""

from typing import Final

FRONTIER: Final = tuple(
    f"hpa:{target:g}" for target in (0.45, 0.5, 0.55, 0.6, 0.65, 0.7, 0.75, 0.8)
)

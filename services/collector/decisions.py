"""The last decision about each app, for the status of its profile. No IO."""

from collections.abc import Set as AbstractSet
from typing import Any, Final

from schemas.scale_applied import ScaleApplied
from services._kit.clock import Clock

_REST_S: Final = 60.0
"""Reasons to hold change often; a status is written at most once in this time because of one."""


class Decisions:
    """What the actuator did with the last change of each app, and why."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._newest: dict[str, tuple[int, dict[str, Any]]] = {}
        """By app: the tick, and the fields of a status."""
        self._shown: dict[str, tuple[float, dict[str, Any]]] = {}
        """By app: since when, and what is said."""

    def learn(self, event: ScaleApplied) -> None:
        """Take in an audit, unless it is late."""
        for index, app in enumerate(event.apps):
            tick, before = self._newest.get(app, (-1, {}))
            found: dict[str, Any] = {
                "outcome": event.outcomes[index],
                "reason": event.reasons[index],
                "replicas": event.replicas[index],
                "replicasBefore": event.replicas_before[index],
                "id": event.decision_id,
                "time": event.time,
            }
            if event.tick < tick:
                continue
            if _repeats(found, before):
                # Since when it is so says more than that it still is.
                found = before
            self._newest[app] = event.tick, found

    def keep(self, apps: AbstractSet[str]) -> None:
        """Forget apps that are gone."""
        for known in (self._newest, self._shown):
            for app in known.keys() - apps:
                del known[app]

    def of(self, app: str) -> dict[str, Any] | None:
        """What a status says of the app now; None if nothing is known."""
        if app not in self._newest:
            return None
        _, newest = self._newest[app]
        since, shown = self._shown.get(app, (0.0, None))
        now = self._clock.now()
        if shown is None or newest["outcome"] == "applied" or now - since >= _REST_S:
            if shown != newest:
                self._shown[app] = now, newest
            return newest
        return shown


def _repeats(found: dict[str, Any], before: dict[str, Any]) -> bool:
    said = ("outcome", "reason", "replicas", "replicasBefore")
    return found["outcome"] == "held" and [found[k] for k in said] == [before.get(k) for k in said]

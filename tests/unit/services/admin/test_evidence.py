"""The evidence about a decision has the overrides that were in force, and no others."""

from collections.abc import Callable
from typing import Any, cast

import pytest
from msgspec.structs import replace

from schemas.app_declared import AppDeclared
from schemas.breaker_changed import BreakerChanged
from schemas.fields import Event
from schemas.override_issued import OverrideIssued
from schemas.scale_planned import ScalePlanned
from schemas.topics import key_of
from services.admin import evidence
from services.admin.reader import TopicReader
from tests.unit.services.system_helpers import example


class RecordedEvents:
    """Finds events in a list, the newest last."""

    def __init__(self, *events: Event) -> None:
        self._events = events

    def read_all(self, kind: type[Event]) -> list[Any]:
        return [one for one in self._events if isinstance(one, kind)]

    def find_newest(self, kind: type[Event], key: str, wanted: Callable[[Any], bool]) -> Any:
        found = (one for one in reversed(self._events) if isinstance(one, kind))
        return next((one for one in found if key_of(one) == key and wanted(one)), None)


@pytest.mark.parametrize("lifted", [True, False])
def test_a_lifted_override_is_no_evidence(lifted: bool) -> None:
    plan = example(ScalePlanned)
    declared = replace(example(AppDeclared), app=plan.apps[0], domain=plan.domain)
    issued = replace(example(OverrideIssued), scope=declared.app, kind="app", lifted=False)
    reader = cast(TopicReader, RecordedEvents(issued, replace(issued, lifted=lifted)))
    found = evidence._collect(reader, declared, plan)
    assert bool(found.overrides) is not lifted


def test_a_decision_is_explained_by_the_breakers_of_its_domain_and_of_the_cluster() -> None:
    plan = example(ScalePlanned)
    declared = replace(example(AppDeclared), app=plan.apps[0], domain=plan.domain)
    own, other, whole = (
        replace(example(BreakerChanged), scope=scope, tick=plan.tick)
        for scope in (plan.domain, "elsewhere", "cluster")
    )
    reader = cast(TopicReader, RecordedEvents(own, other, whole))
    found = evidence._collect(reader, declared, plan)
    assert (found.breaker, found.cluster_breaker) == (own, whole)

"""What a forecaster's network would see of the minutes that the running service remembers.

For the gate. Frames are kept for hours and its features look back a week, so the saved state is
read instead, with the histories and announcements that the service reads.
"""

from collections.abc import Iterable, Mapping
from typing import Final

import numpy as np

from models.cluster.arrays import F32
from models.cluster.description import Cluster
from models.forecaster.learned.encode import encode
from models.forecaster.learned.features import network_features, reference_of
from models.forecaster.learned.inputs import joined
from models.forecaster.port import ticks_per_minute
from models.registry.load import Artefact
from schemas.demand_backfilled import DemandBackfilled
from schemas.demand_forecast import DemandForecast
from schemas.event_scheduled import EventScheduled
from schemas.fields import Event
from schemas.topics import state_topic
from services._kit.errors import Refused
from services._kit.handler import CLUSTER
from services._kit.kafka import state_record_of
from services._kit.state_codec import decode
from services._kit.state_records import FoundStates
from services._kit.ticks import axis_of
from services.admin.reader import TopicReader
from services.forecaster.builder import ModelBuilder
from services.forecaster.decide import ForecasterState
from services.forecaster.model import SHIPPED

_SERVICE: Final = "forecaster"
_RULE: Final = "calendar"
"""A builder of a rule opens no network."""
_STRETCH_MIN: Final = 120
MINUTES: Final = 60
"""The window of a service that watches."""
LEAST_MINUTES: Final = 30
"""Fewer minutes with a value are no evidence."""


def remembered_drift(
    reader: TopicReader, cluster: Cluster, artefact: Artefact
) -> dict[str, float] | None:
    """How far the features of the last hour are from those of training; None: unknown."""
    reference = reference_of(artefact)
    forecasts = [
        one.event
        for one in reader.newest_records(DemandForecast, 1)
        if isinstance(one.event, DemandForecast)
    ]
    if reference is None or not forecasts:
        return None
    saved = FoundStates()
    for one in reader.read_to_end([state_topic(_SERVICE)]):
        saved.add(one.delivery.key.decode(errors="replace"), state_record_of(one.delivery))
    try:
        state = decode(ForecasterState, saved.join(CLUSTER)) if CLUSTER in saved else None
    except Refused:
        return None
    events = [*reader.read_all(EventScheduled), *reader.read_all(DemandBackfilled)]
    newest = max(forecasts, key=lambda event: event.tick)
    values = None if state is None else remembered(state, events, newest, cluster)
    return None if values is None else reference.drift_of(values)


def remembered(
    state: ForecasterState, events: Iterable[Event], newest: DemandForecast, cluster: Cluster
) -> Mapping[str, F32] | None:
    """Values of each feature in the hour up to the newest forecast; None: too few of them."""
    if state.domains != tuple(cluster.domain_names):
        return None
    builder = ModelBuilder(cluster, _RULE, _STRETCH_MIN, SHIPPED)
    for event in events:
        builder.learn(event)
    axis = axis_of(newest.tick, newest.time, cluster.tick_seconds)
    last = newest.tick // ticks_per_minute(cluster.tick_seconds)
    series = builder.series(last, axis, state.recent)
    hours = [encode(one, np.arange(max(0, one.rps.size - MINUTES), one.rps.size)) for one in series]
    # A domain that was silent for all of the hour would hide nothing, and show nothing.
    if max(int(np.isfinite(one.scale).sum()) for one in hours) < LEAST_MINUTES:
        return None
    return network_features(joined(hours))

"""Events and runs for tests of the commands around a running system."""

from pathlib import Path
from typing import TypeVar

from schemas.codec import decode
from schemas.fields import Event
from schemas.topics import topic_of
from services.devcluster.record import Run, ServiceSpec, Simulation

E = TypeVar("E", bound=Event)
EXAMPLES = Path("schemas/examples")
SIMULATION = Simulation(
    scenario="cascade", seed=3, apps=60, domains=("payments", "data"), tick_seconds=10,
    total_ticks=30, pace="lock-step",
)  # fmt: skip


def example(kind: type[E], variant: str = "") -> E:
    """The golden example of an event."""
    name = topic_of(kind).name
    event = decode(name, (EXAMPLES / f"{name}{variant}.json").read_bytes())
    assert isinstance(event, kind)
    return event


def spec(name: str, **given: object) -> ServiceSpec:
    fields: dict[str, object] = {
        "name": name,
        "command": ("true",),
        "environment": {},
        "url": f"http://{name}",
        "log": f"{name}.log",
    }
    return ServiceSpec(**{**fields, **given})  # type: ignore[arg-type]


def run_of(*specs: ServiceSpec) -> Run:
    return Run(
        name="a-run", folder="folder", simulation=SIMULATION, bootstrap="127.0.0.1:1",
        kafka_home="home",
        cluster_url="http://cluster", started=0.0, specs=specs,
    )  # fmt: skip

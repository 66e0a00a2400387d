"""The live view shows what the topics of a running system say."""

import time
from io import StringIO

import pytest
from msgspec.structs import replace
from rich.console import Console

from models.inputs.errors import InputError
from schemas.breaker_changed import BreakerChanged
from schemas.budget_granted import BudgetGranted
from schemas.domain_observed import DomainObserved
from schemas.pool_observed import PoolObserved
from schemas.rejected import Rejected
from schemas.scale_applied import ScaleApplied
from schemas.scale_planned import ScalePlanned
from services.cli.output import short
from services.cli.system.follow import check_decided, new_state
from services.cli.system.state import DomainState, SystemState, change_line
from services.cli.system.view import Health, LiveView, PlainView, plain_line, render, when
from services.devcluster.lifecycle import has_ended
from services.devcluster.probe import ServiceMetrics, parse_metrics
from services.devcluster.record import ServiceStatus
from tests.unit.services.system_helpers import SIMULATION, example, run_of, spec


def full_state() -> SystemState:
    state = new_state(SIMULATION)
    for kind in (DomainObserved, BudgetGranted, ScalePlanned, ScaleApplied, PoolObserved):
        state.update(example(kind))
    state.update(replace(example(BreakerChanged, ".open"), scope="payments"))
    return state


def text_of(state: SystemState, health: Health, width: int = 80) -> str:
    console = Console(file=StringIO(), width=width)
    console.print(render(state, health, SIMULATION))
    file = console.file
    assert isinstance(file, StringIO)
    return file.getvalue()


def test_the_state_keeps_the_newest_figures_of_each_domain() -> None:
    state = full_state()
    domain = state.domains["payments"]
    assert (domain.replicas, domain.ready, domain.pending, domain.missing) == (60, 59, 0, 1)
    assert domain.budget is not None
    assert domain.held == 55.5
    assert state.outcomes["applied"] == 1
    assert state.tick == 8640


def test_a_tick_is_closed_when_the_last_domain_has_closed_it() -> None:
    state = full_state()
    assert state.closed == -1
    state.update(replace(example(ScaleApplied, ".nothing-to-do"), domain="data", tick=8639))
    assert state.closed == 8639


def test_the_view_names_every_domain_its_budget_and_its_open_breaker() -> None:
    text = text_of(full_state(), Health())
    for words in ("payments", "data", "34.0%", "56/4,412", "open", "36 -> 39"):
        assert words in text


def large_state() -> SystemState:
    """A large cluster in trouble: long names, large numbers, an open breaker."""
    names = ("payments-core", "recommendations", "data")
    state = SystemState({name: DomainState() for name in names})
    for domain in state.domains.values():
        domain.rps, domain.replicas, domain.ready, domain.pending = 5_851_234.0, 45_123, 44_117, 999
        domain.p99_over_target, domain.at_risk, domain.missing = 12.34, 120, 17
        domain.held, domain.budget = 105_294.0, replace(example(BudgetGranted), cores=107_211.0)
        domain.breaker, domain.breaker_reason = "half-open", "p99 above its target for 5 minutes"
    return state


def test_nothing_is_cut_on_a_terminal_of_80_columns() -> None:
    run = run_of(spec("forecaster"), spec("simcluster"))
    # Up for eleven days.
    status = ServiceStatus(state="running", since=time.time() - 1e6, restarts=12)
    health = Health(replace(run, statuses={"forecaster": status, "simcluster": status}))
    for name in ("forecaster", "simcluster"):
        health.metrics[name] = ServiceMetrics(ready=True, lag=1_234_567, age_s=123.456)
    text = text_of(large_state(), health)
    assert "…" not in text
    (row,) = (line for line in text.splitlines() if line.strip().startswith("payments-core"))
    assert row.split() == [
        "payments-core", "5.9M", "44.1k/45.1k", "999", "12.34", "120", "34.0%", "105k/107k",
    ]  # fmt: skip


def test_why_a_breaker_is_open_and_missing_metrics_have_their_own_lines() -> None:
    text = text_of(large_state(), Health())
    assert "breaker of data: half-open, p99 above its target for 5 minutes" in text
    assert "apps without metrics: payments-core 17, recommendations 17, data 17" in text
    calm = text_of(SystemState({"data": DomainState(breaker="closed")}), Health())
    assert "breaker of" not in calm
    assert "without metrics" not in calm


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.4, "0"),
        (9_999, "9,999"),
        (9_999.7, "10.0k"),
        (45_123, "45.1k"),
        (99_960, "100k"),
        (585_900, "586k"),
        (999_700, "1.0M"),
        (5_851_234, "5.9M"),
        (123_000_000, "123M"),
    ],
)
def test_large_numbers_are_short_and_never_longer_than_five_characters(
    value: float, text: str
) -> None:
    assert short(value) == text


def test_the_wait_for_the_first_tick_is_explained_above_the_bar() -> None:
    console = Console(file=StringIO(), width=80, force_terminal=True)
    view = LiveView(console, SIMULATION)
    with view:
        view.show(new_state(SIMULATION), Health())
    assert isinstance(console.file, StringIO)
    text = console.file.getvalue()
    assert "…" not in text
    assert "waiting for the first tick" in text


def test_the_view_shows_services_and_failed_ones() -> None:
    run = run_of(spec("soldier"), spec("breaker"))
    failed = ServiceStatus(state="failed", detail="invalid settings; see soldier.log")
    health = Health(replace(run, statuses={"soldier": failed, "breaker": ServiceStatus()}))
    health.metrics["breaker"] = ServiceMetrics(ready=True, lag=7, age_s=0.25)
    text = text_of(new_state(SIMULATION), health)
    assert "given up: soldier: invalid settings; see soldier.log" in text
    assert "250 ms" in text


def test_a_breaker_that_fell_back_is_shown_though_it_is_closed() -> None:
    state, reason = new_state(SIMULATION), "fell back to reactive: skill"
    for scope in ("data", "cluster"):
        fallen = replace(example(BreakerChanged), state="closed", level="reactive", reason=reason)
        state.update(replace(fallen, scope=scope))
    text = text_of(state, Health())
    assert f"breaker of data: closed, {reason}" in text
    assert f"breaker of the cluster: closed {reason}" in text


def test_an_open_breaker_of_the_whole_cluster_is_shown() -> None:
    state = new_state(SIMULATION)
    state.update(replace(example(BreakerChanged, ".open"), scope="cluster"))
    assert set(state.domains) == {"payments", "data"}
    assert "breaker of the cluster: open" in text_of(state, Health())


def test_dead_letters_are_counted_and_shown() -> None:
    state = new_state(SIMULATION)
    state.update(example(Rejected))
    assert "1 dead letters" in text_of(state, Health())


def test_a_log_file_gets_a_headline_and_lines() -> None:
    console = Console(file=StringIO(), width=80)
    view = PlainView(console, SIMULATION)
    state = full_state()
    # A line is printed when all domains have closed the tick.
    state.domains["data"].closed = 8640
    with view:
        view.show(state, Health())
        view.show(state, Health())
    assert isinstance(console.file, StringIO)
    lines = console.file.getvalue().splitlines()
    assert lines[0] == "cascade, 60 apps, seed 3, lock-step"
    assert len(lines) == 2


def test_without_requests_there_is_no_latency() -> None:
    state = SystemState({"data": DomainState(p99_over_target=1.0, replicas=5)})
    assert "data 0/s 0/5 ready p99/target -" in plain_line(state, SIMULATION)
    assert "1.00" not in text_of(state, Health())


def test_a_terminal_gets_a_live_view() -> None:
    console = Console(file=StringIO(), width=160, force_terminal=True)
    view = LiveView(console, SIMULATION)
    with view:
        view.show(full_state(), Health())
    assert isinstance(console.file, StringIO)
    assert "payments" in console.file.getvalue()


def test_a_line_of_changes_names_the_largest_one() -> None:
    assert change_line(example(ScaleApplied)) == (
        "08:00:00 payments: 1 applied; payments/card-authorise 36 -> 39 (scale-out)"
    )


def test_the_age_of_events_is_the_mean_since_the_last_reading() -> None:
    text = (
        "# TYPE hirl_event_age_seconds histogram\n"
        'hirl_event_age_seconds_count{topic="a"} {0}\n'
        'hirl_event_age_seconds_sum{topic="a"} {1}\n'
    )
    first = parse_metrics(text.replace("{0}", "10").replace("{1}", "10"), None)
    second = parse_metrics(text.replace("{0}", "20").replace("{1}", "12"), first)
    assert (first.age_s, second.age_s) == (1.0, 0.2)


def test_a_run_has_ended_when_its_collector_has() -> None:
    run = run_of(spec("simcluster"), spec("collector"))
    assert not has_ended(run)
    assert has_ended(replace(run, statuses={"collector": ServiceStatus(state="done")}))


def test_figures_of_a_run_without_decisions_are_refused() -> None:
    state = SystemState({"payments": DomainState()})
    with pytest.raises(InputError, match="--lock-step"):
        check_decided(state)
    state.domains["payments"].closed = 0
    check_decided(state)


def test_waiting_for_the_first_tick_is_explained_once() -> None:
    console = Console(file=StringIO(), width=200)
    view, nothing = PlainView(console, SIMULATION), new_state(SIMULATION)
    for _ in range(3):
        view.show(nothing, Health())
    assert isinstance(console.file, StringIO)
    assert console.file.getvalue().count("waiting for the first tick") == 1
    assert when(nothing, SIMULATION) == "waiting for the first tick"
    assert "waiting" not in when(full_state(), SIMULATION)

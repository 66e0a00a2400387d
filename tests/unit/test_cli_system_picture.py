"""The view shows what the topics say."""

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
from services.cli.system.follow import check_decided, new_picture
from services.cli.system.picture import Domain, Picture, change_line
from services.cli.system.view import Health, LiveView, PlainView, painting, when
from services.devcluster.probe import Vitals, _vitals
from services.devcluster.record import Standing
from services.devcluster.session import has_ended
from tests.unit.system_data import SCENE, example, run_of, spec


def full_picture() -> Picture:
    picture = new_picture(SCENE)
    for kind in (DomainObserved, BudgetGranted, ScalePlanned, ScaleApplied, PoolObserved):
        picture.take(example(kind))
    picture.take(replace(example(BreakerChanged, ".open"), scope="payments"))
    return picture


def text_of(picture: Picture, health: Health) -> str:
    console = Console(file=StringIO(), width=200)
    console.print(painting(picture, health, SCENE, ""))
    file = console.file
    assert isinstance(file, StringIO)
    return file.getvalue()


def test_a_picture_keeps_the_newest_of_each_domain() -> None:
    picture = full_picture()
    domain = picture.domains["payments"]
    assert (domain.replicas, domain.ready, domain.pending, domain.missing) == (60, 59, 0, 1)
    assert domain.budget is not None
    assert domain.held == 55.5
    assert picture.outcomes["applied"] == 1
    assert picture.tick == 8640


def test_a_tick_is_closed_when_the_last_domain_has_closed_it() -> None:
    picture = full_picture()
    assert picture.closed == -1
    picture.take(replace(example(ScaleApplied, ".nothing-to-do"), domain="data", tick=8639))
    assert picture.closed == 8639


def test_the_view_names_every_domain_its_budget_and_its_open_breaker() -> None:
    text = text_of(full_picture(), Health())
    for words in ("payments", "data", "34.0%", "56/4,412", "open", "36 -> 39"):
        assert words in text


def test_the_view_shows_services_and_who_was_given_up() -> None:
    run = run_of(spec("soldier"), spec("breaker"))
    failed = Standing(state="failed", detail="died 5 times at once, see soldier.log")
    health = Health(replace(run, standings={"soldier": failed, "breaker": Standing()}))
    health.vitals["breaker"] = Vitals(ready=True, lag=7, age_s=0.25)
    text = text_of(new_picture(SCENE), health)
    assert "given up: soldier: died 5 times at once, see soldier.log" in text
    assert "250 ms" in text


def test_an_open_breaker_of_the_whole_cluster_is_shown() -> None:
    picture = new_picture(SCENE)
    picture.take(replace(example(BreakerChanged, ".open"), scope="cluster"))
    assert set(picture.domains) == {"payments", "data"}
    assert "breaker of the cluster: open" in text_of(picture, Health())


def test_dead_letters_are_counted_and_shown() -> None:
    picture = new_picture(SCENE)
    picture.take(example(Rejected))
    assert "1 dead letters" in text_of(picture, Health())


def test_a_log_file_gets_a_headline_and_lines_instead_of_repaints() -> None:
    console = Console(file=StringIO(), width=80)
    view = PlainView(console, SCENE)
    picture = full_picture()
    picture.domains["data"].closed = 8640
    with view:
        view.show(picture, Health())
        view.show(picture, Health())
    assert isinstance(console.file, StringIO)
    lines = console.file.getvalue().splitlines()
    assert lines[0] == "cascade, 60 apps, seed 3, lock-step"
    assert len(lines) == 2


def test_a_terminal_gets_a_repainted_view() -> None:
    console = Console(file=StringIO(), width=160, force_terminal=True)
    view = LiveView(console, SCENE)
    with view:
        view.show(full_picture(), Health())
    assert isinstance(console.file, StringIO)
    assert "payments" in console.file.getvalue()


def test_a_line_of_changes_tells_the_largest_step() -> None:
    assert change_line(example(ScaleApplied)) == (
        "08:00:00 payments: 1 applied; payments/card-authorise 36 -> 39 (scale-out)"
    )


def test_the_age_of_events_is_that_since_the_last_look() -> None:
    text = (
        "# TYPE hirl_event_age_seconds histogram\n"
        'hirl_event_age_seconds_count{topic="a"} {0}\n'
        'hirl_event_age_seconds_sum{topic="a"} {1}\n'
    )
    first = _vitals(text.replace("{0}", "10").replace("{1}", "10"), None)
    second = _vitals(text.replace("{0}", "20").replace("{1}", "12"), first)
    assert (first.age_s, second.age_s) == (1.0, 0.2)


def test_a_run_has_ended_when_its_collector_has() -> None:
    run = run_of(spec("simcluster"), spec("collector"))
    assert not has_ended(run)
    assert has_ended(replace(run, standings={"collector": Standing(state="done")}))


def test_a_run_in_which_nothing_was_decided_has_no_figures() -> None:
    picture = Picture({"payments": Domain()})
    with pytest.raises(InputError, match="--lock-step"):
        check_decided(picture)
    picture.domains["payments"].closed = 0
    check_decided(picture)


def test_whoever_waits_for_the_first_tick_is_told_once_why_it_can_take_long() -> None:
    console = Console(file=StringIO(), width=200)
    view, nothing = PlainView(console, SCENE), new_picture(SCENE)
    for _ in range(3):
        view.show(nothing, Health())
    assert isinstance(console.file, StringIO)
    assert console.file.getvalue().count("compiles kernels: 2 to 4 minutes") == 1
    assert "compiles kernels" in when(nothing, SCENE)
    assert "compiles kernels" not in when(full_picture(), SCENE)

"""Calibration: repeatable, resumable, and on scenarios that the comparison does not use."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import msgspec
import pytest

from models.compare.calibrate import (
    Aggregate,
    Job,
    Setting,
    calibrate,
    in_process,
    in_processes,
)
from models.compare.families import FAMILIES, calibrated, family_of
from models.compare.provenance import (
    NEVER,
    SETS,
    TUNING,
    controller_digest,
    notice,
    outdated,
    scenarios_of,
    tuning_scenarios,
)
from models.control.tuned import load_tuned, store_tuned, tuned
from models.inputs.errors import InputError
from models.sim.config.physics import SimCluster, load_sim_cluster, with_apps
from models.sim.config.scenario import Scenario, load_scenario, scenario_names
from models.sim.world import World

PID = FAMILIES["pid"]


@pytest.fixture(scope="module")
def cluster() -> SimCluster:
    return with_apps(load_sim_cluster(), 20)


@pytest.fixture(scope="module")
def setting(cluster: SimCluster) -> Setting:
    return Setting(cluster, tuning_scenarios(cluster)[:2], (7,))


class Bowl:
    """A runner without a world: J grows with the distance from a known minimum."""

    def __init__(self) -> None:
        self.jobs: list[Job] = []

    def __call__(self, jobs: Sequence[Job]) -> Iterator[tuple[Job, float]]:
        self.jobs.extend(jobs)
        # Out of order, as from worker processes.
        for job in reversed(jobs):
            away = abs(job.point["setpoint"] - 0.5) + abs(job.point["deadband"] - 0.2)
            yield job, 100 * away + len(job.scenario.name)


def test_a_search_improves_on_the_defaults_and_stays_in_its_ranges(setting: Setting) -> None:
    bowl = Bowl()
    found = calibrate(PID, setting, 40, bowl)
    assert found.objective < 0.6 * found.default_objective
    assert len(bowl.jobs) == 80
    # The first two jobs are the defaults, which are not drawn from the ranges.
    for job in bowl.jobs[2:]:
        for name, (low, high) in PID.ranges.items():
            assert low <= job.point[name] <= high


def test_equal_search_seeds_give_equal_results(setting: Setting) -> None:
    first, second = (calibrate(PID, setting, 12, Bowl()) for _ in range(2))
    other = calibrate(PID, setting, 12, Bowl(), search_seed=1)
    assert first == second
    assert first.parameters != other.parameters


def test_the_result_is_never_worse_than_the_defaults(setting: Setting) -> None:
    found = calibrate(PID, setting, 1, Bowl())
    assert found.parameters == PID.defaults()
    assert found.objective == found.default_objective


class Interrupted(Bowl):
    """Stopped while it evaluates its sixth point."""

    def __call__(self, jobs: Sequence[Job]) -> Iterator[tuple[Job, float]]:
        if len(self.jobs) == 10:
            raise KeyboardInterrupt
        yield from super().__call__(jobs)


def test_a_search_that_was_stopped_continues_as_if_it_had_not_been(
    setting: Setting, tmp_path: Path
) -> None:
    whole = calibrate(PID, setting, 12, Bowl(), tmp_path / "whole.journal")
    file, second, done = tmp_path / "study.journal", Bowl(), []
    with pytest.raises(KeyboardInterrupt):
        calibrate(PID, setting, 12, Interrupted(), file)
    resumed = calibrate(PID, setting, 12, second, file, on_done=lambda: done.append(1))
    assert resumed == whole
    assert len(second.jobs) == 2 * (12 - 5)
    assert len(done) == 12


def test_a_search_with_other_seeds_is_another_search(setting: Setting, tmp_path: Path) -> None:
    file, second = tmp_path / "study.journal", Bowl()
    calibrate(PID, setting, 3, Bowl(), file)
    calibrate(PID, setting._replace(seeds=(8,)), 3, second, file)
    assert len(second.jobs) == 6


@pytest.mark.parametrize("scenarios", SETS)
def test_parameters_tuned_for_something_else_are_named(
    cluster: SimCluster, tmp_path: Path, scenarios: str
) -> None:
    everything = Setting(cluster, scenarios_of(scenarios, cluster), (7,))
    found, file = calibrate(PID, everything, 1, Bowl()), tmp_path / "tuned.json"
    store_tuned({"pid": found}, file)
    assert outdated(file) == {}
    fewer = dict(list(found.worlds.items())[1:])
    for changed, named in (({"code": "other"}, "code"), ({"worlds": fewer}, "worlds")):
        store_tuned({"pid": msgspec.structs.replace(found, **changed)}, file)
        assert outdated(file) == {"pid": named}
        assert outdated(file, ["pid~0.9", "static"]) == {"pid": named, "static": NEVER}


def test_other_sets_of_scenarios_are_refused(cluster: SimCluster) -> None:
    with pytest.raises(InputError, match="scenarios: expected one of shipped, tuning, got 'calm'"):
        scenarios_of("calm", cluster)


def test_what_was_never_tuned_is_said_in_the_line_of_what_was_tuned_for_something_else() -> None:
    assert notice({}) == ""
    assert notice({"pid": "code", "vpa": NEVER, "static": "worlds"}) == (
        "tuned for other code or worlds: pid, static; never tuned: vpa (hirl calibrate tunes)"
    )


def test_the_aggregate_is_configurable_and_stored(setting: Setting) -> None:
    worst = Aggregate("worst scenario", max)
    found = calibrate(PID, setting._replace(aggregate=worst), 3, Bowl())
    assert found.aggregate == "worst scenario"
    assert found.objective == max(found.by_scenario.values())


def test_results_store_their_worlds_and_survive_a_round_trip(
    setting: Setting, tmp_path: Path
) -> None:
    found = calibrate(PID, setting, 3, Bowl())
    assert set(found.worlds) == set(found.by_scenario) == {one.name for one in setting.scenarios}
    file = tmp_path / "tuned.json"
    store_tuned({"pid": found}, file)
    store_tuned({"static": msgspec.structs.replace(found, parameters={"peak_factor": 2.0})}, file)
    assert load_tuned(file)["pid"] == found
    assert tuned("static", file) == {"peak_factor": 2.0}
    assert tuned("vpa", file) == {}


def test_an_invalid_file_of_tuned_parameters_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "tuned.json"
    file.write_text('{"pid": 3}')
    with pytest.raises(InputError, match=r"tuned\.json"):
        tuned("pid", file)


@pytest.mark.parametrize("name", ["pit", "", "heuristic-9"])
def test_unknown_names_are_refused(name: str) -> None:
    with pytest.raises(InputError, match="expected one of"):
        family_of(name)
    with pytest.raises(InputError, match="expected one of"):
        calibrated(name)


def test_unknown_parameters_are_refused(setting: Setting) -> None:
    world = World(setting.cluster, setting.scenarios[0], [0])
    with pytest.raises(InputError, match="pid: gain: expected one of"):
        PID.make(world, {"gain": 1.0})


@pytest.mark.parametrize("name", FAMILIES)
def test_every_family_declares_ranges_around_its_defaults(name: str) -> None:
    family = FAMILIES[name]
    for field, value in family.defaults().items():
        low, high = family.ranges[field]
        assert low <= value <= high
        assert low < high


def test_worker_processes_compute_the_same_objectives(cluster: SimCluster) -> None:
    scenario = Scenario(
        name="tiny", shows="Nothing.", start="Mon 10:00", length_minutes=2, warmup_minutes=1
    )
    jobs = [
        Job(FAMILIES[name], FAMILIES[name].defaults(), cluster, scenario, (0, 1))
        for name in ("static", "hpa-calibrated")
    ]
    local = {job.family.name: value for job, value in in_process(jobs)}
    with in_processes(2) as runner:
        remote = {job.family.name: value for job, value in runner(jobs)}
    assert local == remote
    assert all(value > 0 for value in local.values())


def test_the_two_sets_of_scenarios_are_disjoint(cluster: SimCluster) -> None:
    shipped = [load_scenario(name, cluster) for name in scenario_names()]
    for mine in scenarios_of(TUNING, cluster):
        for theirs in shipped:
            assert mine.name != theirs.name
            assert mine.start != theirs.start
            assert not _events(mine) & _events(theirs)


def _events(scenario: Scenario) -> set[bytes]:
    encode: Callable[[object], bytes] = msgspec.json.encode
    return {encode(msgspec.structs.replace(event, name="")) for event in scenario.events}


def test_a_controllers_digest_follows_its_code_and_not_its_comments(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    module, digests = tmp_path / "a_controller.py", []
    for text in ("GAIN = 1\n", "# why it is one\nGAIN = 1\n", "GAIN = 10\n"):
        module.write_text(text)
        digests.append(controller_digest("a_controller"))
    assert digests[0] == digests[1] != digests[2]
    assert controller_digest("models.baselines.pid") != controller_digest("models.baselines.static")


def test_exceeding_a_bound_outweighs_gains_elsewhere() -> None:
    cluster = with_apps(load_sim_cluster(), 20)
    setting = Setting(cluster, (), (7,), bounds={"calm": 100.0})
    within = setting.value({"calm": 100.0, "storm": 900.0})
    assert within == 500.0
    assert setting.value({"calm": 120.0, "storm": 400.0}) > within

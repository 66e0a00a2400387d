"""Training: the same seed gives the same weights, and an interruption changes nothing."""

from pathlib import Path

import msgspec
import numpy as np
import pytest

from models.control.residual import Advisers
from models.inputs.errors import InputError
from models.policies.artefact import (
    CARD,
    NETWORK,
    CommanderSession,
    load_commander,
    load_soldier,
)
from models.policies.contract import INPUTS
from models.policies.features import feature_names, reference_of
from models.policies.inputs import CommanderInputs
from models.policies.packing import packed
from models.registry.drift import FEATURES
from models.registry.keys import Trust
from models.registry.load import verified
from models.registry.manifest import SAMPLES
from models.registry.session import open_session
from models.sim.config.scenario import Scenario
from models.training.args import SOLDIER, Args
from tests.planted_models import soldier_network, trained_folder
from tests.unit.models.control.control_helpers import CLUSTER, POPULATION, SPIKE

torch = pytest.importorskip("torch", reason="training needs torch: run `make test-train`")

from models.training import produce  # noqa: E402
from models.training.agents import NOBODY, Commander, Memory, agent_of  # noqa: E402
from models.training.clone import clone  # noqa: E402
from models.training.export import TOLERANCE, export  # noqa: E402
from models.training.ppo import Iteration, Trainer, credited, judge  # noqa: E402
from models.training.rollouts import Track  # noqa: E402

SCENARIO = Scenario(
    name="short", shows="What the test needs.", start="Mon 10:00", length_minutes=5,
    warmup_minutes=2, events=(SPIKE,),
)  # fmt: skip
TINY = Args(iterations=2, judge_every=1, epochs=2, minibatch=8, hidden=8, most_nodes=-0.5)
TINY_SOLDIER = SOLDIER._replace(
    levers=("need", "cpu"), iterations=2, judge_every=1, epochs=1, minibatch=16, hidden=8
)
FIRST = msgspec.structs.fields(Iteration)[0].name


class Quiet:
    def played(self) -> None: ...

    def learned(self, iteration: Iteration) -> None: ...


@pytest.fixture(scope="module")
def track() -> Track:
    return Track(CLUSTER, SCENARIO, (0, 1), POPULATION, "none")


def trained(args: Args, track: Track, file: Path) -> Trainer:
    trainer = Trainer(args, file)
    trainer.learn([track], [track], Quiet())
    return trainer


def weights(trainer: Trainer) -> list[np.ndarray]:
    return [value.numpy().copy() for value in trainer.agent.policy.state_dict().values()]


def test_a_track_that_is_played_again_costs_the_same(track: Track) -> None:
    again = track.play(Advisers())
    for one, other in zip(again, track.plain, strict=True):
        np.testing.assert_array_equal(one, other)
    assert track.plain.nodes.min() > 0.0


def test_a_policy_of_the_other_level_plays_beside_the_one_that_learns(
    track: Track, tmp_path: Path
) -> None:
    folder = trained_folder(tmp_path, "soldier", soldier_network(1.2))
    with_other = Track(CLUSTER, SCENARIO, (0, 1), POPULATION, "none", {"soldier": folder})
    # The heuristic that rewards are paired with is alone.
    np.testing.assert_array_equal(with_other.plain.nodes, track.plain.nodes)
    np.testing.assert_array_equal(with_other.plain.held, track.plain.held)
    assert with_other.play(Advisers()).held.sum() > track.plain.held.sum()


@pytest.mark.parametrize("args", [TINY, TINY_SOLDIER], ids=["commander", "soldier"])
def test_a_resumed_run_ends_with_the_weights_of_one_that_was_not_interrupted(
    args: Args, track: Track, tmp_path: Path
) -> None:
    whole = trained(args, track, tmp_path / "whole.pt")
    trained(args._replace(iterations=1), track, tmp_path / "parts.pt")
    resumed = trained(args, track, tmp_path / "parts.pt")
    for one, other in zip(weights(whole), weights(resumed), strict=True):
        np.testing.assert_array_equal(one, other)
    assert [getattr(each, FIRST) for each in whole.curve] == [0, 1]
    assert whole.start == resumed.start is not None
    fresh = weights(Trainer(args, tmp_path / "none.pt"))
    assert not all(np.array_equal(a, b) for a, b in zip(fresh, weights(whole), strict=True))


def test_a_policy_beyond_its_cap_pays_a_price_and_is_never_the_best(
    track: Track, tmp_path: Path
) -> None:
    trainer = trained(TINY._replace(iterations=3), track, tmp_path / "state.pt")
    prices = [each.price for each in trainer.curve]
    assert prices == sorted(prices)
    assert prices[0] == 0.0 < prices[-1]
    assert trainer.best_objective == 0.0


def test_a_changing_discount_is_part_of_what_resumes(track: Track, tmp_path: Path) -> None:
    args = TINY._replace(iterations=5, cusum=True, critic_first=0, log_std=1.0)
    whole = trained(args, track, tmp_path / "whole.pt")
    trained(args._replace(iterations=4), track, tmp_path / "parts.pt")
    resumed = trained(args, track, tmp_path / "parts.pt")
    assert [one.discount for one in whole.curve] == [one.discount for one in resumed.curve]
    for one, other in zip(weights(whole), weights(resumed), strict=True):
        np.testing.assert_array_equal(one, other)


def test_a_checkpoint_of_other_settings_is_refused(track: Track, tmp_path: Path) -> None:
    trained(TINY._replace(iterations=1), track, tmp_path / "state.pt")
    with pytest.raises(InputError, match="other settings"):
        Trainer(TINY._replace(hidden=16), tmp_path / "state.pt")


def test_a_batch_of_one_decision_leaves_weights_that_are_numbers(
    track: Track, tmp_path: Path
) -> None:
    trainer = trained(TINY._replace(minibatch=1, iterations=1), track, tmp_path / "state.pt")
    assert all(np.isfinite(each).all() for each in weights(trainer))


@pytest.mark.parametrize("args", [TINY, TINY_SOLDIER], ids=["commander", "soldier"])
def test_an_untrained_policy_is_nearly_the_heuristic(args: Args, track: Track) -> None:
    torch.manual_seed(0)
    agent = agent_of(args)
    _, costs = agent.play(track, None)
    assert abs(judge([(track, costs)]).objective) < 0.05


def test_a_cloned_policy_comes_closer_to_the_oracle(track: Track) -> None:
    torch.manual_seed(0)
    losses = clone(Commander(TINY), [track])
    assert losses[-1] < losses[0]


class Watched(Quiet):
    def prepared(self, scenario: str) -> None: ...


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("args", [TINY, TINY_SOLDIER], ids=["commander", "soldier"])
def test_what_a_training_writes_can_be_served(
    args: Args, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(produce, "training_scenarios", lambda _cluster: (SCENARIO,))
    short = args._replace(
        apps=40,
        smaller=(20,),
        drawn=1,
        iterations=2,
        world_seeds=(0,),
        judge_seeds=(1,),
        forecast="none",
    )
    order = produce.Order(short, tmp_path / "out", tmp_path / "state", "by a test")
    card = produce.produce(order, Watched(), lambda: 0.0)
    assert card.parity <= TOLERANCE
    assert any("the start" in note or "nearly" in note for note in card.notes)
    assert (tmp_path / "out" / "curves.html").exists()
    load = load_commander if args.agent == "commander" else load_soldier
    assert load(tmp_path / "out") is not None
    files = {
        name: (tmp_path / "out" / name).read_bytes() for name in (NETWORK, CARD, SAMPLES, FEATURES)
    }
    artefact = verified(packed(files, "x"), Trust(unsigned=True), "x")
    # The samples are the network's own answers, not those of the export.
    open_session(artefact)
    assert artefact.manifest.world_sha256 == card.world
    # What it saw in training has not drifted from itself.
    reference = reference_of(artefact)
    assert reference is not None
    kind = artefact.manifest.kind
    assert reference.names == tuple(sorted(feature_names(kind)))
    assert artefact.features is not None
    assert any(one.spread > 0 for one in artefact.features.values())


# torch warns about its own exporter.
@pytest.mark.filterwarnings("ignore")
def test_the_exported_commander_answers_alike_for_any_number_of_domains(tmp_path: Path) -> None:
    torch.manual_seed(0)
    assert export("commander", agent_of(TINY).exported, tmp_path / "c.onnx") <= TOLERANCE
    session = CommanderSession(tmp_path / "c.onnx")
    for domains, pools in ((3, 2), (5, 4), (12, 7)):
        sizes = {"rows": 2, "domains": domains, "pools": pools}
        shapes = [[sizes[a] if isinstance(a, str) else a for a in one.shape] for one in INPUTS]
        answer = session(CommanderInputs(*(np.ones(shape, np.float32) for shape in shapes)))
        assert answer["headroom"].shape == (2, domains)
        assert answer["spare"].shape == (2, 1)


def test_a_reward_of_an_app_counts_for_the_member_that_decided_about_it() -> None:
    unit = np.array([[0, 0, 2, NOBODY], [1, 0, 2, 2]], np.int32)
    rewards = np.array([[1.0, 3.0, 5.0, 7.0], [0.0, 0.0, 0.0, 0.0]])
    memory = Memory({}, np.zeros((2, 1, 3, 2), np.float32), rewards, unit)
    values = np.zeros((2, 3))
    gained, returns, weight = credited(memory, values, 0.0, 0.95)
    np.testing.assert_array_equal(gained[0], [2.0, 0.0, 5.0])
    np.testing.assert_array_equal(returns, gained)
    np.testing.assert_array_equal(weight, [[1.0, 0.0, 1.0], [1.0, 1.0, 1.0]])
    # What an app brings later counts for who decided before, whichever member it belongs to then.
    later, _, _ = credited(memory._replace(rewards=rewards[::-1]), values, 0.9, 0.95)
    np.testing.assert_allclose(later[0], 0.9 * 0.95 * np.array([2.0, 0.0, 5.0]))

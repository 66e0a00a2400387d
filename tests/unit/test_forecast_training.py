"""The network and its training; `make test-train` installs torch."""

from pathlib import Path

import numpy as np
import pytest

from models.forecaster.data.series import Series
from models.forecaster.learned.args import Args
from models.forecaster.learned.corpus import Part
from models.forecaster.learned.encode import encode
from models.forecaster.learned.inputs import AHEAD_MIN, FUTURE, PAST, PAST_WINDOWS, STATIC
from models.forecaster.learned.pool import Pool, origins, pools
from models.sim.describe.errors import InputError

torch = pytest.importorskip("torch", reason="the network needs torch: run `make test-train`")

from torch import nn  # noqa: E402

from models.forecaster.learned.export import TOLERANCE, export  # noqa: E402
from models.forecaster.learned.network import (  # noqa: E402
    HIGH,
    LOW,
    MEDIAN,
    PEAK,
    Ensemble,
    Outputs,
    TemporalFusionTransformer,
)
from models.forecaster.learned.session import Session  # noqa: E402
from models.forecaster.learned.training import Epoch, fresh, train  # noqa: E402

TINY = Args(epochs=2, steps=3, batch=16, hidden=8, heads=2, threads=1)


def series(seed: int, days: int = 3) -> Series:
    minutes = np.arange(days * 1440)
    noise = np.random.default_rng(seed).gamma(4.0, 5.0, minutes.size)
    return Series(f"s{seed}", 27_000_000, 1, 100 + 50 * np.sin(minutes / 229) + noise)


def drawn() -> tuple[Pool, Pool]:
    return pools([Part("made up", [series(0), series(1)], 1.0)], 0)


def network_of(seed: int) -> TemporalFusionTransformer:
    torch.manual_seed(seed)
    network = fresh(TINY)
    for parameter in network.parameters():
        torch.nn.init.normal_(parameter, std=0.5)
    network.eval()
    return network


def asked(rows: int, network: nn.Module | None = None) -> Outputs:
    torch.manual_seed(rows)
    shapes = (
        (rows, len(PAST_WINDOWS), len(PAST)),
        (rows, len(AHEAD_MIN), len(FUTURE)),
        (rows, len(STATIC)),
    )
    with torch.no_grad():
        said: Outputs = (network or network_of(0))(*(2 * torch.randn(shape) for shape in shapes))
    return said


def test_quantiles_never_cross_and_a_maximum_is_not_below_them() -> None:
    said = asked(300).quantiles
    assert (said[..., LOW] <= said[..., MEDIAN]).all()
    assert (said[..., MEDIAN] <= said[..., HIGH]).all()
    assert (said[..., HIGH] <= said[..., PEAK]).all()
    assert (said[:, 1:, PEAK] >= said[:, :-1, PEAK]).all()


def test_a_minute_ahead_does_not_look_at_later_ones() -> None:
    attention = asked(8).attention
    ahead = attention[:, :, 16:]
    assert torch.allclose(attention.sum(-1), torch.ones(8, 6))
    for step in range(5):
        assert (ahead[:, step, step + 1 :] == 0).all()


def test_the_weights_of_variables_sum_to_one() -> None:
    said = asked(4)
    assert torch.allclose(said.past_weights.sum(-1), torch.ones(4, 16))
    assert torch.allclose(said.future_weights.sum(-1), torch.ones(4, 6))


class Silent:
    """Waits without a word, and remembers what was judged."""

    def __init__(self) -> None:
        self.heard: list[Epoch] = []

    def begun(self, seed: int) -> None:
        pass

    def step(self, epoch: int, step: int, loss: float) -> None:
        pass

    def judged(self, epoch: Epoch) -> None:
        self.heard.append(epoch)


def test_each_epoch_is_told_once_when_it_is_judged(tmp_path: Path) -> None:
    learned, judged = drawn()
    silent = Silent()
    trained = train(TINY, learned, judged, tmp_path / "c.pt", silent)
    assert silent.heard == trained.curve
    train(TINY, learned, judged, tmp_path / "c.pt", silent)
    assert silent.heard == trained.curve  # nothing is left to do


@pytest.mark.parametrize("threads", [1, 2])
def test_training_is_reproducible_by_seed(threads: int, tmp_path: Path) -> None:
    learned, judged = drawn()
    args = TINY._replace(threads=threads)
    runs = [train(args, learned, judged, tmp_path / f"{i}.pt", Silent()) for i in range(2)]
    other = train(args._replace(seed=1), learned, judged, tmp_path / "x.pt", Silent())
    states = [run.network.state_dict() for run in (*runs, other)]
    assert all(torch.equal(states[0][name], states[1][name]) for name in states[0])
    assert any(not torch.equal(states[0][name], states[2][name]) for name in states[0])


def test_a_run_that_was_stopped_ends_as_if_it_had_not_been(tmp_path: Path) -> None:
    learned, judged = drawn()

    class Stop(Exception):  # noqa: N818  it is no error
        pass

    class Stopping(Silent):
        def step(self, epoch: int, step: int, loss: float) -> None:  # noqa: ARG002  as the others
            if (epoch, step) == (1, 1):
                raise Stop

    whole = train(TINY, learned, judged, tmp_path / "whole.pt", Silent())
    with pytest.raises(Stop):
        train(TINY, learned, judged, tmp_path / "cut.pt", Stopping())
    resumed = train(TINY, learned, judged, tmp_path / "cut.pt", Silent())
    assert resumed.curve == whole.curve
    one, other = whole.network.state_dict(), resumed.network.state_dict()
    assert all(torch.equal(one[name], other[name]) for name in one)


def test_a_run_does_not_go_on_with_other_data(tmp_path: Path) -> None:
    learned, judged = drawn()
    train(TINY, learned, judged, tmp_path / "c.pt", Silent())
    other = learned._replace(target=learned.target + 1e-6)
    with pytest.raises(InputError, match="other data"):
        train(TINY, other, judged, tmp_path / "c.pt", Silent())


def test_training_lowers_the_loss(tmp_path: Path) -> None:
    learned, judged = drawn()
    args = TINY._replace(epochs=4, steps=25, learning_rate=1e-2)
    curve = train(args, learned, judged, tmp_path / "c.pt", Silent()).curve
    assert curve[-1].judged < 0.9 * curve[0].judged


def test_several_networks_say_the_mean_of_what_each_says() -> None:
    members = [network_of(seed) for seed in range(3)]
    apart = torch.stack([asked(4, member).quantiles for member in members])
    assert torch.allclose(asked(4, Ensemble(members)).quantiles, apart.mean(dim=0))


@pytest.mark.filterwarnings("ignore")
def test_the_exported_network_says_the_same_for_any_number_of_rows(tmp_path: Path) -> None:
    network = fresh(TINY).eval()
    assert export(network, tmp_path / "network.onnx") <= TOLERANCE
    one = series(2)
    at = origins(one, one.rps.size)[:7]
    together = Session(tmp_path / "network.onnx").say(encode(one, at)).values
    alone = [Session(tmp_path / "network.onnx").say(encode(one, at[i : i + 1])) for i in range(7)]
    np.testing.assert_allclose(together, np.concatenate([a.values for a in alone]), rtol=1e-5)
    assert np.isfinite(together).all()

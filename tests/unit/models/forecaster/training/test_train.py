"""The network and its training; `make test-train` installs torch."""

from pathlib import Path

import numpy as np
import pytest

from models.forecaster.learned.encode import encode
from models.forecaster.learned.inputs import AHEAD_MIN, FUTURE, PAST, PAST_WINDOWS, STATIC
from models.forecaster.series import Series
from models.forecaster.training.args import Args
from models.forecaster.training.corpus import Part
from models.forecaster.training.pool import Pool, origins, pools
from models.inputs.errors import InputError

torch = pytest.importorskip("torch", reason="the network needs torch: run `make test-train`")

from torch import nn  # noqa: E402

from models.forecaster.learned.artefact import Session  # noqa: E402
from models.forecaster.training.network import (  # noqa: E402
    HIGH,
    LOW,
    MEDIAN,
    PEAK,
    Ensemble,
    Outputs,
    TemporalFusionTransformer,
)
from models.forecaster.training.produce import TOLERANCE, export  # noqa: E402
from models.forecaster.training.train import (  # noqa: E402
    Epoch,
    _batch,
    _with_dropped_inputs,
    fresh,
    train,
)

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


def outputs_of(rows: int, network: nn.Module | None = None) -> Outputs:
    torch.manual_seed(rows)
    shapes = (
        (rows, len(PAST_WINDOWS), len(PAST)),
        (rows, len(AHEAD_MIN), len(FUTURE)),
        (rows, len(STATIC)),
    )
    with torch.no_grad():
        predicted: Outputs = (network or network_of(0))(
            *(2 * torch.randn(shape) for shape in shapes)
        )
    return predicted


def test_quantiles_never_cross_and_peaks_are_at_least_the_high_quantile() -> None:
    predicted = outputs_of(300).quantiles
    assert (predicted[..., LOW] <= predicted[..., MEDIAN]).all()
    assert (predicted[..., MEDIAN] <= predicted[..., HIGH]).all()
    assert (predicted[..., HIGH] <= predicted[..., PEAK]).all()
    assert (predicted[:, 1:, PEAK] >= predicted[:, :-1, PEAK]).all()


def test_a_minute_ahead_does_not_attend_to_later_minutes() -> None:
    attention = outputs_of(8).attention
    ahead = attention[:, :, 16:]
    assert torch.allclose(attention.sum(-1), torch.ones(8, 6))
    for step in range(5):
        assert (ahead[:, step, step + 1 :] == 0).all()


def test_the_weights_of_variables_sum_to_one() -> None:
    predicted = outputs_of(4)
    assert torch.allclose(predicted.past_weights.sum(-1), torch.ones(4, 16))
    assert torch.allclose(predicted.future_weights.sum(-1), torch.ones(4, 6))


class Silent:
    """Stores the epochs that ended."""

    def __init__(self) -> None:
        self.received: list[Epoch] = []

    def begun(self, seed: int) -> None:
        pass

    def step(self, epoch: int, step: int, loss: float) -> None:
        pass

    def epoch_ended(self, epoch: Epoch) -> None:
        self.received.append(epoch)


def test_each_epoch_is_reported_once_when_it_ends(tmp_path: Path) -> None:
    learned, validation = drawn()
    silent = Silent()
    trained = train(TINY, learned, validation, tmp_path / "c.pt", silent)
    assert silent.received == trained.curve
    train(TINY, learned, validation, tmp_path / "c.pt", silent)
    assert silent.received == trained.curve  # nothing is left to do


@pytest.mark.parametrize("threads", [1, 2])
def test_training_is_reproducible_by_seed(threads: int, tmp_path: Path) -> None:
    learned, validation = drawn()
    args = TINY._replace(threads=threads)
    runs = [train(args, learned, validation, tmp_path / f"{i}.pt", Silent()) for i in range(2)]
    other = train(args._replace(seed=1), learned, validation, tmp_path / "x.pt", Silent())
    states = [run.network.state_dict() for run in (*runs, other)]
    assert all(torch.equal(states[0][name], states[1][name]) for name in states[0])
    assert any(not torch.equal(states[0][name], states[2][name]) for name in states[0])


def test_a_resumed_run_gives_the_same_result_as_an_uninterrupted_one(tmp_path: Path) -> None:
    learned, validation = drawn()

    class Stop(Exception):  # noqa: N818  it is no error
        pass

    class Stopping(Silent):
        def step(self, epoch: int, step: int, loss: float) -> None:  # noqa: ARG002  as the others
            if (epoch, step) == (1, 1):
                raise Stop

    whole = train(TINY, learned, validation, tmp_path / "whole.pt", Silent())
    with pytest.raises(Stop):
        train(TINY, learned, validation, tmp_path / "cut.pt", Stopping())
    resumed = train(TINY, learned, validation, tmp_path / "cut.pt", Silent())
    assert resumed.curve == whole.curve
    one, other = whole.network.state_dict(), resumed.network.state_dict()
    assert all(torch.equal(one[name], other[name]) for name in one)


def test_a_run_is_not_resumed_with_other_data(tmp_path: Path) -> None:
    learned, validation = drawn()
    train(TINY, learned, validation, tmp_path / "c.pt", Silent())
    other = learned._replace(target=learned.target + 1e-6)
    with pytest.raises(InputError, match="other data"):
        train(TINY, other, validation, tmp_path / "c.pt", Silent())


def test_training_lowers_the_loss(tmp_path: Path) -> None:
    learned, validation = drawn()
    args = TINY._replace(epochs=4, steps=25, learning_rate=1e-2)
    curve = train(args, learned, validation, tmp_path / "c.pt", Silent()).curve
    assert curve[-1].validation_loss < 0.9 * curve[0].validation_loss


def test_dropping_earlier_days_hides_exactly_what_a_new_service_lacks() -> None:
    learned, _ = drawn()
    young = TINY._replace(anonymous=0.0, uncalendared=0.0, clockless=0.0, young=1.0)
    whole = _batch(learned, learned.share.size - np.arange(1, 41))
    dropped = _with_dropped_inputs(whole, young)
    # Exactly the inputs that are zero for a series shorter than a day must be dropped.
    one = series(3)
    new = encode(one._replace(rps=one.rps[:1300]), np.array([1299]))
    for names, seen, left, new_service in (
        (FUTURE, whole["future"], dropped["future"], new.future[0]),
        (STATIC, whole["static"], dropped["static"], new.static),
    ):
        for index, name in enumerate(names):
            if name.startswith(("yesterday", "last_week", "usual", "smooth", "has_", "day_skill")):
                assert (left[..., index] == 0).all(), name
                assert (new_service[..., index] == 0).all(), name
                assert (seen[..., index] != 0).any() or "week" in name, name
            else:
                assert torch.equal(left[..., index], seen[..., index]), name


def test_an_earlier_level_can_be_the_whole_forecast() -> None:
    network = fresh(TINY).eval()
    names = [name for name in FUTURE if name.endswith("_ago")]
    assert names == ["half_hour_ago", "hour_ago", "hours_ago"]
    ahead, windows = len(AHEAD_MIN), len(PAST_WINDOWS)
    with torch.no_grad():
        network.smooth.weight.zero_()
        network.smooth.bias.view(ahead, -1)[:] = -50.0
        network.smooth.bias.view(ahead, -1)[:, windows + names.index("hour_ago")] = 50.0
        network.trust.bias.fill_(-50.0)
        network.head.bias.zero_()
    past = torch.randn(5, windows, len(PAST))
    future = torch.randn(5, ahead, len(FUTURE))
    with torch.no_grad():
        predicted = network(past, future, torch.randn(5, len(STATIC))).quantiles[..., MEDIAN]
    assert torch.allclose(predicted, future[..., FUTURE.index("hour_ago")], atol=1e-5)


def test_an_ensemble_predicts_the_mean_of_its_members() -> None:
    members = [network_of(seed) for seed in range(3)]
    apart = torch.stack([outputs_of(4, member).quantiles for member in members])
    assert torch.allclose(outputs_of(4, Ensemble(members)).quantiles, apart.mean(dim=0))


@pytest.mark.filterwarnings("ignore")
def test_the_exported_network_predicts_the_same_for_any_number_of_rows(tmp_path: Path) -> None:
    network = network_of(0)
    assert export(network, tmp_path / "network.onnx") <= TOLERANCE
    one = series(2)
    at = origins(one, one.rps.size)[:7]
    session = Session((tmp_path / "network.onnx").read_bytes())
    together = session.predict(encode(one, at)).values
    alone = [
        Session((tmp_path / "network.onnx").read_bytes()).predict(encode(one, at[i : i + 1]))
        for i in range(7)
    ]
    np.testing.assert_allclose(together, np.concatenate([a.values for a in alone]), rtol=1e-5)
    assert np.isfinite(together).all()

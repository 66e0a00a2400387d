"""The Soldiers' network: masks, the projection with its gradient, and what zeros mean."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from models.policies.artefact import SoldierSession
from models.policies.contract import CPU_SPAN, MEMBERS, NO_STEP, SOLDIER_INPUTS, STEPS
from models.policies.packing import manifest_of
from models.policies.soldier_inputs import SoldierInputs
from models.registry.load import read_samples
from models.registry.manifest import SAMPLES
from models.training.args import SOLDIER

torch = pytest.importorskip("torch", reason="training needs torch: run `make test-train`")

from models.training.agents import Soldier, agent_of, one_hot  # noqa: E402
from models.training.export import TOLERANCE, export  # noqa: E402
from models.training.projection import project  # noqa: E402

TINY = SOLDIER._replace(hidden=8, levers=("need", "cpu"))


def inputs_of(rows: int, limit: float, seed: int = 0, feasible: float = 1.0) -> dict[str, Any]:
    generator = torch.Generator().manual_seed(seed)
    shapes = {port.name: (rows, *port.shape[1:]) for port in SOLDIER_INPUTS}
    found = {name: torch.randn(shape, generator=generator) for name, shape in shapes.items()}
    found["cores"] = torch.full(shapes["cores"], 1.0 / MEMBERS)
    found["limit"] = torch.full(shapes["limit"], limit)
    found["feasible"] = torch.full(shapes["feasible"], feasible)
    found["feasible"][..., NO_STEP] = 1.0
    return found


def wild(seed: int = 0) -> Soldier:
    """An agent whose answers are anything but small."""
    torch.manual_seed(seed)
    agent = agent_of(TINY)
    assert isinstance(agent, Soldier)
    with torch.no_grad():
        for parameter in agent.policy.parameters():
            parameter.normal_(0.0, 3.0)
    return agent


def used(outputs: tuple[Any, ...], cores: Any) -> Any:
    """Cores with what grows, in shares of what is held; decreases give nothing back yet."""
    need, cpu = outputs
    return (cores * need.clamp(min=1.0) * cpu).sum(dim=1)


@pytest.mark.parametrize("limit", [0.0, 0.9, 1.0, 1.05, 1.1, 3.0])
def test_what_is_asked_for_never_exceeds_the_limit_or_what_is_held(limit: float) -> None:
    for seed in range(20):
        inputs = inputs_of(7, limit, seed)
        with torch.no_grad():
            found = used(wild(seed).policy(**inputs), inputs["cores"])
        assert float(found.max()) <= max(1.0, limit) + 1e-5


def test_the_projection_cuts_nothing_where_there_is_room() -> None:
    need, cpu = torch.tensor([[1.2, 1.0, 0.8]]), torch.tensor([[1.0, 1.5, 1.0]])
    found = project(need, cpu, torch.full((1, 3), 1 / 3), torch.full((1, 1), 2.0))
    torch.testing.assert_close(found, (need, cpu))
    assert float(found[0][0, 1]) == 1.0


def test_the_gradient_of_the_projection_is_that_of_finite_differences() -> None:
    generator = torch.Generator().manual_seed(3)
    cores = torch.rand((4, 6), generator=generator, dtype=torch.float64)
    cores = cores / cores.sum(dim=1, keepdim=True)
    # Rows with room for everything, for some of it, and for nothing.
    limit = torch.tensor([[3.0], [1.15], [1.05], [0.5]], dtype=torch.float64)
    # Not at 1, where the projection has a corner.
    need = 0.6 + 0.8 * torch.rand((4, 6), generator=generator, dtype=torch.float64)
    cpu = 1.05 + 0.9 * torch.rand((4, 6), generator=generator, dtype=torch.float64)
    assert torch.autograd.gradcheck(
        lambda n, c: project(n, c, cores, limit), (need.requires_grad_(), cpu.requires_grad_())
    )


def test_a_step_that_is_not_feasible_is_never_sampled_nor_chosen() -> None:
    agent = wild()
    inputs = inputs_of(50, 3.0, feasible=0.0)
    code = agent.policy.body(inputs["domain"], inputs["member"], inputs["cores"])
    chance = torch.softmax(agent.policy.logits(code, inputs["feasible"]), dim=2)
    assert float(chance[..., NO_STEP].detach().min()) == 1.0
    need, _ = agent.policy(**inputs)
    assert (need == 1.0).all()


def test_a_network_of_zeros_is_the_heuristic_bit_for_bit() -> None:
    agent = wild()
    with torch.no_grad():
        for parameter in agent.policy.parameters():
            parameter.zero_()
    need, cpu = agent.policy(**inputs_of(5, 1.3))
    assert (need == 1.0).all()
    assert (cpu == 1.0).all()


def test_the_request_depends_on_the_step_that_was_chosen() -> None:
    agent, inputs = wild(), inputs_of(3, 3.0)
    code = agent.policy.body(inputs["domain"], inputs["member"], inputs["cores"])
    stay, up = (
        agent.policy.asked_cpu(code, one_hot(torch.full((3, MEMBERS), step)))
        for step in (NO_STEP, len(STEPS) - 1)
    )
    assert not torch.allclose(stay, up)


@pytest.mark.parametrize(("levers", "moved"), [(("need",), 0), (("cpu",), 1)])
def test_a_lever_that_is_left_out_does_not_move(levers: tuple[str, ...], moved: int) -> None:
    torch.manual_seed(0)
    agent = agent_of(TINY._replace(levers=levers))
    with torch.no_grad():
        for parameter in agent.policy.parameters():
            parameter.normal_(0.0, 3.0)
    outputs = agent.policy(**inputs_of(20, 3.0))
    assert (outputs[1 - moved] == 1.0).all()
    assert not (outputs[moved] == 1.0).all()
    assert float(outputs[1].detach().max()) <= CPU_SPAN + 1e-5


# torch warns about its own exporter.
@pytest.mark.filterwarnings("ignore")
def test_the_export_answers_alike_for_a_domain_whichever_domains_are_beside_it(
    tmp_path: Path,
) -> None:
    agent = wild()
    assert export("soldier", agent.exported, tmp_path / "s.onnx") <= TOLERANCE
    manifest = manifest_of("soldier-policy", (tmp_path / "s.onnx").read_bytes())
    samples = read_samples((tmp_path / SAMPLES).read_bytes(), manifest, "x")
    # The states that it was compared on leave some room for larger pods, not all or none.
    cpu = samples.outputs["cpu"]
    assert float(((cpu > 1.0) & (cpu < CPU_SPAN)).mean()) > 0.1
    session = SoldierSession(tmp_path / "s.onnx")
    inputs = SoldierInputs(**{
        name: values.numpy().reshape(2, 12, *values.shape[1:])
        for name, values in inputs_of(24, 1.2).items()
    })  # fmt: skip
    together = session(inputs)
    alone = session(SoldierInputs(*(one[:, 5:6] for one in inputs)))
    for name, values in alone.items():
        np.testing.assert_array_equal(values, together[name][:, 5:6])

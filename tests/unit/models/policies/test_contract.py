"""The registry admits what policies are exported with, and no wider range."""

from models.policies.contract import OUTPUTS, SOLDIER_OUTPUTS
from models.policies.features import feature_names
from models.registry.contract import POLICY_OUTPUTS


def test_the_registry_knows_the_same_outputs_and_ranges() -> None:
    for kind, outputs in (("commander-policy", OUTPUTS), ("soldier-policy", SOLDIER_OUTPUTS)):
        known = POLICY_OUTPUTS[kind]  # type: ignore[index]
        assert {one.name: (len(one.shape), one.low, one.high) for one in outputs} == {
            name: (bound.rank, bound.low, bound.high) for name, bound in known.items()
        }


def test_every_feature_has_a_name_of_its_own() -> None:
    for kind in ("commander-policy", "soldier-policy"):
        names = feature_names(kind)
        assert len(set(names)) == len(names)

"""A survey is a step that says more."""

import numpy as np

from models.control.demand import DemandEstimator
from models.control.parameters import Parameters, Parts
from models.features.encode import Encoder
from models.sim.apps import declare
from services._kit.state_codec import flatten
from tests.unit.control.control_helpers import SPIKE, world_of


def test_a_survey_senses_as_a_step_does_and_sees_as_the_encoder_does() -> None:
    world = world_of(SPIKE, seeds=(0, 1))
    inventory = declare(world.population, world.cluster)
    stepping, surveying = (DemandEstimator(inventory, Parameters(), Parts()) for _ in range(2))
    encoder, first = Encoder(inventory), world.observe()
    one, other, memory = stepping.start(first), surveying.start(first), encoder.start(first)
    for _ in range(40):
        seen = world.observe()
        sensed, one = stepping.step(seen, one)
        surveyed, features, other = surveying.step_with_features(seen, other)
        expected, memory = encoder.encode(seen, memory)
        for found, known in zip((*surveyed, *features), (*sensed, *expected), strict=True):
            assert np.array_equal(found, known)
        for name, kept in flatten(other).items():
            assert np.array_equal(kept, flatten(one)[name])
        world.step(world.hold())

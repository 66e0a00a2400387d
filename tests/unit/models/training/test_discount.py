"""The discount moves at change points only, in their direction, and within its bounds."""

import numpy as np

from models.training.discount import HIGH, LOW, STEP, WIDE_CLIP, Discount


def played(returns: list[float], value: float = 0.9) -> list[Discount]:
    found = [Discount(value=value)]
    for one in returns:
        found.append(found[-1].updated(one))
    return found


def noise(count: int, mean: float = 0.0, seed: int = 0) -> list[float]:
    drawn: list[float] = (mean + 0.1 * np.random.default_rng(seed).normal(size=count)).tolist()
    return drawn


def changes(course: list[Discount]) -> list[int]:
    return [at for at, one in enumerate(course) if one.changed]


def test_noise_rarely_changes_it() -> None:
    total = sum(len(changes(played(noise(40, seed=seed)))) for seed in range(20))
    assert total <= 0.05 * 20 * 40


def test_a_world_that_turned_worse_shortens_the_horizon_and_a_better_one_lengthens_it() -> None:
    for mean, sign in ((-1.0, -1.0), (1.0, 1.0)):
        calm = noise(15)
        course = played([*calm, *noise(10, mean)])
        at = next(one for one in changes(course) if one > 15)
        assert at <= 17
        moved = course[at].value - course[at - 1].value
        assert 0.8 * STEP <= sign * moved <= STEP + 1e-12


def test_a_change_forgets_the_old_mean_and_keeps_what_is_known_of_the_noise() -> None:
    course = played([*noise(15), *noise(3, -1.0, seed=1)])
    at = changes(course)[-1]
    assert course[at].mean == noise(3, -1.0, seed=1)[0]
    assert all(one.variance > 0.3 * course[at].variance for one in course[at + 1 :])


def test_after_a_change_the_clip_is_wider_for_three_iterations() -> None:
    course = played([*noise(15), -1.0, *noise(6, -1.0)])
    at = changes(course)[-1]
    clips = [one.clip(0.2) for one in course[at : at + 5]]
    assert clips == [0.2, WIDE_CLIP, WIDE_CLIP, WIDE_CLIP, 0.2]


def test_it_stays_within_its_bounds() -> None:
    swings = [float(10 ** (at // 4) * (-1) ** (at // 4)) for at in range(200)]
    values = [one.value for value in (LOW, HIGH) for one in played(swings, value)]
    assert min(values) >= LOW
    assert max(values) <= HIGH

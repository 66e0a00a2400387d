"""Every reason that a plan or the actuator gives is explained."""

import ast
import re
from pathlib import Path
from typing import Final, get_args

import services.actuator
from models.cluster.plan import Reason
from schemas.breaker_changed import Action, State
from schemas.reasons import MEANINGS, PLANNED
from services._kit.arrays import REASONS

OTHER_WORDS: Final = {
    *get_args(Action),
    *get_args(State),
    # Errors of dead letters.
    "wrong-decision",
    "unknown-apps",
    # A label of Kubernetes.
    "pod-template-hash",
}
"""Texts of the actuator that look like reasons and are none."""


def test_every_reason_of_a_plan_is_explained() -> None:
    assert set(PLANNED) == {REASONS[reason] for reason in Reason}


def test_every_reason_that_the_actuator_gives_is_explained() -> None:
    (folder,) = services.actuator.__path__
    found = {
        node.value
        for path in Path(folder).glob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }
    codes = {text for text in found if re.fullmatch(r"[a-z]+(-[a-z]+)+", text)}
    assert codes - OTHER_WORDS <= set(MEANINGS)
    assert len(codes & set(MEANINGS)) > 10

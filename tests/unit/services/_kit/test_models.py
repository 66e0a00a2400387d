"""Whatever loading a model raises is a problem of the model, not the end of its service."""

import asyncio
from pathlib import Path

from models.registry.keys import Trust
from models.registry.rollout import Ref
from models.registry.store import Entry, FolderStore
from services._kit.models import LoadModel, ModelLoader


class Forbidden(FolderStore):
    def read(self, entry: Entry) -> dict[str, bytes]:  # noqa: ARG002  as the store
        raise PermissionError(13, "Permission denied")


def test_a_store_that_may_not_be_read_is_a_problem_of_the_version(tmp_path: Path) -> None:
    store = Forbidden(tmp_path)
    loader = ModelLoader("forecaster", store, Trust({}), lambda one: one)
    found = asyncio.run(loader.carry_out(LoadModel(Ref("tft/a", "a" * 64))))
    assert found.model is None
    assert "Permission denied" in found.problem

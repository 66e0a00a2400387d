"""What others have published under the same protocols, on the test rows.

Los-loop: Zhao et al., T-GCN; its epoch was chosen on the test. ETT: as reported by iTransformer
and in the tables of S-Mamba.
"""

from typing import Final, NamedTuple

from models.forecaster.published.protocols import Name


class Published(NamedTuple):
    """A figure of a table; None where it has none."""

    model: str
    steps: int
    mae: float
    mse: float | None = None
    rmse: float | None = None
    accuracy: float | None = None


def _ett(model: str, *pairs: tuple[float, float]) -> tuple[Published, ...]:
    steps = (96, 192, 336, 720)
    return tuple(
        Published(model, ahead, mae=mae, mse=mse)
        for ahead, (mse, mae) in zip(steps, pairs, strict=True)
    )


PUBLISHED: Final[dict[Name, tuple[Published, ...]]] = {
    "losloop": (Published("T-GCN", 3, mae=3.1802, rmse=5.1264, accuracy=0.9127),),
    "etth1": (
        *_ett("iTransformer", (0.386, 0.405), (0.441, 0.436), (0.487, 0.458), (0.503, 0.491)),
        *_ett("PatchTST", (0.414, 0.419), (0.460, 0.445), (0.501, 0.466), (0.500, 0.488)),
        *_ett("DLinear", (0.386, 0.400), (0.437, 0.432), (0.481, 0.459), (0.519, 0.516)),
        *_ett("RLinear", (0.386, 0.395), (0.437, 0.424), (0.479, 0.446), (0.481, 0.470)),
    ),
    "etth2": (
        *_ett("iTransformer", (0.297, 0.349), (0.380, 0.400), (0.428, 0.432), (0.427, 0.445)),
        *_ett("PatchTST", (0.302, 0.348), (0.388, 0.400), (0.426, 0.433), (0.431, 0.446)),
        *_ett("DLinear", (0.333, 0.387), (0.477, 0.476), (0.594, 0.541), (0.831, 0.657)),
        *_ett("RLinear", (0.288, 0.338), (0.374, 0.390), (0.415, 0.426), (0.420, 0.440)),
    ),
}

"""The learning curves of a run as one HTML page, without anything to load from elsewhere."""

import html
import io
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from matplotlib.figure import Figure

from models.training.ppo import Iteration

_PANELS: Final = (
    ("J over the heuristic's, less one", "objective", "judged"),
    ("P0 minutes more than the heuristic's", "p0_minutes", "judged_p0"),
    ("node-hours over the heuristic's, less one", "nodes", "judged_nodes"),
    ("divergence", "kl", None),
    ("loss of the value", "value_loss", None),
    ("standard deviation of the actions", "spread", None),
)
"""Title, figure with noise, and figure of the judged iterations."""


def write_page(title: str, curve: Sequence[Iteration], path: Path) -> None:
    """Write the page; the picture is inside it."""
    name = html.escape(title)
    page = (
        f"<!doctype html><meta charset=utf-8><title>{name}</title>"
        f"<h1>{name}</h1><p>{len(curve)} iterations. Lines: with noise, on the training seeds. "
        f"Dots: without noise, on the judging seeds.</p>{_draw(curve)}"
    )
    path.write_text(page, encoding="utf-8")


def _draw(curve: Sequence[Iteration]) -> str:
    figure = Figure(figsize=(10, 9), layout="constrained")
    for axes, (title, noisy, judged) in zip(figure.subplots(3, 2).flat, _PANELS, strict=True):
        axes.plot([one.iteration + 1 for one in curve], [getattr(one, noisy) for one in curve])
        if judged is not None:
            points = [one for one in curve if getattr(one, judged) is not None]
            at, values = [p.iteration + 1 for p in points], [getattr(p, judged) for p in points]
            axes.plot(at, values, "o")
            axes.axhline(0.0, color="grey", linewidth=0.5)
        axes.set_title(title)
    buffer = io.StringIO()
    figure.savefig(buffer, format="svg", metadata={"Date": None})
    text = buffer.getvalue()
    return text[text.index("<svg") :]

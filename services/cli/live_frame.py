"""The frame of the live views: what a view renders, above a progress bar with the time left."""

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn


class LiveFrame:
    """A part of the terminal that is redrawn in place, at the pace of its caller."""

    def __init__(self, console: Console, total_ticks: int) -> None:
        self._bar = Progress(
            TextColumn("{task.description}"), BarColumn(None), TextColumn("left"),
            TimeRemainingColumn(), console=console, expand=True,
        )  # fmt: skip
        self._task = self._bar.add_task("", total=total_ticks)
        # Refreshed only by `draw`: the caller sets the pace.
        self._live = Live(console=console, auto_refresh=False)

    def start(self) -> None:
        """Take over the lower part of the terminal."""
        self._live.start()

    def stop(self) -> None:
        """Leave the last drawing on the terminal."""
        self._live.stop()

    def draw(self, content: RenderableType, ticks: int, description: str) -> None:
        """Draw `content`, and the bar at `ticks` with its description."""
        self._bar.update(self._task, completed=ticks, description=description)
        self._live.update(Group(content, self._bar), refresh=True)

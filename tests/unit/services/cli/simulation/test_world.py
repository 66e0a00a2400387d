"""The command line answers bad input with one line and code 2, never with a traceback."""

import io
import json
from pathlib import Path

import pytest
import typer
from rich.console import Console

from models.cluster.description import EXAMPLE_CLUSTER
from services.cli import main, output
from services.cli.options import SeedOption

Capture = pytest.CaptureFixture[str]


def refused(capsys: Capture, *arguments: str) -> str:
    """The one line on stderr of a command that must fail with code 2."""
    assert main.run(arguments) == main.EXIT_BAD_INPUT
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 1
    assert lines[0].startswith("hirl: error: ")
    return lines[0].removeprefix("hirl: error: ")


def test_world_show_prints_domains_pools_and_prices(capsys: Capture) -> None:
    assert main.run(["world", "show"]) == 0
    text = capsys.readouterr().out
    for word in ("fintech-100k", "1,550 apps", "payments", "throughput", "fail-open", "m16"):
        assert word in text
    assert "…" not in text, "a table is cut on an ordinary terminal"


def test_a_cluster_file_without_physics_is_checked_and_shown(capsys: Capture) -> None:
    assert main.run(["world", "show", "--cluster", "infra/examples/cluster.yaml"]) == 0
    text = capsys.readouterr().out
    assert "checkout" in text
    assert "timeout" not in text, "physics of another cluster are shown"


def test_world_show_writes_json_into_a_new_folder(capsys: Capture, tmp_path: Path) -> None:
    file = tmp_path / "new" / "cluster.json"
    assert main.run(["world", "show", "--json", str(file)]) == 0
    payload = json.loads(file.read_text())
    assert payload["apps"] == 1550
    assert payload["cluster"]["domains"][0]["name"] == "payments"
    assert payload["mean_price_per_node_hour"]["fraud"] == pytest.approx(2.72 * (0.7 * 0.62 + 0.3))
    assert capsys.readouterr().err == ""


def test_a_json_file_that_cannot_be_written_is_refused(capsys: Capture, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    message = refused(capsys, "world", "show", "--json", str(tmp_path / "file" / "x.json"))
    assert "file/x.json: cannot be written (" in message


def test_a_missing_cluster_file_is_refused(capsys: Capture) -> None:
    message = refused(capsys, "world", "show", "--cluster", "missing.yaml")
    assert message == "missing.yaml: cannot be read (No such file or directory)"


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("priority: P1", "priority: P9", "domains[2].priority: expected one of P0, P1, P2, P3"),
        (
            "cpu_cores: 64",
            "cpu_cores: -64",
            "machines[0].cpu_cores: expected a number > 0, got -64",
        ),
        ("tiers: [edge", "tiers: [[edge", "not valid YAML"),
    ],
    ids=["unknown priority", "negative capacity", "broken YAML"],
)
def test_a_bad_cluster_file_is_refused(
    capsys: Capture, tmp_path: Path, old: str, new: str, expected: str
) -> None:
    file = tmp_path / "bad.yaml"
    file.write_text(EXAMPLE_CLUSTER.read_text().replace(old, new, 1))
    assert expected in refused(capsys, "world", "show", "--cluster", str(file))


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["wurld"], "No such command 'wurld'. Did you mean 'world'?"),
        (["world", "show", "--foo"], "No such option: --foo"),
        (["world", "show", "--json"], "Option '--json' requires an argument."),
    ],
)
def test_a_wrong_command_line_is_refused(
    capsys: Capture, arguments: list[str], expected: str
) -> None:
    assert refused(capsys, *arguments) == expected


def test_without_a_command_the_help_is_shown(capsys: Capture) -> None:
    assert main.run([]) == main.EXIT_BAD_INPUT
    captured = capsys.readouterr()
    assert "Usage: hirl" in captured.out
    assert captured.err == ""


def test_the_help_of_a_command_has_examples(capsys: Capture) -> None:
    assert main.run(["world", "show", "--help"]) == 0
    assert "hirl world show --cluster my.yaml" in capsys.readouterr().out


def test_the_version_is_the_one_of_the_package(capsys: Capture) -> None:
    assert main.run(["--version"]) == 0
    assert capsys.readouterr().out == "hirl 0.1.0\n"


def test_an_interrupt_ends_with_130(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_files: Path | None) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("services.cli.simulation.world.load_sim_cluster", interrupted)
    assert main.run(["world", "show"]) == main.EXIT_INTERRUPTED


def test_a_negative_seed_is_refused() -> None:
    app = typer.Typer()

    @app.command()
    def command(seed: SeedOption = 0) -> None:
        raise AssertionError(f"ran with {seed}")

    with pytest.raises(typer.BadParameter, match="greater than or equal to 0"):
        app(["--seed", "-1"], standalone_mode=False)


def test_progress_prints_start_and_end_without_a_terminal() -> None:
    console = Console(file=io.StringIO(), force_terminal=False)
    with output.progress("Simulating", 100, console) as advance:
        advance(100)
    assert isinstance(console.file, io.StringIO)
    lines = console.file.getvalue().splitlines()
    assert lines[0] == "Simulating ..."
    assert lines[1].startswith("Simulating: done in ")


def test_progress_shows_a_bar_with_the_time_left_on_a_terminal() -> None:
    console = Console(file=io.StringIO(), force_terminal=True, width=80)
    with output.progress("Simulating", 100, console) as advance:
        advance(100)
    assert isinstance(console.file, io.StringIO)
    text = console.file.getvalue()
    assert "100/100" in text
    assert "left" in text


def test_titles_of_tables_are_not_broken_to_the_width_of_the_table() -> None:
    title = "Tiers in call order, pools in order of preference"
    console = Console(file=io.StringIO(), width=80)
    console.print(output.table(title, ("a", "b"), [("x", 1)]))
    assert isinstance(console.file, io.StringIO)
    assert console.file.getvalue().splitlines()[0].strip() == title

"""The page about the `hirl` command, from the live commands."""

from collections.abc import Iterator
from typing import Any, get_args

import typer.main

from services.cli.main import app_of
from services.reference.markdown import NOTE, anchor, default_text, joined, plain, table


def cli_page() -> str:
    """Every command with its arguments, options, defaults and examples."""
    root = typer.main.get_command(app_of(lambda _: True))
    lines = ["# The `hirl` command", "", NOTE, ""]
    lines += [f"- [`{name}`](#{anchor(name)}): {_summary(one)}" for name, one in commands(root)]
    for name, command in commands(root):
        lines += ["", f"## `{name}`", "", *_paragraphs(command.help), ""]
        lines += _parameters(command)
        if command.epilog:
            label, *examples = map(plain, command.epilog.splitlines())
            lines += ["", label, "", *(f"- {example}" for example in examples)]
    return joined(lines)


def commands(group: Any, name: str = "hirl") -> Iterator[tuple[str, Any]]:
    """Every command that can be called, with its full name, depth first."""
    for word, command in group.commands.items():
        full = f"{name} {word}"
        if hasattr(command, "commands"):
            yield from commands(command, full)
        else:
            yield full, command


def _parameters(command: Any) -> list[str]:
    rows = []
    for parameter in command.params:
        is_option = parameter.param_type_name == "option"
        names = [*parameter.opts, *parameter.secondary_opts] if is_option else [parameter.name]
        shown = names if is_option else [parameter.metavar or parameter.name.upper()]
        rows.append(
            (
                ", ".join(f"`{name}`" for name in shown),
                _value(parameter),
                "required" if parameter.required else default_text(_default(parameter)),
                plain(parameter.help or ""),
            )
        )
    if not rows:
        return ["No options."]
    return table(("option", "value", "default", "meaning"), rows)


def _default(parameter: Any) -> object:
    """Default of a pair such as --resume and --fresh: the name of the one that applies."""
    pair = getattr(parameter, "secondary_opts", ())
    if not pair or parameter.default is None:
        return parameter.default
    return parameter.opts[0] if parameter.default else pair[0]


def _value(parameter: Any) -> str:
    if getattr(parameter, "is_flag", False):
        return ""
    choices = get_args(parameter.type_descriptor.annotation)
    if choices and all(isinstance(choice, str) for choice in choices):
        return ", ".join(choices)
    return parameter.metavar or ""


def _summary(command: Any) -> str:
    return plain((command.help or "").split("\n\n")[0])


def _paragraphs(text: str | None) -> list[str]:
    found = [plain(paragraph) for paragraph in (text or "").split("\n\n")]
    return "\n\n".join(found).split("\n")

"""Find commands, make targets, modules, paths and links in the docs, and check that they exist."""

import re
import shlex
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple, get_args

import typer.main

from services.cli.main import app_of

ROOT = Path(__file__).parents[3]
PAGES = sorted(
    {
        *ROOT.glob("*.md"),
        *ROOT.glob("docs/**/*.md"),
        *ROOT.glob("models/**/README.md"),
        *ROOT.glob(".github/**/*.md"),
    }
)
SHELL = {"", "shell", "bash", "console"}
"""Languages of fenced blocks whose lines are commands."""
_FENCE = re.compile(r"^ *```(\w*)[^\n]*\n(.*?)^ *```", re.DOTALL | re.MULTILINE)
_INLINE = re.compile(r"`([^`\n]+)`")
_SEPARATORS = re.compile(r"&&|\|\||;|\|")
_ASSIGNMENT = re.compile(r"[A-Z_]+=\S*")
_PATH = re.compile(r"(?:services|models|schemas|tests|infra|docs)(?:/[\w.\-]+)+/?")
_DOTTED = re.compile(r"(?:services|models|schemas)(?:\.\w+)+")
_FILE = re.compile(r"\w+\.py")
_YOURS = {"my_module.py"}
"""Example files that a reader of the docs creates."""
_LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)|!\[[^\]]*\]\(([^)\s]+)\)")


class Command(NamedTuple):
    """A command line as a page shows it."""

    page: str
    words: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.page}: {' '.join(self.words)}"


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


def commands_in(text: str, page: str = "") -> Iterator[Command]:
    """Every call of hirl, make or a module, in shell blocks and in inline code."""
    for language, block in _FENCE.findall(text):
        if language in SHELL:
            for line in block.replace("\\\n", " ").splitlines():
                yield from _calls(line, page)
    for code in _INLINE.findall(_FENCE.sub("", text)):
        yield from _calls(code, page)


def _calls(line: str, page: str) -> Iterator[Command]:
    # A comment follows at least two blanks; a `#` in an anchor doesn't.
    bare = re.split(r"(?:^|\s\s+)#", line.strip().removeprefix("$ "))[0]
    for part in _SEPARATORS.split(bare):
        try:
            words = shlex.split(part)
        # An unclosed quotation mark: the split cut a quoted text, so this is no command.
        except ValueError:
            continue
        while words and _ASSIGNMENT.fullmatch(words[0]):
            words = words[1:]
        if words and words[0].rpartition("/")[2] in {"hirl", "make", "python"}:
            yield Command(page, (words[0].rpartition("/")[2], *words[1:]))


def problem_of(command: Command) -> str:
    """Describe what is wrong with a command; empty if nothing is."""
    program, *words = command.words
    match program:
        case "hirl":
            return _problem_of_hirl(_root(), words)
        case "make":
            return _problem_of_make(words)
        case _:
            return _problem_of_python(words)


@cache
def _root() -> Any:
    return typer.main.get_command(app_of(lambda _: True))


def _problem_of_hirl(command: Any, words: list[str]) -> str:
    rest = list(words)
    while hasattr(command, "commands") and rest and not rest[0].startswith("-"):
        if rest[0] not in command.commands:
            return f"no command {rest[0]!r} in {command.name}"
        command = command.commands[rest.pop(0)]
    options = {
        name: one
        for one in command.params
        if one.param_type_name == "option"
        for name in (*one.opts, *one.secondary_opts)
    }
    arguments = [one for one in command.params if one.param_type_name == "argument"]
    positional = 0
    while rest:
        word, _, value = rest.pop(0).partition("=")
        if word == "--help":
            continue
        if not word.startswith("--"):
            positional += 1
        elif word not in options:
            return f"no option {word} of {command.name}"
        elif not options[word].is_flag:
            # Inline code may name an option without its value, and capitals are placeholders.
            value = value or (rest.pop(0) if rest else "")
            choices = get_args(options[word].type_descriptor.annotation)
            named = [one for one in choices if isinstance(one, str)]
            if named and value and not value.isupper() and value not in named:
                return f"{word} {value}: expected one of {', '.join(named)}"
    many = any(one.nargs < 0 for one in arguments)
    if positional > len(arguments) and not many:
        return f"{command.name} takes {len(arguments)} arguments, got {positional}"
    return ""


def _problem_of_make(words: list[str]) -> str:
    makefile = (ROOT / "Makefile").read_text()
    targets = set(re.findall(r"^([a-z0-9-]+):", makefile, re.MULTILINE))
    for word in words:
        name, assigned, _ = word.partition("=")
        if assigned and f"$({name})" not in makefile:
            return f"the Makefile reads no variable {name}"
        if not assigned and not name.startswith("-") and name not in targets:
            return f"no make target {name!r}"
    return ""


def _problem_of_python(words: list[str]) -> str:
    if words[:1] != ["-m"] or len(words) < 2 or not _DOTTED.fullmatch(words[1]):
        return ""
    module = ROOT.joinpath(*words[1].split("."))
    is_there = module.with_suffix(".py").is_file() or (module / "__main__.py").is_file()
    return "" if is_there else f"no module {words[1]} that can be run"


def missing_names(text: str) -> Iterator[str]:
    """Paths and dotted names in inline code that don't exist in this repository."""
    for code in _INLINE.findall(_FENCE.sub("", text)):
        if _PATH.fullmatch(code) and not _is_placeholder(code):
            if not (ROOT / code).exists():
                yield code
        elif _FILE.fullmatch(code):
            if code not in _YOURS | _file_names():
                yield code
        elif _DOTTED.fullmatch(code) and not _is_placeholder(code) and not _resolves(code):
            yield code


@cache
def _file_names() -> set[str]:
    folders = ("services", "models", "schemas", "tests", "docs/examples")
    return {file.name for folder in folders for file in (ROOT / folder).rglob("*.py")}


def _is_placeholder(code: str) -> bool:
    """`services/NAME/decide.py` stands for many files."""
    parts = re.split(r"[/.]", code)
    return any(part.isupper() and part != "README" for part in parts)


def _resolves(dotted: str) -> bool:
    """Whether a dotted name is a module, or a name that occurs in one."""
    parts = dotted.split(".")
    for cut in range(len(parts), 0, -1):
        module = ROOT.joinpath(*parts[:cut])
        file = module.with_suffix(".py")
        if cut == len(parts) and (file.is_file() or module.is_dir()):
            return True
        if file.is_file():
            source = file.read_text()
            return all(re.search(rf"\b{name}\b", source) for name in parts[cut:])
    return False


def broken_links(page: Path, text: str) -> Iterator[str]:
    """Links to files or headings that do not exist."""
    for target in (one or other for one, other in _LINK.findall(_FENCE.sub("", text))):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, anchor = target.partition("#")
        file = (page.parent / path).resolve() if path else page
        if not file.exists() or (
            anchor and file.suffix == ".md" and anchor not in anchors(file.read_text())
        ):
            yield target


def anchors(text: str) -> set[str]:
    """The ids that GitHub gives to headings; a repeated heading gets `-1`."""
    found: dict[str, int] = {}
    result = set()
    for heading in re.findall(r"^#+ +(.+)$", _FENCE.sub("", text), re.MULTILINE):
        words = re.sub(r"\]\([^)]*\)", "", heading).lower()
        slug = re.sub(r"[^\w\- ]", "", words).strip().replace(" ", "-")
        count = found.get(slug, 0)
        found[slug] = count + 1
        result.add(f"{slug}-{count}" if count else slug)
    return result

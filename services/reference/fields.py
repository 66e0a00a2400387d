"""Pages about what people write: settings of services, and files.

Types and defaults come from the live classes; the meaning of a field is the docstring below it, so
it is read from the syntax tree.
"""

import ast
import inspect
from collections.abc import Iterator
from importlib import import_module
from typing import Final

import msgspec
from msgspec import inspect as types

from models.cluster.description import Cluster
from models.control.breaker.cluster import ClusterThresholds
from models.control.breaker.limits import Thresholds
from models.sim.config.physics import Physics
from services._kit.settings import KitSettings
from services.reference.markdown import NOTE, default_text, joined, literal_string, table

SERVICES: Final = (
    "collector", "aggregator", "forecaster", "commander", "soldier", "actuator", "provisioner",
    "breaker", "simcluster",
)  # fmt: skip
"""In the order of the data flow."""
_SHARED_FIELDS: Final[dict[str, tuple[type, ...]]] = {"breaker": (Thresholds, ClusterThresholds)}
"""Classes that describe fields which a service's settings only repeat."""
_ABOUT_SETTINGS: Final = (
    "Each setting is a variable, or a field in a YAML or TOML file (the argument of a service, or "
    "`HIRL_CONFIG`) with a section `kit` and one per service. Variables win. An unknown or invalid "
    "setting stops the service with one line and exit status 2."
)
_ABOUT_CLUSTER: Final = (
    "An operator's description of a cluster in YAML, which every service reads and validates at "
    "its start; unknown fields are errors. `infra/examples/cluster.yaml` is the smallest useful "
    "one, `models/cluster/example.yaml` the example cluster. `hirl world show --cluster FILE` "
    "prints what was understood."
)
_ABOUT_PHYSICS: Final = (
    "How a simulated cluster behaves: pod starts, churn, the provisioner, metrics. Only the "
    "simulator reads it. `models/sim/physics.yaml` belongs to the example cluster."
)


# Settings.


def settings_page() -> str:
    """Every setting of every service, with its variable, type, default and meaning."""
    lines = ["# Settings", "", NOTE, "", _ABOUT_SETTINGS]
    lines += ["", "## Every service (section `kit`)", "", *_settings("kit", KitSettings, "HIRL_")]
    for service in SERVICES:
        own = import_module(f"services.{service}.settings").Settings
        lines += ["", f"## {service} (section `{service}`)", ""]
        lines += _settings(service, own, f"HIRL_{service.upper()}_")
    return joined(lines)


def _settings(section: str, own: type[msgspec.Struct], prefix: str) -> list[str]:
    about = field_docs(own)
    for shared in _SHARED_FIELDS.get(section, ()):
        about = field_docs(shared) | about
    described = types.type_info(own)
    if not isinstance(described, types.StructType):
        raise TypeError(f"{own} is not a struct")
    rows = [
        (
            f"`{prefix}{field.name.upper()}`",
            _type(field.type),
            "required" if field.required else f"`{field.default}`" if field.default != "" else "",
            about.get(field.name, ""),
        )
        for field in described.fields
    ]
    return table(("variable", "type", "default", "meaning"), rows)


# Files.


def cluster_file_page() -> str:
    """What an operator's description of a cluster may contain."""
    return _file_page("The cluster file", _ABOUT_CLUSTER, Cluster)


def physics_file_page() -> str:
    """What a description of the simulator's physics may contain."""
    return _file_page("The physics file", _ABOUT_PHYSICS, Physics)


def _file_page(title: str, about: str, whole: type[msgspec.Struct]) -> str:
    """Every field of a file, section by section."""
    lines = [f"# {title}", "", NOTE, "", about]
    for name, kind in _sections("", whole):
        summary = " ".join((kind.cls.__doc__ or "").split())
        lines += ["", f"## {f'`{name}`' if name else 'The file'}", "", summary, ""]
        docs = field_docs(kind.cls)
        rows = [
            (f"`{field.name}`", _type(field.type), _file_default(field), docs.get(field.name, ""))
            for field in kind.fields
        ]
        lines += table(("field", "type", "default", "meaning"), rows)
    return joined(lines)


def _sections(name: str, owner: type[msgspec.Struct]) -> Iterator[tuple[str, types.StructType]]:
    described = types.type_info(owner)
    if not isinstance(described, types.StructType):
        raise TypeError(f"{owner} is not a struct")
    yield name, described
    for field in described.fields:
        inner = _inner_struct(field.type)
        if inner is not None:
            yield from _sections(f"{name}.{field.name}" if name else field.name, inner.cls)


def _inner_struct(kind: types.Type) -> types.StructType | None:
    match kind:
        case types.StructType():
            return kind
        case types.VarTupleType(item_type=item):
            return _inner_struct(item)
        case types.DictType(value_type=value):
            return _inner_struct(value)
        case _:
            return None


def _file_default(field: types.Field) -> str:
    if field.required:
        return "required"
    if field.default_factory is not msgspec.NODEFAULT:
        return "see below" if _inner_struct(field.type) else f"`{field.default_factory()}`"
    return "see below" if _inner_struct(field.type) else default_text(field.default)


def field_docs(owner: type) -> dict[str, str]:
    """The docstring below each field of a class."""
    (tree,) = ast.parse(inspect.getsource(owner)).body
    if not isinstance(tree, ast.ClassDef):
        raise TypeError(f"{owner} is not a class")
    docs = {}
    for field, below in zip(tree.body, tree.body[1:], strict=False):
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name):
            text = literal_string(below.value) if isinstance(below, ast.Expr) else None
            if text is not None:
                docs[field.target.id] = " ".join(text.split())
    return docs


def _type(kind: types.Type) -> str:
    match kind:
        case types.LiteralType(values=values):
            text = ", ".join(map(str, values))
        case types.BoolType():
            text = "true, false"
        case types.IntType() | types.FloatType():
            text = _number(kind)
        case types.VarTupleType(item_type=item):
            text = f"list of {_type(item)}"
        case types.DictType(value_type=value):
            text = f"map of {_type(value)} by name"
        case types.StructType():
            text = "section"
        case _:
            text = "text"
    return text


def _number(kind: types.IntType | types.FloatType) -> str:
    limits = {">": kind.gt, ">=": kind.ge, "<": kind.lt, "<=": kind.le}
    name = "integer" if isinstance(kind, types.IntType) else "number"
    return " ".join([name, *(f"{s} {limit:g}" for s, limit in limits.items() if limit is not None)])

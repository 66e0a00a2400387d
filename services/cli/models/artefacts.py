"""`hirl models keygen|add|list|show|verify`: artefacts, their keys and their store."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer
from rich.console import Console

from models.inputs.errors import InputError
from models.registry import keys as registry_keys
from models.registry.keys import PUBLIC_SUFFIX, Trust
from models.registry.load import Artefact, verified
from models.registry.manifest import MANIFEST, SAMPLES, SIGNATURE
from models.registry.store import Entry, fetch, read_folder
from services.cli.commands import examples
from services.cli.models.options import ArtefactArgument, KeysOption, Place, StoreOption
from services.cli.options import JsonOption
from services.cli.output import plain_console, table, write_json

KeyOption = Annotated[
    Path, typer.Option("--key", metavar="FILE", help="Private key, of hirl models keygen.")
]


@examples("hirl models keygen release.key", "hirl models keygen ~/.hirl/keys/mira --json key.json")
def keygen(
    path: Annotated[Path, typer.Argument(metavar="FILE", help="File of the private key.")],
    json: JsonOption = None,
) -> None:
    """Make a key to sign models with, and the public key that services trust.

    Keep the private key where you keep passwords: whoever has it decides what services may run.
    Services get the public one (HIRL_MODEL_KEYS).
    """
    name = registry_keys.generate(path)
    public = path.with_name(path.name + PUBLIC_SUFFIX)
    console = plain_console()
    console.print(f"{path}: the private key {name}; nobody else can read the file")
    console.print(f"{public}: its public key, for HIRL_MODEL_KEYS")
    if json is not None:
        write_json(json, {"id": name, "private": str(path), "public": str(public)})


@examples("hirl models add .hirl/models/forecaster --key release.key --store /srv/models")
def add(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="Folder of a trained model.")],
    key: KeyOption,
    store: StoreOption = None,
    json: JsonOption = None,
) -> None:
    """Check a trained model, sign it and put it into the store; promotes nothing."""
    place = Place(store, None)
    target = place.opened()
    secret = registry_keys.private_key(key)
    artefact = verified(_files(folder), Trust(unsigned=True), str(folder))
    signature = registry_keys.sign(artefact.version, secret)
    entry = Entry(artefact.manifest.kind, artefact.version)
    target.write(entry, {**artefact.files, SIGNATURE: signature})
    console = plain_console()
    signer = registry_keys.key_id(secret.public_key())
    console.print(f"{artefact.name}: version {artefact.version}, signed by {signer}")
    console.print(f"next: hirl models promote {artefact.version[:12]} --store {target.url}")
    if json is not None:
        write_json(json, _summary(artefact, signer))


@examples("hirl models list --store /srv/models", "hirl models list --store s3://bucket/models")
def list_models(
    store: StoreOption = None, keys: KeysOption = None, json: JsonOption = None
) -> None:
    """List the artefacts of a store, and what is wrong with those that no service would open."""
    place = Place(store, keys)
    opened = place.opened()
    trust, rows, found = place.trust, [], list[dict[str, Any]]()
    for entry in opened.entries():
        try:
            artefact = fetch(opened, entry, trust)
            name, state = artefact.name, f"signed by {artefact.signed_by}"
            found.append(_summary(artefact, artefact.signed_by))
        except InputError as error:
            name, state = "-", str(error).partition(": ")[2]
            found.append({"kind": entry.kind, "version": entry.version, "problem": state})
        rows.append((entry.kind, name, entry.version[:12], state))
    console = Console()
    if rows:
        columns = ("kind", "name", "version", "state")
        console.print(table(f"Artefacts in {opened.url}", columns, rows))
    else:
        plain_console().print(f"{opened.url}: no artefacts; hirl models add puts one there")
    if json is not None:
        write_json(json, found)


@examples("hirl models show models/forecaster/shipped", "hirl models show 4785f03a8924")
def show(
    artefact: ArtefactArgument,
    store: StoreOption = None,
    keys: KeysOption = None,
    json: JsonOption = None,
) -> None:
    """Print the manifest of an artefact: what it is, where it comes from, who signed it."""
    found = Place(store, keys).artefact(artefact)
    manifest, console = found.manifest, plain_console()
    lines = {
        "kind": manifest.kind,
        "name": manifest.name,
        "version": manifest.version,
        "signed by": found.signed_by,
        "parent": manifest.parent or "none",
        "code": manifest.code_version,
        "features": manifest.features_sha256,
        "world": manifest.world_sha256 or "none of its own",
        "data": ", ".join(manifest.data) or "not recorded",
        "command": manifest.command or "not recorded",
        "files": ", ".join(sorted(found.files)),
    }
    for name, text in lines.items():
        console.print(f"{name}: {text}")
    for what, ports in (("input", manifest.inputs), ("output", manifest.outputs)):
        for port in ports:
            limits = "" if port.low is None else f", {port.low:g} to {port.high:g}"
            console.print(f"{what} {port.name}: {port.shape} {port.unit}{limits}".rstrip())
    for metric in manifest.metrics:
        interval = "" if metric.low is None else f" [{metric.low:g}, {metric.high:g}]"
        console.print(f"metric {metric.name}: {metric.value:.4g}{interval}")
    if json is not None:
        write_json(json, msgspec.to_builtins(manifest) | {"signed_by": found.signed_by})


@examples("hirl models verify 4785f03a8924 --store /srv/models --keys release.key.pub")
def verify(
    artefact: ArtefactArgument,
    store: StoreOption = None,
    keys: KeysOption = None,
    json: JsonOption = None,
) -> None:
    """Check an artefact as a service would, its samples included; exit 2 if it is refused.

    Without --keys the signature is not checked.
    """
    from models.registry.session import open_session  # noqa: PLC0415  loads onnxruntime

    found = Place(store, keys).artefact(artefact)
    open_session(found)
    plain_console().print(
        f"{found.name}: version {found.version} is in order, signed by {found.signed_by}; "
        f"answers {found.states} samples as it did where it was exported"
    )
    if json is not None:
        write_json(json, _summary(found, found.signed_by) | {"samples": found.states})


def _files(folder: Path) -> Mapping[str, bytes]:
    """The files of an artefact; a policy as training writes it gets its manifest here."""
    from models.policies import packing  # noqa: PLC0415  loads onnxruntime
    from models.policies.artefact import CARD, NETWORK  # noqa: PLC0415  as above
    from models.registry.drift import FEATURES  # noqa: PLC0415  loads numpy

    # Training also leaves pages with curves there.
    trained = read_folder(folder, (NETWORK, CARD, SAMPLES, FEATURES, MANIFEST))
    if packing.is_trained(trained):
        return packing.packed(trained, str(folder))
    return read_folder(folder)


def _summary(artefact: Artefact, signed_by: str) -> dict[str, Any]:
    return {
        "kind": artefact.manifest.kind,
        "name": artefact.name,
        "version": artefact.version,
        "signed_by": signed_by,
    }

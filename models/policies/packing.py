"""Trained policies as artefacts of the registry: the manifest, and the digest of the features.

Samples are those that training wrote, with the answers of the network in torch. It imports
onnxruntime, so import it lazily where policies are optional.
"""

from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

import msgspec

from models.inputs.errors import InputError
from models.policies import contract
from models.policies.artefact import CARD, COMMANDER, NETWORK, SOLDIER, Card
from models.registry.drift import FEATURES
from models.registry.manifest import (
    MANIFEST,
    MODEL,
    SAMPLES,
    Kind,
    Manifest,
    Metric,
    Tensor,
    canonical,
    digest_of,
    name_of,
    read_manifest,
    sealed,
)
from models.registry.store import read_folder

FAMILIES: Final[Mapping[Kind, str]] = {"commander-policy": COMMANDER, "soldier-policy": SOLDIER}
"""First word of the names that decisions carry."""
_PORTS: Final[Mapping[Kind, tuple[Any, Any]]] = {
    "commander-policy": (contract.INPUTS, contract.OUTPUTS),
    "soldier-policy": (contract.SOLDIER_INPUTS, contract.SOLDIER_OUTPUTS),
}
_COLUMNS: Final[Mapping[Kind, Mapping[str, tuple[str, ...]]]] = {
    "commander-policy": contract.COMMANDER_COLUMNS,
    "soldier-policy": contract.SOLDIER_COLUMNS,
}


def features_sha256(kind: Kind) -> str:
    """The digest of what this release encodes for a policy."""
    inputs, _ = _PORTS[kind]
    return digest_of(
        {
            "contract": contract.VERSION,
            "inputs": [(port.name, port.shape, port.unit) for port in inputs],
            "steps": contract.STEPS if kind == "soldier-policy" else (),
            "columns": [_COLUMNS[kind].get(port.name, ()) for port in inputs],
        }
    )


def is_trained(files: Mapping[str, bytes]) -> bool:
    """Whether these are the files of a policy as training writes them."""
    return MANIFEST not in files and NETWORK in files and CARD in files


def packed(files: Mapping[str, bytes], where: str) -> dict[str, bytes]:
    """The files of a trained policy as an artefact, not signed."""
    try:
        card = msgspec.json.decode(files[CARD], type=Card)
    except msgspec.MsgspecError as error:
        raise InputError(f"{where}: {CARD}: {error}; train the policy again") from error
    families = {family: kind for kind, family in FAMILIES.items()}
    kind = families.get(card.model.partition("/")[0])
    network = files[NETWORK]
    if kind is None or card.model != name_of(FAMILIES[kind], network):
        raise InputError(f"{where}: {CARD}: describes {card.model}, the network is another one")
    if SAMPLES not in files:
        raise InputError(
            f"{where}: holds no {SAMPLES}; run `hirl train {FAMILIES[kind]}` again, which exports "
            "it from its checkpoint"
        )
    manifest = manifest_of(kind, network, card)
    content = {MODEL: network, CARD: files[CARD], SAMPLES: files[SAMPLES]}
    content |= {FEATURES: files[FEATURES]} if FEATURES in files else {}
    return {**content, MANIFEST: canonical(sealed(manifest, content))}


def version_in(folder: Path) -> str:
    """The version that a trained policy gets when it is packed."""
    files = packed(read_folder(folder, (NETWORK, CARD, SAMPLES, FEATURES)), str(folder))
    return read_manifest(files[MANIFEST], str(folder)).version


def manifest_of(kind: Kind, network: bytes, card: Card | None = None) -> Manifest:
    """The manifest of a policy, without the digests of its files."""
    inputs, outputs = _PORTS[kind]
    # The range of an input is where it is clipped, not what a model may do.
    ports = [Tensor(name=one.name, shape=list(one.shape), unit=one.unit) for one in inputs]
    return Manifest(
        kind=kind,
        name=name_of(FAMILIES[kind], network),
        inputs=ports,
        outputs=[
            Tensor(name=o.name, shape=list(o.shape), unit=o.unit, low=o.low, high=o.high)
            for o in outputs
        ],
        features_sha256=features_sha256(kind),
        files={},
        world_sha256=card.world if card else "",
        data=[f"scenarios: {', '.join(card.scenarios)}", f"seeds: {card.seeds}"] if card else [],
        command=card.command if card else "",
        metrics=[Metric(name="parity", value=card.parity)] if card else [],
        code_version=version("hirl-scale"),
    )

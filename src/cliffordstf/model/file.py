"""The model file: one safetensors file with weights, and everything needed to use them, in its metadata.

Opening a file never runs code: safetensors holds plain numbers, the metadata is JSON.
"""

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file

from cliffordstf.data.structure import symbol
from cliffordstf.errors import ModelFileError, readable
from cliffordstf.host.budget import USUAL_BUDGET
from cliffordstf.host.files import write_atomically
from cliffordstf.model.build import build_from_config
from cliffordstf.model.config import parse_config
from cliffordstf.model.domain import PREFIX, Domain
from cliffordstf.model.potential import Potential
from cliffordstf.model.reference import AtomicReference

FORMAT_VERSION = 5
UNITS = {"energy": "eV", "length": "Å", "forces": "eV/Å", "stress": "eV/Å³"}


@dataclass(frozen=True)
class ModelInfo:
    """What a model file says about itself.

    Attributes:
        config: The model's config, as `parse_config` takes it.
        elements: Chemical symbols.
        atomic_energies: Energy of the free atoms by symbol, eV.
        energy_scale: eV.
        provenance: Free-form: training data, level of theory, test error, commit, seed, command.
        format_version: Version of the file format that the file was written in.
    """

    config: dict[str, Any]
    elements: list[str]
    atomic_energies: dict[str, float]
    energy_scale: float
    provenance: dict[str, Any] = field(default_factory=dict)
    format_version: int = FORMAT_VERSION


def save_model(potential: Potential, path: Path | str, provenance: dict[str, Any] | None = None) -> Path:
    """Write a model file; the file appears under its name only when it is complete.

    Raises:
        ModelFileError: The model was not built from a config, or the file cannot be written.
    """
    path = Path(path)
    config = getattr(potential.model, "config", None)
    if config is None:
        raise ModelFileError("only models built from a cliffordstf config can be saved to a model file.")
    metadata = {
        "format": "cliffordstf",
        "format_version": str(FORMAT_VERSION),
        "config": config.model_dump_json(),
        "elements": json.dumps([symbol(number) for number in potential.elements]),
        "units": json.dumps(UNITS, ensure_ascii=False),
        "provenance": json.dumps(provenance or {}, ensure_ascii=False),
    }
    # Cloned: some families use one weight under two names, which safetensors refuses.
    tensors = {name: tensor.detach().cpu().contiguous().clone() for name, tensor in potential.state_dict().items()}
    tensors |= {} if potential.domain is None else potential.domain.tensors()
    write_atomically(path, lambda target: save_file(tensors, target, metadata))
    return path


def read_info(path: Path | str) -> ModelInfo:
    """Read what a model file says about itself, without its weights."""
    with readable(path, "model file"):
        metadata, _ = _read(Path(path), weights=False)
        return _info(metadata, Path(path))


def load_model(path: Path | str) -> tuple[Potential, ModelInfo]:
    """Read a model file.

    Raises:
        ModelFileError: There is no such file, it is damaged, or it was written by a newer version.
    """
    path = Path(path)
    with readable(path, "model file"):
        metadata, tensors = _read(path, weights=True)
        info = _info(metadata, path)
        config = parse_config(info.config)
        _check_sizes(config.model_dump(), tensors, path)
        potential = build_from_config(config, AtomicReference(config.elements))
        if [symbol(number) for number in potential.elements] != info.elements:
            raise ModelFileError(f"{path} is damaged: its config and its header name different elements.")
        dtype = next((t.dtype for name, t in tensors.items() if name.startswith("model.")), torch.float32)
        potential.to(dtype)
        try:
            potential.load_state_dict({n: t for n, t in tensors.items() if not n.startswith(PREFIX)})
        except RuntimeError as error:
            reason = " ".join(str(error).split())[:300]
            raise ModelFileError(
                f"the weights in {path} do not fit its config; the file is damaged: {reason}"
            ) from None
        potential.domain = Domain.from_tensors(tensors)
        return potential.eval(), info


def _check_sizes(config: dict[str, Any], tensors: dict[str, torch.Tensor], path: Path) -> None:
    """Refuse a config that states a larger model than the file can hold, before one is built.

    Raises:
        LimitError: There are fewer weights than channels, or fewer tensors than layers.
    """
    weights = sum(tensor.numel() for tensor in tensors.values())
    for name, value in config.items():
        if isinstance(value, int) and name != "elements":
            most = len(tensors) if name == "layers" else max(weights, 1000)
            USUAL_BUDGET.announced(value, most, f"{path}: its option {name}")


def _read(path: Path, weights: bool) -> tuple[dict[str, str], dict[str, torch.Tensor]]:
    if not path.is_file():
        raise ModelFileError(f"there is no model file {path}; give a file that 'cliffordstf train' wrote.")
    try:
        with safe_open(path, framework="pt") as stream:
            names = stream.keys() if weights else ["reference.energies", "reference.scale"]
            metadata = dict(stream.metadata() or {})
            if metadata.get("format") != "cliffordstf":
                raise ModelFileError(f"{path} is a safetensors file but not a cliffordstf model.")
            tensors = {name: stream.get_tensor(name) for name in names}
    except (SafetensorError, OSError) as error:
        raise ModelFileError(f"{path} is not a readable safetensors file ({error}).") from None
    metadata["_energies"] = json.dumps(tensors["reference.energies"].tolist())
    metadata["_scale"] = json.dumps(float(tensors["reference.scale"]))
    return metadata, tensors


def _info(metadata: dict[str, str], path: Path) -> ModelInfo:
    version = int(metadata.get("format_version", "0"))
    if version > FORMAT_VERSION:
        raise ModelFileError(
            f"{path} has format version {version}, this cliffordstf reads up to {FORMAT_VERSION}; update the package."
        )
    elements = json.loads(metadata["elements"])
    return ModelInfo(
        config=_upgrade_config(json.loads(metadata["config"]), version),
        elements=elements,
        atomic_energies=dict(zip(elements, json.loads(metadata["_energies"]), strict=True)),
        energy_scale=json.loads(metadata["_scale"]),
        provenance=json.loads(metadata.get("provenance", "{}")),
        format_version=version,
    )


def _upgrade_config(config: dict[str, Any], version: int) -> dict[str, Any]:
    """Bring the config of an older format version up to date.

    Version 0 called the profile `kind`. Before version 2 radial functions knew nothing of elements, before version 3
    they took distances as they are. Before version 5 there were no statistics of the training set.
    """
    if version < 1 and "kind" in config:
        config = {("profile" if name == "kind" else name): value for name, value in config.items()}
    if version < 2 and config.get("profile") == "default":
        config = {**config, "radial_elements": False}
    if version < 3 and config.get("profile") == "default":
        config = {**config, "radial_warp": None}
    return config

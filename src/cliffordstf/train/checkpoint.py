"""Checkpoints: everything a run needs to go on exactly where it was, in one safetensors file, written atomically."""

import json
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor, nn

from cliffordstf.errors import ConfigError, ModelFileError, readable
from cliffordstf.host.files import write_atomically
from cliffordstf.model.file import read_info
from cliffordstf.model.potential import Potential
from cliffordstf.train.averaging import WeightAverage


def save_checkpoint(
    path: Path,
    module: nn.Module,
    optimizer: torch.optim.Optimizer,
    average: WeightAverage | None,
    state: dict[str, Any],
) -> None:
    """Write weights, optimiser state, weight average and the loop's own state (plain JSON values)."""
    tensors = {f"model.{name}": tensor for name, tensor in module.state_dict().items()}
    scalars: dict[str, Any] = {}
    for index, values in optimizer.state_dict()["state"].items():
        for key, value in values.items():
            if isinstance(value, Tensor):
                tensors[f"optimizer.{index}.{key}"] = value
            else:
                scalars[f"{index}.{key}"] = value
    if average is not None:
        tensors |= {f"average.{name}": tensor for name, tensor in average.average.items()}
        state = {**state, "average_steps": average.steps}
    metadata = {"format": "cliffordstf checkpoint", "state": json.dumps({**state, "optimizer_scalars": scalars})}
    # Cloned: some families use one weight under two names, which safetensors refuses.
    ready = {name: tensor.detach().cpu().contiguous().clone() for name, tensor in tensors.items()}
    write_atomically(path, lambda target: save_file(ready, target, metadata))


def load_checkpoint(
    path: Path, module: nn.Module, optimizer: torch.optim.Optimizer, average: WeightAverage | None
) -> dict[str, Any]:
    """Put a checkpoint's tensors back into place and return the loop's state.

    Raises:
        ModelFileError: The file is missing, damaged, or belongs to another model.
    """
    if not path.is_file():
        raise ModelFileError(f"there is no checkpoint {path}; start the run without --resume.")
    with readable(path, "checkpoint"):
        return _restore(path, module, optimizer, average)


def _restore(
    path: Path, module: nn.Module, optimizer: torch.optim.Optimizer, average: WeightAverage | None
) -> dict[str, Any]:
    try:
        with safe_open(path, framework="pt") as stream:
            metadata = stream.metadata() or {}
            tensors = {name: stream.get_tensor(name) for name in stream.keys()}  # noqa: SIM118 - not a dict
    except (SafetensorError, OSError) as error:
        raise ModelFileError(f"{path} is not a readable checkpoint ({error}).") from None
    if metadata.get("format") != "cliffordstf checkpoint":
        raise ModelFileError(f"{path} is not a cliffordstf checkpoint.")
    state: dict[str, Any] = json.loads(metadata["state"])
    try:
        module.load_state_dict(_part(tensors, "model."))
        _restore_optimizer(optimizer, _part(tensors, "optimizer."), state.pop("optimizer_scalars"))
    except (RuntimeError, ValueError, KeyError) as error:
        raise ModelFileError(
            f"{path} belongs to another model or optimiser ({' '.join(str(error).split())[:300]})."
        ) from None
    if average is not None:
        stored = _part(tensors, "average.")
        # In the order, and on the device, of the parameters.
        average.average = {name: stored[name].to(tensor.device) for name, tensor in average.average.items()}
        average.steps = state["average_steps"]
    return state


def model_options(potential: Potential) -> dict[str, Any] | None:
    """All options of a potential's model as plain values, defaults included; None if it was not built from a config."""
    config = getattr(potential.model, "config", None)
    return None if config is None else config.model_dump(mode="json")


def check_model(path: Path, potential: Potential, state: dict[str, Any]) -> None:
    """Refuse a checkpoint of another model whose weights happen to fit: defaults may change between versions.

    Checkpoints that do not say what they are of are judged by the best model that lies beside them.

    Raises:
        ConfigError: It is of another model.
    """
    best = path.with_name("best.safetensors")
    stored = state.get("model")
    if stored is None and best.is_file():
        stored = read_info(best).config
    built = model_options(potential)
    if stored is None or built is None:
        return
    for name, value in stored.items():
        if name in built and built[name] != value:
            raise ConfigError(
                f"{path} is of a model with {name}={value}, but now its config makes one with {name}={built[name]}; "
                f"write {name} under model in the run's config.yaml, or start again."
            )


def _part(tensors: dict[str, Tensor], prefix: str) -> dict[str, Tensor]:
    return {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)}


def _restore_optimizer(optimizer: torch.optim.Optimizer, tensors: dict[str, Tensor], scalars: dict[str, Any]) -> None:
    values: dict[int, dict[str, Any]] = {}
    for name, value in [*tensors.items(), *scalars.items()]:
        index, _, key = name.partition(".")
        values.setdefault(int(index), {})[key] = value
    optimizer.load_state_dict({"state": values, "param_groups": optimizer.state_dict()["param_groups"]})

"""The config of a run with every value written out, and what was chosen for `auto` explained beside it."""

from typing import Any

import yaml
from ase.data import chemical_symbols

from cliffordstf.model.family import FamilyConfig
from cliffordstf.train.config import TrainConfig
from cliffordstf.train.setup import Setup, prepare


def commented_config(config: TrainConfig) -> str:
    """YAML with every option, those of the model included; it trains the same model when it is given to `train`."""
    setup = prepare(config)
    values, comments = resolved(config, setup)
    return _lines(values, comments, ())


def resolved(config: TrainConfig, setup: Setup) -> tuple[dict[str, Any], dict[str, str]]:
    """Every option with its value, and the reasons of those that were chosen, by path."""
    values = config.model_dump(mode="json")
    if config.finetune is None:
        values["model"] = _model_values(config, setup)
    comments: dict[str, str] = {}
    for choice in setup.choices:
        *parents, name = choice.option.split(".")
        holder = values
        for parent in parents:
            holder = holder[parent]
        if choice.option != "data.reference":
            holder[name] = choice.value
        shown = choice.value if choice.option == "data.reference" else ""
        comments[choice.option] = f"chosen: {f'{shown}, ' if shown else ''}{choice.reason}"
    if config.data.scale == "energy":
        values["data"]["scale"] = "energy"
    comments["model.elements"] = "chosen: elements of the data" if "elements" not in config.model else "as asked"
    for source in setup.splits.sources[:1]:
        units = ", ".join(f"{name} {unit}" for name, unit in source.units.items())
        keys = ", ".join(f"{name} '{key}'" for name, key in source.keys.items() if key is not None)
        comments["data.units"] = f"read as: {units}"
        comments["data.keys"] = f"found: {keys}"
    if config.optimizer.weight_decay == "auto":
        comments["optimizer.weight_decay"] = "over the run, by the size of the training set"
    return values, comments


def _model_values(config: TrainConfig, setup: Setup) -> dict[str, Any]:
    built: Any = setup.potential.model.config
    options = built.model_dump(mode="json")
    for name in ("profile", "name") if isinstance(built, FamilyConfig) else ("profile",):
        options.pop(name)
    options["elements"] = [chemical_symbols[number] for number in built.elements]
    return {"preset": str(config.model.get("preset", "default")), **options}


def _lines(values: dict[str, Any], comments: dict[str, str], path: tuple[str, ...]) -> str:
    """YAML in blocks, a comment at the end of a line where there is one."""
    indent = "  " * len(path)
    text = ""
    for name, value in values.items():
        here = (*path, name)
        comment = comments.get(".".join(here))
        end = f"  # {comment}" if comment else ""
        if isinstance(value, dict) and value and all(isinstance(key, str) for key in value):
            text += f"{indent}{name}:{end}\n" + _lines(value, comments, here)
        else:
            plain = yaml.safe_dump(value, default_flow_style=True, allow_unicode=True, width=10_000).strip()
            text += f"{indent}{name}: {plain.removesuffix('...').strip()}{end}\n"
    return text

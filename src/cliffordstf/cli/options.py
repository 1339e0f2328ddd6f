"""Options that several commands share."""

from pathlib import Path
from typing import Annotated

import typer

from cliffordstf.errors import ConfigError
from cliffordstf.options.text import names_in

DataFolder = Annotated[Path, typer.Option("--data", help="Folder of the data set.")]
Models = Annotated[str, typer.Option(help="Presets or peers, separated by commas.")]
Exclude = Annotated[Path | None, typer.Option(help="File with the 3054 excluded ids of QM9, or 'none'.")]
Protocol = Annotated[
    str, typer.Option(help="sound: our recipe; paper: what the paper states; recommended: each model's own authors'.")
]
Budget = Annotated[str, typer.Option(help="Training time of each run.")]
Seeds = Annotated[str, typer.Option(help="Seeds separated by commas.")]
Overrides = Annotated[
    list[str] | None, typer.Argument(help="Options of the runs as key=value, e.g. model.lmax=3; name the recipe.")
]
Dispersion = Annotated[
    str | None,
    typer.Option("--d3", help="Add the D3(BJ) dispersion of this functional, for example pbe; for data without it."),
]
Recipe = Annotated[str | None, typer.Option(help="What the table calls these runs; needed with options.")]
AddModel = Annotated[
    list[str] | None,
    typer.Option("--add-model", help="A further model; repeat it to make an ensemble, whose mean and spread are used."),
]


def need_a_name(overrides: list[str] | None, recipe: str | None) -> None:
    """Tables put runs of one name together: those with options of their own need one."""
    if overrides and recipe is None:
        raise ConfigError("runs with options of their own need a name: add --recipe NAME.")


def numbers(text: str) -> list[int]:
    """Seeds from `0,1,2`."""
    if not all(part.isdigit() for part in names_in(text)):
        raise ConfigError(f"--seeds {text} must be whole numbers separated by commas, for example 0,1,2.")
    return [int(part) for part in names_in(text)]

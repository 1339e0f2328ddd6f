"""How every command that reads structures takes files and the options of reading, and prints what it read."""

import functools
import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import typer
from ase import Atoms
from rich.console import Console
from rich.markup import escape

from cliffordstf.data.ase_structures import read_structure
from cliffordstf.data.load import Loaded, load_frames
from cliffordstf.data.options import ReadOptions
from cliffordstf.data.readers import Source
from cliffordstf.errors import ConfigError
from cliffordstf.options import parse_options
from cliffordstf.train.config import merged, nested, option_hint, option_paths
from cliffordstf.train.foreign import find_option

PANEL = "Reading data files"

MODEL = "Model file, run folder or name of a shipped model."
STRUCTURE = "File with the structure, in any format that 'train' reads, or CIF, POSCAR, … as ASE reads them"
FILES = "Data files, folders or patterns with * in quotes; data.…=VALUE sets an option of reading."


def _option(text: str, *names: str) -> Any:
    return typer.Option(*names, help=text, rich_help_panel=PANEL)


_FLAGS: dict[str, tuple[str, Any]] = {
    "units_energy": (
        "units.energy",
        Annotated[str | None, _option("eV, meV, kcal/mol, kJ/mol, Hartree, or 1 for plain numbers.")],
    ),
    "units_length": ("units.length", Annotated[str | None, _option("Å, bohr or nm.")]),
    "units_forces": ("units.forces", Annotated[str | None, _option("Energy/length, such as Hartree/bohr.")]),
    "units_stress": (
        "units.stress",
        Annotated[str | None, _option("eV/Å³, GPa, kbar or bar; with a minus for VASP's sign.")],
    ),
    "key_energy": ("keys.energy", Annotated[str | None, _option("Key of the energy, if it is not found.")]),
    "key_forces": ("keys.forces", Annotated[str | None, _option("Key of the forces.")]),
    "key_stress": ("keys.stress", Annotated[str | None, _option("Key of the stress.")]),
    "key_virial": ("keys.virial", Annotated[str | None, _option("Key of the virial, instead of a stress.")]),
    "stress_order": (
        "stress_order",
        Annotated[str | None, _option("Order of the shear components of six numbers, such as 'xy yz zx'.")],
    ),
    "config_type": (
        "config_type",
        Annotated[str | None, _option("Key that labels structures, 'file' for the file's name, or 'none'.")],
    ),
    "exclude": ("exclude", Annotated[str | None, _option("File with ids of structures to leave out.")]),
    "limit": (
        "limit",
        Annotated[int | None, typer.Option(min=1, help="Use only the first structures.", rich_help_panel=PANEL)],
    ),
}
"""Parameter of a command -> option of `ReadOptions`, and its type for typer."""


def with_reading_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command the options of reading; it gets those that were set as a mapping `reading`."""
    hints = get_type_hints(command, include_extras=True)
    own = [
        parameter.replace(annotation=hints.get(name, parameter.annotation))
        for name, parameter in inspect.signature(command).parameters.items()
        if name != "reading"
    ]
    more = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=kind)
        for name, (_, kind) in _FLAGS.items()
    ]

    @functools.wraps(command)
    def wrapper(**values: Any) -> Any:
        given = {name: values.pop(name) for name in _FLAGS}
        reading: dict[str, Any] = {}
        for name, value in given.items():
            if value is not None:
                reading = merged(reading, nested(_FLAGS[name][0], value))
        return command(**values, reading=reading)

    own = [parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY) for parameter in own]
    wrapper.__signature__ = inspect.Signature([*own, *more])  # type: ignore[attr-defined]
    wrapper.__annotations__ = {parameter.name: parameter.annotation for parameter in (*own, *more)}
    return wrapper


_OVERRIDE = re.compile(r"[A-Za-z_][A-Za-z0-9_.]*=")


def split_arguments(arguments: Sequence[str]) -> tuple[list[str], list[str]]:
    """Files, and options as key=value; what exists as a file is one."""
    files: list[str] = []
    overrides: list[str] = []
    for argument in arguments:
        is_option = _OVERRIDE.match(argument) and not Path(argument).exists()
        (overrides if is_option else files).append(argument)
    return files, overrides


def read_options(reading: Mapping[str, Any], overrides: Sequence[str] = ()) -> ReadOptions:
    """Options of reading from flags and from `data.…=VALUE`.

    Raises:
        ConfigError: There is no such option, or its value is not valid.
    """
    values: dict[str, Any] = dict(reading)
    for override in overrides:
        path, _, text = override.partition("=")
        if not path.startswith("data."):
            raise ConfigError(
                f"'{override}' is neither a file nor an option of reading; these begin with 'data.', such as "
                f"data.units.energy=Hartree{_where(path)}."
            )
        values = merged(values, nested(path.removeprefix("data."), text, is_text=True))
    return parse_options(ReadOptions, values, "data", option_hint)


def _where(path: str) -> str:
    found = find_option(path, option_paths())
    return f" ({found} is an option of 'train')" if found is not None else ""


def read(
    files: Sequence[str] | Path | str, options: ReadOptions, console: Console | None = None, keep_atoms: bool = False
) -> Loaded:
    """Read structures, and print what the files turned out to be, with warnings, if there is a console."""
    loaded = load_frames(list(files) if isinstance(files, list | tuple) else files, options, keep_atoms)
    if console is not None:
        print_sources(console.print, loaded.sources)
        print_warnings(console, loaded.warnings)
    return loaded


def read_one(arguments: Sequence[str], reading: Mapping[str, Any], index: int) -> Atoms:
    """The structure that a simulation starts from, with velocities and constraints.

    Args:
        arguments: A file, and options of reading as `data.…=VALUE`.
        reading: Options of reading from flags.
        index: Of the structure in the file.
    """
    files, overrides = split_arguments(arguments)
    if len(files) != 1:
        raise ConfigError(f"give one file with the structure, not {len(files)}; --index picks one of its structures.")
    return read_structure(files[0], index, read_options(reading, overrides))


def source_lines(sources: Sequence[Source]) -> list[str]:
    """How files were read, the same in every command; files that were read alike share a line."""
    groups: dict[str, list[str]] = {}
    for source in sources:
        labels = [
            f"{label} '{source.keys[label]}' in {source.units[label]}" if source.keys[label] else f"no {label}"
            for label in ("energy", "forces", "stress")
        ]
        text = f"{source.format}; {', '.join(labels)}; lengths in {source.units['length']}"
        groups.setdefault(text, []).append(source.path.name)
    return [
        ", ".join(names[:4]) + (f" and {len(names) - 4} more" if len(names) > 4 else "") + f": {text}"
        for text, names in groups.items()
    ]


def print_sources(show: Callable[..., Any], sources: Sequence[Source]) -> None:
    """Print a line for each kind of file.

    Args:
        show: Such as the `print` of a console.
        sources: What the files turned out to be.
    """
    for line in source_lines(sources):
        show(escape(line), soft_wrap=True, highlight=False)


def print_warnings(console: Console, warnings: Sequence[str], title: str = "warning") -> None:
    """A line each."""
    for warning in warnings:
        console.print(f"[yellow]{title}:[/] {escape(warning)}", soft_wrap=True, highlight=False)

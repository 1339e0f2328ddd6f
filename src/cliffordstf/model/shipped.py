"""Models that come with the package, and opening a model by name or path."""

from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path

from cliffordstf.errors import ModelFileError
from cliffordstf.model.ensemble import Ensemble
from cliffordstf.model.file import ModelInfo, load_model, read_info
from cliffordstf.model.potential import Potential
from cliffordstf.options.text import did_you_mean


def shipped_models() -> dict[str, Path]:
    """Name -> file of every model in the package."""
    folder = Path(str(files("cliffordstf") / "models"))
    return {path.stem: path for path in sorted(folder.glob("*.safetensors"))}


def resolve(name_or_path: Path | str) -> Path:
    """The file behind a shipped model's name, a path, or the folder of a run.

    Raises:
        ModelFileError: It is none of these.
    """
    path = Path(name_or_path).expanduser()
    if path.is_file():
        return path
    if path.is_dir():
        return _of_run(path)
    known = shipped_models()
    if str(name_or_path) in known:
        return known[str(name_or_path)]
    raise ModelFileError(
        f"'{name_or_path}' is neither a model file, the folder of a run nor a shipped model"
        f"{did_you_mean(str(name_or_path), known)}; shipped are: {', '.join(known) or 'none'}."
    )


def _of_run(folder: Path) -> Path:
    """The model of a run: the finished one, or the best so far."""
    for name in ("model.safetensors", "best.safetensors"):
        if (folder / name).is_file():
            return folder / name
    raise ModelFileError(
        f"the folder {folder} holds no model (no model.safetensors or best.safetensors); give the folder of a run, or "
        "a model file."
    )


def open_ensemble(names_or_paths: Sequence[Path | str]) -> tuple[Potential | Ensemble, ModelInfo]:
    """One potential, or several as an ensemble, and the information of the first."""
    opened = [open_model(name) for name in names_or_paths]
    potentials = [potential for potential, _ in opened]
    return (potentials[0] if len(potentials) == 1 else Ensemble(potentials)), opened[0][1]


def open_model(name_or_path: Path | str) -> tuple[Potential, ModelInfo]:
    """A potential and its information, by the name of a shipped model, a model file or the folder of a run."""
    return load_model(resolve(name_or_path))


def load(name_or_path: Path | str) -> Potential:
    """A potential by the name of a shipped model, a model file or the folder of a run.

    Example:
        >>> import cliffordstf
        >>> potential = cliffordstf.load("ethanol-gfn2")
        >>> potential.cutoff  # Å
        5.0
    """
    return open_model(name_or_path)[0]


def shipped_info() -> dict[str, ModelInfo]:
    """What every shipped model says of itself."""
    return {name: read_info(path) for name, path in shipped_models().items()}

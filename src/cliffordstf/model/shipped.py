"""Models that come with the package, and opening a model by name or path."""

from importlib.resources import files
from pathlib import Path

from cliffordstf.errors import ModelFileError
from cliffordstf.model.file import ModelInfo, load_model, read_info
from cliffordstf.model.potential import Potential
from cliffordstf.text import did_you_mean


def shipped_models() -> dict[str, Path]:
    """Name -> file of every model in the package."""
    folder = Path(str(files("cliffordstf") / "models"))
    return {path.stem: path for path in sorted(folder.glob("*.safetensors"))}


def resolve(name_or_path: Path | str) -> Path:
    """The file behind a shipped model's name or a path.

    Raises:
        ModelFileError: It is neither.
    """
    path = Path(name_or_path)
    if path.is_file():
        return path
    known = shipped_models()
    if str(name_or_path) in known:
        return known[str(name_or_path)]
    raise ModelFileError(
        f"'{name_or_path}' is neither a model file nor a shipped model{did_you_mean(str(name_or_path), known)}; "
        f"shipped are: {', '.join(known) or 'none'}."
    )


def open_model(name_or_path: Path | str) -> tuple[Potential, ModelInfo]:
    """A potential by the name of a shipped model or by the path of a model file, and what its file says of it."""
    return load_model(resolve(name_or_path))


def load(name_or_path: Path | str) -> Potential:
    """A potential by the name of a shipped model or by the path of a model file."""
    return open_model(name_or_path)[0]


def shipped_info() -> dict[str, ModelInfo]:
    """What every shipped model says of itself."""
    return {name: read_info(path) for name, path in shipped_models().items()}

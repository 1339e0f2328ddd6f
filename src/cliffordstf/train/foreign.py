"""Options by the names that other packages give them, for hints to people who come from there."""

from cliffordstf.model.config import DefaultConfig
from cliffordstf.options import leaves
from cliffordstf.options.text import nearest_of

FOREIGN: dict[str, str] = {
    "amsgrad": "optimizer.name=amsgrad",
    "atomic_energies": "data.reference",
    "avg_num_neighbors": "model.average_neighbours",
    "betas": "optimizer.betas",
    "chemical_symbols": "model.elements",
    "clip_grad": "optimizer.clip",
    "config_type_key": "data.config_type",
    "config_type_weights": "data.config_type_weights",
    "correlation": "model.body_order",
    "dataset_file_name": "data.train",
    "default_dtype": "precision",
    "e0s": "data.reference",
    "ema": "average",
    "ema_decay": "average",
    "energy_coefficient": "loss.energy.weight",
    "energy_key": "data.keys.energy",
    "energy_weight": "loss.energy.weight",
    "eval_interval": "validate_every",
    "force_coefficient": "loss.forces.weight",
    "forces_key": "data.keys.forces",
    "forces_weight": "loss.forces.weight",
    "foundation_model": "finetune.model",
    "gradient_clip_val": "optimizer.clip",
    "hidden_irreps": "model.channels",
    "huber_delta": "loss.energy.huber_delta",
    "key_mapping": "data.keys",
    "l_max": "model.lmax",
    "learning_rate": "optimizer.learning_rate",
    "lr": "optimizer.learning_rate",
    "max_epochs": "epochs",
    "max_l": "model.lmax",
    "max_num_epochs": "epochs",
    "max_steps": "steps",
    "max_time": "budget",
    "model_dtype": "precision",
    "n_train": "data.train_size",
    "n_val": "data.valid",
    "num_channels": "model.channels",
    "num_features": "model.channels",
    "num_interactions": "model.layers",
    "num_layers": "model.layers",
    "num_radial_basis": "model.basis",
    "num_bessels": "model.basis",
    "pair_repulsion": "model.repulsion",
    "r_max": "model.cutoff",
    "cutoff_radius": "model.cutoff",
    "scheduler": "schedule.kind",
    "scheduler_patience": "schedule.patience",
    "stress_key": "data.keys.stress",
    "stress_weight": "loss.stress.weight",
    "test_file": "data.test",
    "train_file": "data.train",
    "training_set": "data.train",
    "type_names": "model.elements",
    "valid_file": "data.valid",
    "valid_fraction": "data.valid",
    "validation_set": "data.valid",
    "virials_key": "data.keys.virial",
    "virials_weight": "loss.stress.weight",
    "wandb": "loggers",
    "zbl": "model.repulsion=zbl",
}
"""Name in MACE, NequIP, metatrain or torch -> ours; upper and lower case, minus and underscore are the same."""


def find_option(name: str, paths: list[str]) -> str | None:
    """Our option for a name from elsewhere, or the only one of ours that ends so; None if there is none.

    Args:
        name: As it was written, such as `lr`, `--batch-size` or `model.r_max`.
        paths: Every option of ours.

    Example:
        >>> find_option("--r-max", ["model.cutoff"]), find_option("learning_rate", ["optimizer.learning_rate"])
        ('model.cutoff', 'optimizer.learning_rate')
    """
    plain = name.lstrip("-").replace("-", "_").casefold()
    if plain in paths:
        return plain
    last = plain.rpartition(".")[2]
    ends = [path for path in paths if path.rpartition(".")[2] == last]
    return FOREIGN.get(last) or (ends[0] if len(ends) == 1 else None)


def hint(name: str, paths: list[str], beside: str = "") -> str:
    """End of an error about an option that does not exist; empty where nothing comes near.

    Args:
        name: As it was written.
        paths: Every option of ours.
        beside: A suggestion from the options beside it, if there is one.
    """
    found = find_option(name, paths)
    if found is not None or beside:
        return f"; here it is '{found}'" if found is not None else beside
    # A typo is judged by the whole path first, then by its last part.
    plain = name.lstrip("-").replace("-", "_")
    by_last = {path.rpartition(".")[2]: path for path in paths}
    nearest = nearest_of(plain, paths) or by_last.get(nearest_of(plain.rpartition(".")[2], by_last) or "")
    return f" (did you mean '{nearest}'?)" if nearest else ""


def model_paths() -> list[str]:
    """Options of the default model."""
    return [".".join(("model", *path)) for path, _ in leaves(DefaultConfig)]

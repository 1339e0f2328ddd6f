import pytest
import torch

import cliffordstf
from cliffordstf.data.frame import Frame
from cliffordstf.data.references import References, find_references
from cliffordstf.errors import ConfigError, DataError
from cliffordstf.model.file import load_model, save_model
from cliffordstf.train.config import FineTuneConfig, load_config
from cliffordstf.train.finetune import start_from
from cliffordstf.train.run import train
from cliffordstf.verify.structures import random_cluster

E0 = {1: -1.0, 6: -2.0, 8: -3.0, 18: -4.0}


@pytest.fixture
def trained(tmp_path):
    potential = cliffordstf.build(
        "default/small", elements=[1, 6, 8], seed=0, channels=4, atomic_energies=E0, energy_scale=0.5
    )
    return save_model(potential, tmp_path / "trained.safetensors")


def test_added_elements_leave_the_known_ones_as_they_were(trained):
    config = FineTuneConfig(model=str(trained))
    potential, references = start_from(config, (1, 6, 18), References({1: -1.0, 6: -2.0, 18: -4.0}, "given"), [])
    assert potential.elements == (1, 6, 8, 18)
    assert references.energies[18] == -4.0
    old, _ = load_model(trained)
    structure = random_cluster((1, 6, 8))
    before, after = old.predict(structure), potential.predict(structure)
    torch.testing.assert_close(before.energy, after.energy)
    torch.testing.assert_close(before.forces, after.forces)
    mean = old.model.embedding.weight.mean(dim=0)
    torch.testing.assert_close(potential.model.embedding.weight[3], mean)


def test_references_can_be_kept(trained):
    keep = FineTuneConfig(model=str(trained), new_references=False)
    potential, references = start_from(keep, (1, 6), References({1: 7.0, 6: 7.0}, "least-squares"), [])
    assert references.energies[1] == -1.0
    assert potential.reference.energies.tolist() == [-1.0, -2.0, -3.0]
    with pytest.raises(DataError, match="no isolated-atom energy of Ar"):
        start_from(keep, (1, 18), References({}, "none"), [])


def test_fitted_references_respect_what_the_network_predicts(trained):
    """Labels that the old model gives exactly: nothing may shift, though the data alone would fit other energies."""
    old, _ = load_model(trained)
    frames = []
    for seed in range(12):
        structure = random_cluster((1, 6, 8), atoms=4 + seed % 5, seed=seed)
        frames.append(Frame(structure, energy=float(old.predict(structure).energy)))
    naive = find_references(frames, (1, 6, 8), "least-squares")
    potential, _ = start_from(FineTuneConfig(model=str(trained)), (1, 6, 8), naive, frames)
    assert potential.reference.energies.tolist() == pytest.approx([-1.0, -2.0, -3.0], abs=1e-4)


def test_the_architecture_stays(trained, options):
    with pytest.raises(ConfigError, match="keeps its architecture"):
        load_config(None, [*options, f"finetune.model={trained}"])


def test_frozen_parameters_do_not_move(trained, options, tmp_path):
    cut = [option for option in options if not option.startswith("model.")]
    config = load_config(None, [*cut, f"finetune={{model: {trained}, freeze: [embedding, 'layers.0']}}"])
    result = train(config, tmp_path / "run")
    old, _ = load_model(trained)
    new = result.potential
    known = new.model.state_dict()
    for name, tensor in old.model.state_dict().items():
        if name.startswith("layers.0."):
            # Weights that belong to elements have a row more for the new element, behind the old ones.
            kept = known[name] if known[name].shape == tensor.shape else known[name][: len(tensor)]
            assert torch.equal(tensor, kept), name
    assert torch.equal(old.model.embedding.weight, new.model.embedding.weight[:3])
    assert not torch.equal(old.model.layers[1].linear_up.weight, new.model.layers[1].linear_up.weight)


def test_a_pattern_that_freezes_nothing_is_an_error(trained):
    with pytest.raises(ConfigError, match="no parameter's name contains 'embeding'"):
        start_from(FineTuneConfig(model=str(trained), freeze=("embeding",)), (1,), References({1: 0.0}, "given"), [])

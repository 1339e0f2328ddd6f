import json

import numpy as np
import pytest
from ase.build import molecule

from cliffordstf.data.frame import Frame
from cliffordstf.data.inspection import inspect_frames
from cliffordstf.data.readers import Source, read_frames
from cliffordstf.data.structure import Structure
from cliffordstf.errors import DataError

SOURCE = Source("made", "made", {}, {}, ())
RANDOM = np.random.default_rng(0)


def water(index: int, energy: float | None = None, shift: float = 0.0, **labels) -> Frame:
    atoms = molecule("H2O")
    positions = atoms.positions + 0.05 * np.random.default_rng(index).normal(size=(3, 3)) + shift
    return Frame(Structure(atoms.numbers, positions, name=f"frame {index}"), energy=energy, **labels)


@pytest.mark.parametrize(("split", "energy", "force"), [("train", 143.1, 878.7), ("test", 141.1, 876.8)])
def test_zero_row_of_ethanol(real_data, split, energy, force):
    found = inspect_frames(*read_frames(real_data / "rmd17" / f"rmd17_ethanol_{split}_01.npz"))
    assert found.baseline.energy_mae_mev == pytest.approx(energy, abs=0.1)
    assert found.baseline.force_mae_mev_per_a == pytest.approx(force, abs=0.1)
    assert (found.atoms, found.compositions, found.outliers) == (9000, {"C2H6O": 1000}, ())
    assert found.periodicity == {"molecule": 1000}
    assert 0.8 < found.shortest_distance.distance < 1.0


def test_outliers_and_elements_of_mptrj(real_data):
    found = inspect_frames(*read_frames(real_data / "mptrj/mptrj-random-1k.xyz"))
    assert len(found.elements) == 85
    assert [text.split(":")[0] for text in found.outliers] == [f"mptrj-random-1k.xyz, frame {i}" for i in (63, 768)]
    assert found.coverage["stress"].complete == 1000
    assert found.baseline.energy_constant == "a constant energy per element"
    assert found.shortest_distance.pair == "H-O"
    json.dumps(found.as_json())


def test_coverage_and_statistics():
    forces = np.zeros((3, 3))
    forces[0] = [3, 4, 0]
    part = forces.copy()
    part[1] = np.nan
    frames = [water(0, 3.0, forces=forces), water(1, float("nan"), forces=part), water(2, 9.0)]
    found = inspect_frames(frames, SOURCE)
    counts = {name: (item.complete, item.partial, item.missing) for name, item in found.coverage.items()}
    assert counts == {"energy": (2, 0, 1), "forces": (1, 1, 1), "stress": (0, 0, 3)}
    assert found.statistics.energy_per_atom_mean == pytest.approx(2)
    assert found.statistics.energy_per_atom_std == pytest.approx(1)
    assert found.statistics.force_norm_max == 5
    assert found.statistics.force_norm_mean == pytest.approx(10 / 5)
    assert found.baseline.energy_mae_mev == pytest.approx(3000)
    assert found.baseline.force_mae_mev_per_a == pytest.approx(1000 * 14 / 15)


def test_duplicates_are_named_with_what_contradicts():
    frames = [water(i) for i in range(30)]
    frames += [water(3), water(5, 1.0), water(5, 1.5, shift=0.3), water(3)]
    found = inspect_frames(frames, SOURCE)
    assert [str(group) for group in found.duplicates] == [
        "frame 3 = frame 3 = frame 3",
        "frame 5 = frame 5 = frame 5 (energies differ by 500 meV)",
    ]


def test_outliers_are_named():
    energies = 0.01 * RANDOM.normal(size=40)
    frames = [water(i, float(energy), forces=RANDOM.normal(size=(3, 3))) for i, energy in enumerate(energies)]
    assert inspect_frames(frames, SOURCE).outliers == ()
    frames[4] = water(4, 3.0)
    frames[9] = water(9, 0.0, forces=np.full((3, 3), 60.0))
    found = inspect_frames(frames, SOURCE).outliers
    assert [text.split(":")[0] for text in found] == ["frame 9", "frame 4"]
    assert "eV/atom from the median of H2O" in found[1]


def test_a_second_population_is_not_a_row_of_outliers():
    energies = np.concatenate([0.01 * RANDOM.normal(size=40), 5 + 0.01 * RANDOM.normal(size=10)])
    assert inspect_frames([water(i, float(energy)) for i, energy in enumerate(energies)], SOURCE).outliers == ()


def test_atoms_on_the_same_spot_are_an_outlier():
    spot = Frame(Structure(np.array([1, 1]), np.zeros((2, 3)), name="frame 7"))
    found = inspect_frames([spot, water(0)], SOURCE)
    assert found.outliers[0].startswith("frame 7: atoms 0 (H) and 1 (H) are 0.0e+00 Å apart, closer than any bond")
    assert (found.shortest_distance.structure, found.shortest_distance.distance) == ("frame 7", 0.0)


@pytest.mark.parametrize("distance", [0.1, 0.002, 0.8])
def test_near_contacts_are_found(distance):
    close = Frame(Structure([6, 6, 1], [[0, 0, 0], [0, 0, distance], [0, 0, 2.0]], name="frame 9"))
    found = inspect_frames([water(0), close, water(1)], SOURCE)
    assert len(found.outliers) == 1
    assert "frame 9: atoms 0 (C) and 1 (C) are" in found.outliers[0]
    assert found.shortest_distance.pair == "C-C"


def test_texts_of_outliers_do_not_contradict_themselves():
    """Many large forces: what makes one of them an outlier is the absolute limit, and the text says only that."""
    frames = [water(i, forces=np.full((3, 3), 20.0 + i)) for i in range(20)]
    found = inspect_frames(frames, SOURCE).outliers
    assert found
    assert all(text.endswith("above 50 eV/Å") for text in found)
    frames = [water(i, forces=np.full((3, 3), 0.1)) for i in range(300)] + [water(400, forces=np.full((3, 3), 2.0))]
    assert (
        inspect_frames(frames, SOURCE).outliers[0].endswith("20 times the 99th percentile of all forces (0.173 eV/Å)")
    )


def test_a_wrong_energy_is_named_whatever_the_composition():
    frames = []
    for index in range(12):
        numbers = [8] + [1] * (index + 1)
        positions = np.arange(3.0 * len(numbers)).reshape(-1, 3)
        frames.append(Frame(Structure(numbers, positions, name=f"frame {index}"), energy=-5.0 - 3.0 * index))
    assert inspect_frames(frames, SOURCE).outliers == ()
    frames[7] = Frame(frames[7].structure, energy=1e6)
    assert inspect_frames(frames, SOURCE).outliers[0].startswith("frame 7: energy +1.11e+05 eV/atom")


def test_single_atoms_and_nothing():
    atom = Frame(Structure(np.array([18]), np.zeros((1, 3))), energy=-1.0)
    found = inspect_frames([atom], SOURCE)
    assert found.shortest_distance is None
    assert found.baseline.energy_mae_mev == 0
    assert found.statistics.force_norm_max is None
    with pytest.raises(DataError, match="no structures to inspect"):
        inspect_frames([], SOURCE)

import lzma

import ase.io
import numpy as np
import pytest
from ase.build import bulk
from ase.calculators.singlepoint import SinglePointCalculator
from ase.constraints import FixAtoms

from cliffordstf.data.readers import read_frames
from cliffordstf.data.units import LabelKeys
from cliffordstf.errors import DataError


def shard(folder, number=0, lines=("random12,frame3,-10.5", "random7,frame0,-9.0"), constraint=True):
    """Two structures in a compressed shard, with what stands beside it."""
    images = []
    for energy in (-11.0, -12.0):
        atoms = bulk("Cu", cubic=True)
        atoms.set_tags([0, 0, 1, 2])
        if constraint:
            atoms.set_constraint(FixAtoms([0]))
        atoms.calc = SinglePointCalculator(atoms, energy=energy, forces=np.ones((4, 3)))
        images.append(atoms)
    ase.io.write(folder / "plain.extxyz", images)
    path = folder / f"{number}.extxyz.xz"
    path.write_bytes(lzma.compress((folder / "plain.extxyz").read_bytes()))
    (folder / "plain.extxyz").unlink()
    (folder / f"{number}.txt.xz").write_bytes(lzma.compress("\n".join(lines).encode()))
    return path


def test_adsorption_energy_only_if_named(tmp_path):
    path = shard(tmp_path)
    frames, source = read_frames(path)
    assert (source.format, source.keys["energy"]) == ("OC20 S2EF shard", "energy")
    assert [frame.energy for frame in frames] == [-11, -12]
    assert (frames[0].structure.name, frames[0].id) == ("0.extxyz.xz, frame 0 (random12, frame3)", 12)
    assert frames[0].forces.all()
    frames, source = read_frames(tmp_path, keys=LabelKeys(energy="adsorption_energy"))
    assert [frame.energy for frame in frames] == [-0.5, -3.0]
    assert len(read_frames(path, limit=1)[0]) == 1


def test_fixed_atoms_from_the_mask_or_else_the_tags(tmp_path):
    assert read_frames(shard(tmp_path))[0][0].fixed.tolist() == [True, False, False, False]
    assert read_frames(shard(tmp_path, 1, constraint=False))[0][0].fixed.tolist() == [True, True, False, False]


def test_tags_of_a_shard(tmp_path):
    assert read_frames(shard(tmp_path))[0][0].tags.tolist() == [0, 0, 1, 2]


def test_files_that_do_not_belong_together(tmp_path):
    with pytest.raises(DataError, match=r"0\.extxyz\.xz holds 2 structures but 0\.txt\.xz has 1 lines"):
        read_frames(shard(tmp_path, lines=["random12,frame3,-10.5"]))
    with pytest.raises(DataError, match=r"0\.txt\.xz, line 2 is not 'system,frame,energy'"):
        read_frames(shard(tmp_path, lines=["random12,frame3,-10.5", "random7"]))
    frames, source = read_frames(shard(tmp_path, lines=["some notes", "of mine"]))
    assert (source.format, frames[0].id) == ("extxyz", None)


def test_real_shards(real_data):
    frames, source = read_frames(real_data / "oc20/derived_s2ef_raw/val")
    assert (source.format, source.warnings) == ("OC20 S2EF shard", ())
    adsorption, _ = read_frames(real_data / "oc20/derived_s2ef_raw/val", keys=LabelKeys(energy="adsorption_energy"))
    text = lzma.decompress((real_data / "oc20/derived_s2ef_raw/val/0.txt.xz").read_bytes()).decode().split()
    for total, relative, line in zip(frames, adsorption, text, strict=True):
        assert total.energy - relative.energy == pytest.approx(float(line.split(",")[2]))
        assert abs(relative.energy) < 20
        assert 0 < total.fixed.sum() < len(total.structure)
        assert np.abs(total.forces[total.fixed]).max() > 0

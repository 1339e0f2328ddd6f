import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
import torch
from torch.utils.cpp_extension import include_paths, library_paths

import cliffordstf
from cliffordstf.engine.standalone import compile_package, directed
from cliffordstf.errors import ConfigError
from cliffordstf.verify.structures import random_cluster, triclinic_crystal

ELEMENTS = (1, 6, 8)
PROGRAM = Path(__file__).with_name("aoti_program.cpp")


@pytest.fixture(scope="module")
def potential():
    options = {"channels": 4, "lmax": 1, "layers": 1}
    return cliffordstf.build("default", elements=ELEMENTS, seed=0, energy_scale=100.0, **options).double()


def _inputs(batch):
    straight = batch.edges.pair_edges[:, 0]
    pairs = torch.stack([batch.receivers[straight], batch.senders[straight]], dim=1)
    return batch.numbers, batch.positions, batch.cell, pairs, batch.shifts[straight]


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning", "ignore::UserWarning")
def test_a_package_runs_without_python(potential, tmp_path):
    package = tmp_path / "model.pt2"
    compile_package(potential, potential.batch(triclinic_crystal(ELEMENTS)), package, stress=True)
    batch = potential.batch(triclinic_crystal((6, 1)))
    expected = potential(batch, stress=True)
    assert expected.forces.abs().max() > 0.01

    found = torch._inductor.aoti_load_package(str(package))(*_inputs(batch))
    for result, name in zip(found, ("energy", "atom_energies", "forces", "stress"), strict=True):
        torch.testing.assert_close(result, getattr(expected, name), rtol=0, atol=1e-10)

    energy, *forces = _run_program(package, _inputs(batch), tmp_path / "program")
    assert energy == pytest.approx(expected.energy.item(), abs=1e-9)
    np.testing.assert_allclose(np.reshape(forces, (-1, 3)), expected.forces.numpy(), atol=1e-10)


def _run_program(package, inputs, program):
    compiler = shutil.which("g++")
    assert compiler, "a C++ compiler is needed; install g++"
    libraries = library_paths()
    command = [compiler, "-std=c++20", "-O0", str(PROGRAM), "-o", str(program)]
    command += [f"-D_GLIBCXX_USE_CXX11_ABI={int(torch.compiled_with_cxx11_abi())}"]
    command += [f"-I{folder}" for folder in include_paths()]
    command += [option for folder in libraries for option in (f"-L{folder}", f"-Wl,-rpath,{folder}")]
    subprocess.run([*command, "-Wl,--no-as-needed", "-ltorch", "-ltorch_cpu", "-lc10"], check=True)
    numbers, _, _, pairs, _ = inputs
    text = f"{len(numbers)} {len(pairs)}\n" + "\n".join(
        " ".join(repr(value) for value in tensor.flatten().tolist()) for tensor in inputs
    )
    done = subprocess.run([program, package], input=text, capture_output=True, text=True, check=True)
    return [float(line) for line in done.stdout.split()]


def test_pairs_in_any_order_become_the_edges_of_a_batch(potential):
    batch = potential.batch(triclinic_crystal(ELEMENTS))
    numbers, _, _, pairs, shifts = _inputs(batch)
    order = torch.randperm(len(pairs), generator=torch.Generator().manual_seed(0))
    turned = order % 2 == 0  # either atom may come first
    pairs, shifts = pairs[order], shifts[order]
    pairs[turned], shifts[turned] = pairs[turned].flip(1), -shifts[turned]
    edges, of_edges = directed(pairs, shifts, numbers)
    rows = torch.cat([edges.receivers[:, None], edges.senders[:, None], of_edges], dim=1).tolist()
    assert sorted(rows) == sorted(
        torch.cat([batch.receivers[:, None], batch.senders[:, None], batch.shifts], dim=1).tolist()
    )
    assert torch.equal(edges.row_pointers, batch.edges.row_pointers)
    assert torch.equal(edges.senders[edges.reverse], edges.receivers)
    assert torch.equal(of_edges[edges.reverse], -of_edges)
    assert torch.equal(edges.reverse[edges.pair_edges[:, 0]], edges.pair_edges[:, 1])


def test_an_example_is_one_structure(potential, tmp_path):
    batch = potential.batch([random_cluster(ELEMENTS, atoms=4, seed=seed) for seed in range(2)])
    with pytest.raises(ConfigError, match="one structure"):
        compile_package(potential, batch, tmp_path / "model.pt2")

"""Models outside of Python: a C program gets Python's numbers, and a damaged file gets an error."""

import json
import os
import shutil
import struct
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from ase import Atoms
from ase.build import bulk, molecule

import cliffordstf
from cliffordstf.algebra.couplings import track_coupling
from cliffordstf.algebra.tracks import SCALAR
from cliffordstf.engine.export import HEADER, LIBRARY, export_library, export_native, exported
from cliffordstf.engine.schedule import make_schedule
from cliffordstf.errors import ConfigError
from cliffordstf.kernels import NodePath, NodePlan, activation, node_bilinear, track_linear
from cliffordstf.kernels.native.runtime import NativeModel, RuntimeLibraryError
from cliffordstf.nn.gate import ScalarGate

PROGRAM = Path(__file__).with_name("c_program.c")


def build(**options):
    options = {"channels": 12, "lmax": 2, "layers": 2, **options}
    return cliffordstf.build("default", elements=[1, 6, 8, 29], seed=0, energy_scale=0.8, **options).double()


@pytest.fixture(scope="module")
def program(tmp_path_factory) -> Path:
    """The C program, linked with the library as a user would."""
    folder = tmp_path_factory.mktemp("library")
    header, library = export_library(folder)
    assert (header.name, library.name) == (HEADER, LIBRARY)
    compiler = shutil.which("gcc") or shutil.which("cc")
    assert compiler, "a C compiler is needed to test the C interface; install gcc"
    target = folder / "program"
    options = ["-std=c99", "-Wall", "-Wextra", "-Werror", "-I", folder, "-L", folder, "-lcliffordstf", "-lm"]
    subprocess.run([compiler, PROGRAM, *options, f"-Wl,-rpath,{folder}", "-o", target], check=True)
    return target


def run(program: Path, model: Path, atoms: Atoms, tmp_path: Path, precision: str = "float64") -> list[np.ndarray]:
    """Energy, sum of the atoms' energies and calls of the exchange; virial and sum of the atoms'; forces."""
    lengths = atoms.cell.lengths() if atoms.pbc.any() else np.zeros(3)
    rows = [[len(atoms), *lengths], *([z, *x] for z, x in zip(atoms.numbers, atoms.positions, strict=True))]
    place = tmp_path / "structure.txt"
    place.write_text("\n".join(" ".join(repr(float(v)) if i else str(int(v)) for i, v in enumerate(r)) for r in rows))
    done = subprocess.run([program, model, precision, place], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    lines = [np.array(line.split(), dtype=float) for line in done.stdout.splitlines()]
    return [lines[0], np.array(lines[1:10]), np.array(lines[10:])]


def crystal() -> Atoms:
    atoms = bulk("Cu", cubic=True).repeat((2, 2, 2))
    atoms.rattle(0.1, seed=1)
    atoms.numbers[[0, 3, 5]] = 8
    return atoms


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"layers": 3, "lmax": 3, "node_lmax": 1, "channels": 8},
        {"repulsion": "zbl", "repulsion_distances": {"Cu-Cu": 2.6, "C-H": 1.2, "Cu-O": 2.7}},
        {"layers": 1, "radial_elements": False},
    ],
)
@pytest.mark.parametrize("atoms", [molecule("CH3CH2OH"), crystal()], ids=["molecule", "crystal with ghosts"])
def test_a_c_program_gets_the_numbers_of_python(program, options, atoms, tmp_path):
    potential = build(**options)
    with torch.no_grad():  # so that no weight has the value that it starts with
        for weight in potential.parameters():
            weight.add_(0.05 * torch.randn_like(weight))
    export_native(potential, tmp_path / "model.cstf")
    expected = potential.predict(atoms)
    first, virials, forces = run(program, tmp_path / "model.cstf", atoms, tmp_path)
    np.testing.assert_allclose(first[:2], float(expected.energy), rtol=1e-12)
    np.testing.assert_allclose(forces, expected.forces.numpy(), rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(virials[:, 0], virials[:, 1], rtol=1e-9, atol=1e-9)
    if expected.stress is not None:
        virial = expected.stress[0].numpy() * atoms.get_volume()
        np.testing.assert_allclose(virials[:, 0].reshape(3, 3), virial, rtol=1e-9, atol=1e-9)
    # Two evaluations. The first layer needs no features of others, and the way back no gradients of these.
    calls = 4 * options.get("layers", 2) - 2 + ("repulsion" in options)
    # Everyone calls equally often: also who has no ghosts, and who has no atoms.
    assert first[2] == 2 * calls
    assert run(program, tmp_path / "model.cstf", Atoms(), tmp_path)[0].tolist() == [0, 0, 2 * calls]


def test_single_precision_is_the_caller_s_choice(program, tmp_path):
    potential = build()
    export_native(potential, tmp_path / "model.cstf")
    first, _, forces = run(program, tmp_path / "model.cstf", crystal(), tmp_path, "float32")
    expected = potential.predict(crystal())
    assert first[0] != float(expected.energy)
    np.testing.assert_allclose(first[0], float(expected.energy), rtol=1e-5)
    np.testing.assert_allclose(forces, expected.forces.numpy(), atol=1e-4)


def test_a_gate_changed_in_nn_reaches_every_engine(program, tmp_path, monkeypatch):
    """One method of one layer is replaced; inference, training, the file and the C program follow."""

    def forward(self, features):
        if self.weight is None:
            return activation(features, "tanh", 1.3)
        logits = activation(track_linear(self.logits, [(features, self.weight)]), "tanh", 0.7)
        paths = [
            NodePath(track_coupling(SCALAR, track, track), index, start, start, scale=1.1)
            for index, (track, start) in enumerate(self.placed)
        ]
        paths.append(NodePath(track_coupling(SCALAR, SCALAR, SCALAR), 0, 0, 0))
        dims = features.shape[1]
        return node_bilinear(
            NodePlan(tuple(paths), len(self.placed), dims, dims, plain=self.plan.plain), logits, features
        )

    made = ScalarGate.__init__

    def remember(self, layout, channels):
        made(self, layout, channels)
        self.placed = [(track, layout.slice(track).start) for track in layout if track != SCALAR]

    before = build().predict(crystal()).energy
    monkeypatch.setattr(ScalarGate, "__init__", remember)
    monkeypatch.setattr(ScalarGate, "forward", forward)
    potential = build()
    batch = potential.batch([crystal(), molecule("CH3CH2OH")])
    plain = build().use("reference")
    assert potential.engine.name == "native"
    assert any(step.kind == "activation" for step in make_schedule(potential.model).steps)
    ours, theirs = potential(batch, stress=True), plain(batch, stress=True)
    assert abs(float(ours.energy[0] - before)) > 1e-6
    for name in ("energy", "forces", "stress"):
        torch.testing.assert_close(getattr(ours, name), getattr(theirs, name), rtol=1e-10, atol=1e-10, equal_nan=True)
    gradients = []
    for each in (potential, plain):
        prediction = each(batch, train=True)
        loss = prediction.energy.square().sum() + prediction.forces.square().sum()
        weights = [weight for weight in each.parameters() if weight.requires_grad]
        gradients.append(torch.autograd.grad(loss, weights, allow_unused=True, materialize_grads=True))
    for one, other in zip(*gradients, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-8, atol=1e-10)
    export_native(potential, tmp_path / "model.cstf")
    first, _, forces = run(program, tmp_path / "model.cstf", crystal(), tmp_path)
    expected = potential.predict(crystal())
    np.testing.assert_allclose(first[0], float(expected.energy), rtol=1e-12)
    np.testing.assert_allclose(forces, expected.forces.numpy(), rtol=1e-9, atol=1e-9)


def header_of(content: bytes) -> dict:
    length = struct.unpack("<Q", content[:8])[0]
    header = json.loads(content[8 : 8 + length])
    header["__metadata__"]["model"] = json.loads(header["__metadata__"]["model"])
    return header


def test_the_file_is_the_same_on_every_machine():
    """Nothing in it is padded to vectors, and nothing is a path or a name of this machine."""
    content = exported(build(channels=5))
    header = header_of(content)
    assert header["__metadata__"]["format"] == "cliffordstf-native"
    assert header["__metadata__"]["version"] == "1"
    assert header["weights.embedding.weight"]["shape"] == [4, 5]
    # The order of entries is not fixed, their contents are.
    assert header == header_of(exported(build(channels=5)))


@pytest.mark.parametrize("change", ["too short", "no model", "version", "missing", "unknown operator"])
def test_what_is_no_model_gets_a_sentence(change, tmp_path):
    content = exported(build())
    broken = {
        "too short": content[:5],
        "no model": b"\x02\0\0\0\0\0\0\0{}",
        "version": content.replace(b'"version":"1"', b'"version":"7"'),
        "missing": content.replace(b"weights.embedding.weight", b"weights.embedding.wrong!"),
        "unknown operator": content.replace(b"scalar_gate", b"scalar_gait"),
    }[change]
    words = {
        "too short": "too short",
        "no model": "no exported model",
        "version": "version 7",
        "missing": "lacks the numbers|no entry",
        "unknown operator": "scalar_gait",
    }[change]
    with pytest.raises(RuntimeLibraryError, match=words):
        NativeModel(broken, torch.float64)


FUZZ = """
import sys, torch, numpy as np
from cliffordstf.kernels.native.runtime import Evaluation, NativeModel, NativeWorkspace, RuntimeLibraryError
import cliffordstf
content = open(sys.argv[1], "rb").read()
start = 8 + int.from_bytes(content[:8], "little")
rng = np.random.default_rng(int(sys.argv[2]))
potential = cliffordstf.build("default", elements=[1, 8], seed=0, channels=4, lmax=2).double()
batch = potential.batch([cliffordstf.Structure([8, 1, 1], [[0, 0, 0], [0.9, 0, 0], [0, 0.9, 0.1]])])
refused = 0
for number in range(int(sys.argv[3])):
    data = bytearray(content)
    # The header and the tables are what could lead astray: most changes are there.
    for _ in range(rng.integers(1, 4)):
        place = rng.integers(0, start if rng.random() < 0.5 else len(data))
        data[place] = rng.integers(0, 256) if rng.random() < 0.5 else data[place] ^ (1 << rng.integers(0, 8))
    if rng.random() < 0.1:
        data = data[: rng.integers(0, len(data))]
    try:
        work = NativeWorkspace(NativeModel(bytes(data), torch.float64))
        work.set_edges(batch.edges, batch.numbers, 1, batch.structure_of_atom)
        energy, forces = torch.zeros(1).double(), torch.zeros(3, 3).double()
        call = Evaluation(positions=batch.positions.data_ptr(), energies=energy.data_ptr(), forces=forces.data_ptr())
        work.evaluate(call)
    except RuntimeLibraryError:
        refused += 1
print(refused)
"""


def test_a_damaged_file_gets_an_error_and_never_a_crash(tmp_path):
    model = tmp_path / "model.cstf"
    model.write_bytes(exported(cliffordstf.build("default", elements=[1, 8], seed=0, channels=4, lmax=2).double()))
    command = [sys.executable, "-c", FUZZ, model, "0", "300"]
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, env={**os.environ, "OMP_NUM_THREADS": "1"}
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert int(done.stdout) > 100


def test_a_model_without_a_schedule_is_refused():
    with pytest.raises(ConfigError, match="cannot be exported: its forces come from a head of their own"):
        exported(cliffordstf.build("paper/full", elements=[1, 8]))

"""A real i-PI server and our client."""

import os
import socket
import subprocess
import sys

import numpy as np
import pytest
import typer
from ase import Atoms
from ase.build import bulk, molecule
from ase.io import write
from ase.units import GPa
from typer.testing import CliRunner

import cliffordstf
from cliffordstf.cli.ipi import ipi
from cliffordstf.errors import ConfigError, StructureError
from cliffordstf.integrations.ase import Calculator
from cliffordstf.integrations.ipi import serve_ipi

BEADS = 4
STEPS = 3

SERVER = "import sys; from ipi.engine.simulation import Simulation; Simulation.load_from_xml(open(sys.argv[1])).run()"

INPUT = """
<simulation verbosity='quiet'>
  <output prefix='run'>
    <properties stride='1' filename='out'> [step, potential{electronvolt}, virial_cv{gigapascal}] </properties>
  </output>
  <total_steps> %(steps)d </total_steps>
  <prng> <seed> 1 </seed> </prng>
  <ffsocket name='model' mode='%(mode)s' pbc='false'> %(address)s <latency> 1e-3 </latency> </ffsocket>
  <system>
    <initialize nbeads='4'>
      <file mode='xyz'> start.xyz </file>
      <velocities mode='thermal' units='kelvin'> 300 </velocities>
    </initialize>
    <forces> <force forcefield='model'/> </forces>
    <motion mode='dynamics'>
      <dynamics mode='nvt'>
        <timestep units='femtosecond'> 0.25 </timestep>
        <thermostat mode='pile_l'> <tau units='femtosecond'> 100 </tau> </thermostat>
      </dynamics>
    </motion>
    <ensemble> <temperature units='kelvin'> 300 </temperature> </ensemble>
  </system>
</simulation>
"""


@pytest.fixture
def serve(tmp_path, monkeypatch):
    """Start a server for a structure; its process."""
    pytest.importorskip("ipi", reason="needs pip install 'cliffordstf[ipi]'")
    monkeypatch.chdir(tmp_path)
    servers = []

    def start(atoms: Atoms, mode: str, address: str) -> subprocess.Popen:
        cell = atoms.cell.cellpar() if atoms.pbc.any() else [50.0, 50, 50, 90, 90, 90]
        lines = [
            str(len(atoms)),
            f"# CELL(abcABC): {' '.join(map(repr, map(float, cell)))} positions{{angstrom}} cell{{angstrom}}",
        ]
        lines += [
            f"{s} {x!r} {y!r} {z!r}" for s, (x, y, z) in zip(atoms.symbols, atoms.positions.tolist(), strict=True)
        ]
        (tmp_path / "start.xyz").write_text("\n".join(lines) + "\n")
        (tmp_path / "input.xml").write_text(INPUT % {"steps": STEPS, "mode": mode, "address": address})
        servers.append(
            subprocess.Popen(
                [sys.executable, "-c", SERVER, "input.xml"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT
            )
        )
        return servers[-1]

    yield start
    for server in servers:
        server.kill()
        server.communicate()


def output() -> np.ndarray:
    return np.loadtxt("run.out")


def test_path_integrals_have_the_energies_of_the_calculator(serve):
    name = f"cliffordstf-test-{os.getpid()}"
    atoms = molecule("CH3CH2OH")
    server = serve(atoms, "unix", f"<address> {name} </address>")
    found = []

    def note(_: int) -> None:
        found.append(atoms.get_potential_energy())

    calculator = Calculator("ethanol-gfn2")
    count = serve_ipi(atoms, calculator, unix=name, on_evaluation=note)
    assert server.wait(60) == 0, server.stdout.read()
    assert count == BEADS * (STEPS + 1)
    means = np.reshape(found, (STEPS + 1, BEADS)).mean(axis=1)
    np.testing.assert_allclose(output()[:, 1], means, atol=1e-4)
    assert np.ptp(found[-BEADS:]) > 1e-3  # the beads have moved apart
    # The first evaluation is at the structure of the file.
    assert found[0] == pytest.approx(calculator.get_potential_energy(molecule("CH3CH2OH")), abs=1e-6)


def test_the_command_serves_a_crystal_with_its_stress(serve, tmp_path):
    potential = cliffordstf.build("default/small", elements=["Si"], seed=1, channels=8, energy_scale=20.0)
    path = cliffordstf.model.file.save_model(potential, tmp_path / "model.safetensors")
    atoms = bulk("Si", cubic=True, a=5.3)
    write("si.extxyz", atoms)
    with socket.socket() as free:
        free.bind(("localhost", 0))
        port = free.getsockname()[1]
    server = serve(atoms, "inet", f"<address> localhost </address> <port> {port} </port>")
    app = typer.Typer()
    app.command()(ipi)
    result = CliRunner().invoke(app, [str(path), "si.extxyz", "--port", str(port)])
    assert result.exit_code == 0, result.output
    assert f"evaluations {BEADS * (STEPS + 1)}" in result.output
    assert server.wait(60) == 0, server.stdout.read()
    calculator = Calculator(potential)
    assert output()[0, 1] == pytest.approx(calculator.get_potential_energy(atoms), abs=1e-4)
    # The virial over the volume, without the kinetic part; the beads start at the same place.
    expected = -calculator.get_stress(atoms)[[0, 1, 2, 5, 4, 3]] / GPa
    np.testing.assert_allclose(output()[0, 2:], expected, atol=1e-4)
    assert abs(expected[0]) > 0.1


def test_errors_are_one_sentence(serve):
    with pytest.raises(ConfigError, match="no i-PI server listens at the Unix socket 'nobody-here'"):
        serve_ipi(molecule("H2O"), Calculator("ethanol-gfn2"), unix="nobody-here", wait=0.0)
    with pytest.raises(ConfigError, match="listens at localhost:1 "):
        serve_ipi(molecule("H2O"), Calculator("ethanol-gfn2"), port=1, wait=0.0)
    name = f"cliffordstf-test-atoms-{os.getpid()}"
    serve(molecule("H2O"), "unix", f"<address> {name} </address>")
    with pytest.raises(ConfigError, match="has 9 atoms and i-PI's has another number"):
        serve_ipi(molecule("CH3CH2OH"), Calculator("ethanol-gfn2"), unix=name)


def test_errors_of_the_model_are_not_hidden(serve):
    name = f"cliffordstf-test-error-{os.getpid()}"
    atoms = Atoms("H2", positions=[[0, 0, 0], [0, 0, 0]])
    serve(atoms, "unix", f"<address> {name} </address>")
    with pytest.raises(StructureError, match="on the same spot"):
        serve_ipi(atoms, Calculator("ethanol-gfn2"), unix=name)

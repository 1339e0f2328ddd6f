import pytest

from cliffordstf.bench.layouts import rmd17_layout, wall_clock_layout
from cliffordstf.bench.paper import paper_models, paper_value
from cliffordstf.bench.published import RMD17_MOLECULES
from cliffordstf.bench.tables import paper_tables
from tests.bench.test_leaderboard import result


def column(table, molecule):
    return {row[0]: row[table.heads.index(molecule)] for row in table.rows}


def test_models_stand_in_the_papers_order_with_its_numbers_below_ours():
    results = [result(name, 9.0) for name in ("painn", "default", "mace-l1", "paper/full")]
    results.append(result("mace-l1", 11.0, seed=1))
    cosine, forces, energy = rmd17_layout(results)
    own = [row[0] for row in cosine.rows if "," not in row[0]]
    assert own == ["default", "paper/full", "mace-l1", "painn", "zero row"]
    assert column(cosine, "ethanol")["paper/full, paper"] == "0.586"
    assert column(cosine, "aggregate")["paper/full, paper"] == "0.551 ± 0.064"
    assert column(forces, "ethanol")["mace-l1"] == "10.00 ± 1.41"
    assert column(forces, "ethanol")["paper/full, paper"] == "664 ± 193"  # printed as 15.302 meV/Å
    assert column(forces, "ethanol")["mace-l1, published"] == "2.1"
    assert column(energy, "ethanol")["mace-l1, published"] == "0.4"
    assert "mace-l1, published" not in column(cosine, "ethanol")
    assert column(forces, "ethanol")["zero row"] == "900"
    assert column(forces, "aspirin")["painn"] == ""


def test_the_aggregate_needs_all_molecules():
    nine = [result("default", 5.0, molecule) for molecule in RMD17_MOLECULES[1:]]
    assert column(rmd17_layout(nine)[1], "aggregate")["default"] == ""
    ten = [*nine, result("default", 15.0, RMD17_MOLECULES[0])]
    assert column(rmd17_layout(ten)[1], "aggregate") == {"default": "6.00", "zero row": "900"}


def test_budgets_and_protocols_are_kept_apart():
    results = [result("default", 5.0), {**result("default", 4.0), "budget": 1200.0}]
    assert len(rmd17_layout(results)) == 6
    assert "20 min each" in rmd17_layout(results)[0].title


def test_the_wall_clock_table_compares_structures_a_second():
    rows = [
        {"name": "default lmax 3", "parameters": 984514, "training_ms": 400.0, "inference_ms": 100.0},
        {"name": "paper/full", "parameters": 1018014, "training_ms": 500.0, "inference_ms": 125.0},
        {"name": "painn", "parameters": 1051201, "training_ms": 800.0, "inference_ms": 250.0},
    ]
    machine = {"processor": "one", "threads": 2}
    speed = {"rows": rows, "machine": machine, "commit": "0123456789ab", "roofline": {}}
    table = wall_clock_layout(speed, 32)
    assert [row[0] for row in table.rows] == ["painn", "paper/full", "default lmax 3"]
    assert table.rows[0][1:] == ["1,051,201", "40", "128", "1,043,856", "1,145", "3,575"]
    assert table.rows[2][4:] == ["", "", ""]
    assert [item.title for item in paper_tables([speed])] == [table.title]


@pytest.mark.parametrize(("kind", "structures"), [("training", 900), ("inference", 100)])
def test_the_papers_steps_are_passes_over_its_data(kind, structures):
    for model in paper_models("wallclock"):
        seconds, rate = (paper_value("wallclock", model, f"{kind}_{what}").value for what in ("s", "per_s"))
        assert seconds * rate == pytest.approx(structures, rel=0.02)

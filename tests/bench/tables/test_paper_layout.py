import csv
from importlib.resources import files

import pytest

from cliffordstf.bench.literature.paper_values import paper_models, paper_value
from cliffordstf.bench.literature.published_values import RMD17_MOLECULES, published_value
from cliffordstf.bench.tables.paper_layout import wall_clock_layout
from cliffordstf.bench.tables.paper_tables import paper_tables
from cliffordstf.zoo import names
from tests.bench.tables.test_leaderboard import result


def column(table, head):
    """Cells by the name of their row, without the number of passes."""
    return {row[0].partition(" (")[0]: row[table.heads.index(head)] for row in table.rows}


def test_models_stand_in_the_papers_order_with_its_numbers_below_ours():
    results = [result(name, 9.0) for name in ("painn", "default", "mace-l1", "paper/full")]
    results.append(result("mace-l1", 11.0, seed=1))
    cosine, forces, energy = paper_tables(results)
    assert [row[0] for row in cosine.rows if "," not in row[0]] == [
        "default (20 passes)", "paper/full (20 passes)", "mace-l1 (20 passes)", "painn (20 passes)", "baseline"
    ]  # fmt: skip
    assert column(cosine, "ethanol")["paper/full, paper"] == "0.586"
    assert column(cosine, "aggregate")["paper/full, paper"] == "0.551 ± 0.064"
    assert column(forces, "ethanol")["mace-l1"] == "10.00 ± 1.41"
    assert column(forces, "ethanol")["paper/full, paper"] == "664 ± 193"  # printed as 15.302 meV/Å
    assert column(forces, "ethanol")["mace-l1, published"] == "2.1"
    assert column(energy, "ethanol")["mace-l1, published"] == "0.4"
    assert "mace-l1, published" not in column(cosine, "ethanol")
    assert column(forces, "ethanol")["baseline"] == "900"
    assert column(cosine, "ethanol")["baseline"] == "0.000"
    assert column(forces, "aspirin")["painn"] == ""


def test_the_aggregate_needs_all_molecules():
    nine = [result("default", 5.0, molecule) for molecule in RMD17_MOLECULES[1:]]
    assert column(paper_tables(nine)[1], "aggregate")["default"] == ""
    ten = [*nine, result("default", 15.0, RMD17_MOLECULES[0])]
    assert column(paper_tables(ten)[1], "aggregate") == {"default": "6.00", "baseline": "900"}


def test_budgets_and_protocols_are_kept_apart():
    results = [result("default", 5.0), {**result("default", 4.0), "budget": 1200.0}]
    assert len(paper_tables(results)) == 6
    assert "20 min each" in paper_tables(results)[0].title


def test_catalysis_has_both_tasks_in_one_table():
    run = {"protocol": "sound", "budget": 600.0, "epochs": 3, "config": {"epochs": 150}}
    metrics = {"energy_mae_mev": 500.0, "baseline_energy_mae_mev": 900.0, "energy_within_threshold": 0.02}
    forces = {"force_mae_mev_per_a": 40.0, "baseline_force_mae_mev_per_a": 80.0, "force_cosine": 0.4}
    common = {**run, "benchmark": "oc22", "model": "painn-oc", "recipe": "painn-oc"}
    relaxed = {**common, "task": "is2re", "tests": {"val_id": metrics, "val_ood": metrics}}
    steps = {**common, "task": "s2ef", "tests": {"val_id": {**metrics, **forces}}}
    adsorption = {**steps, "recipe": "other energies", "energy": "adsorption"}
    (table,) = paper_tables([relaxed, steps, adsorption])
    assert table.rows[-2][0] == "painn-oc, paper"
    assert column(table, "IS2RE VAL_ID, eV")["painn-oc"] == "0.500"
    assert column(table, "is2re val_ood ewt, %")["painn-oc"] == "2.000"
    assert column(table, "s2ef val_id forces, eV/Å")["painn-oc"] == "0.040"
    assert column(table, "s2ef val_id forces, eV/Å")["baseline"] == "0.080"
    assert column(table, "s2ef val_ood energy, eV")["painn-oc"] == ""
    assert column(table, "s2ef val_id forces, eV/Å")["other energies"] == ""
    printed = paper_value("oc22", "painn", "is2re val_id")
    assert column(table, "IS2RE VAL_ID, eV")["painn-oc, paper"] == f"{printed.value:.3f} ± {printed.std:.3f}"


def test_ten_million_parameters_have_the_papers_table_of_their_own():
    settings = {"protocol": "paper", "budget": 600.0, "epochs": 3, "config": {"epochs": 50}}
    metrics = {
        "energy_mae_mev": 2000.0, "energy_mae_mev_per_atom": 20.0, "force_mae_mev_per_a": 80.0, "force_cosine": 0.1,
        "baseline_energy_mae_mev": 9000.0, "baseline_energy_mae_mev_per_atom": 90.0,
        "baseline_force_mae_mev_per_a": 90.0,
    }  # fmt: skip

    def run(benchmark, task, model):
        labels = {"benchmark": benchmark, "task": task, "model": model, "recipe": model}
        return {**labels, **settings, "tests": {"val_id": metrics}}

    results = [
        run("oc22", "is2re", "mace-l2-10m-oc"),
        run("oc20", "s2ef", "mace-l2-10m-oc"),
        run("oc22", "s2ef", "painn"),
    ]
    table = next(table for table in paper_tables(results) if table.title.startswith("Scaling check, 10^7 parameters"))
    assert [row[0] for row in table.rows] == ["mace-l2-10m-oc (3 of 50 passes)", "mace-l2-10m-oc, paper", "baseline"]
    assert column(table, "oc22 is2re per atom, eV") == {
        "mace-l2-10m-oc": "0.0200", "mace-l2-10m-oc, paper": "0.0779", "baseline": "0.0900",
    }  # fmt: skip
    assert column(table, "oc20 s2ef forces, eV/Å")["mace-l2-10m-oc"] == "0.0800"
    assert column(table, "oc22 s2ef forces, eV/Å")["mace-l2-10m-oc"] == ""


def test_qm9_and_molecule3d_are_one_table_in_ev():
    def run(benchmark, target, error):
        labels = {"benchmark": benchmark, "target": target, "model": "torchmd-et-qm9", "recipe": "torchmd-et-qm9"}
        metrics = {"energy_mae_mev": error, "baseline_energy_mae_mev": 10 * error}
        settings = {"protocol": "paper", "budget": 600.0, "epochs": 3, "config": {"epochs": 250}}
        return {**labels, **settings, "metrics": metrics}

    results = [run("qm9", target, 60.0) for target in ("Cv", "U0", "alpha", "homo", "lumo", "mu")]
    (table,) = paper_tables([*results, run("molecule3d", "gap", 500.0)])
    assert table.rows[0][0] == "torchmd-et-qm9 (3 of 250 passes)"
    assert column(table, "U0, eV") | {"baseline": ""} == {
        "torchmd-et-qm9": "0.0600", "torchmd-et-qm9, paper": column(table, "U0, eV")["torchmd-et-qm9, paper"],
        "torchmd-et-qm9, published": "0.0062", "baseline": "",
    }  # fmt: skip
    assert column(table, "aggregate")["torchmd-et-qm9"] == "0.0600"
    assert column(table, "Molecule3D gap, eV")["baseline"] == "5.000"


def test_the_ablation_says_what_variants_have_and_averages_molecules():
    results = [
        result("paper/stf2", 10.0, benchmark="ablation"),
        result("paper/stf2", 20.0, "aspirin", benchmark="ablation"),
    ]
    (table,) = paper_tables(results)
    assert "mean of aspirin, ethanol" in table.title
    assert table.rows[0][1:5] == ["stf2", "on", "on", "none"]
    assert column(table, "force MAE, meV/Å")["paper/stf2"] == "15.00"
    assert column(table, "force MAE, meV/Å")["paper/stf2, paper"] == "759 ± 41"


def test_a_mean_of_columns_has_the_spread_of_its_seeds():
    results = [
        {**result("paper/stf2", forces + seed, molecule, benchmark="ablation"), "seed": seed}
        for molecule, forces in (("aspirin", 20.0), ("ethanol", 10.0))
        for seed in (0, 1)
    ]
    (table,) = paper_tables(results)
    assert column(table, "force MAE, meV/Å")["paper/stf2"] == "15.50 ± 0.71"
    (table,) = paper_tables(results[:-1])  # one seed that both have: no spread
    assert column(table, "force MAE, meV/Å")["paper/stf2"] == "15.25"


def test_published_numbers_are_of_known_models_and_have_a_source():
    rows = list(csv.DictReader((files("cliffordstf.bench.literature") / "published.csv").read_text().splitlines()))
    assert all(row["model"] in names() and row["source"] for row in rows)
    assert published_value("qm9", "mace-l2-qm9", "U0") == 0.0041
    assert published_value("rmd17_forces", "mace-l1", "aspirin", 950) == 6.6
    assert published_value("rmd17_energy", "gotennet", "aspirin", 950) == 1.55
    assert published_value("rmd17_energy", "gotennet", "aspirin", 50) is None
    assert published_value("rmd17_forces", "mace-l1", "aspirin", 50) == 43.9
    assert published_value("rmd17_forces", "mace-l1", "aspirin", 200) is None


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
    speed["rounds"] = {"budget_s": 180.0, "done": {"inference": [2, 4], "training": [1, 1]}}
    assert "; budget 3 min, rounds: inference 2 to 4, training 1;" in wall_clock_layout(speed, 32).title


@pytest.mark.parametrize(("kind", "structures"), [("training", 900), ("inference", 100)])
def test_the_papers_steps_are_passes_over_its_data(kind, structures):
    for model in paper_models("wallclock"):
        seconds, rate = (paper_value("wallclock", model, f"{kind}_{what}").value for what in ("s", "per_s"))
        assert seconds * rate == pytest.approx(structures, rel=0.02)

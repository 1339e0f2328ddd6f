import pytest
from typer.testing import CliRunner

from cliffordstf.bench.literature.paper_values import paper_models, paper_value
from cliffordstf.bench.studies.rmd17 import rmd17_table
from cliffordstf.bench.tables.ablation import ABLATION, ablation_table
from cliffordstf.bench.tables.all_tables import all_tables
from cliffordstf.bench.tables.formatting import circumstances, passes
from cliffordstf.bench.tables.leaderboard import leaderboard
from cliffordstf.bench.tables.paper_tables import paper_tables
from cliffordstf.cli.main import app
from cliffordstf.model.presets import PRESETS


def result(model: str, forces: float, molecule: str = "ethanol", seed: int = 0, benchmark: str = "rmd17") -> dict:
    metrics = {
        "energy_mae_mev": 1.0,
        "force_mae_mev_per_a": forces,
        "force_cosine": 0.999,
        "baseline_energy_mae_mev": 140.0,
        "baseline_force_mae_mev_per_a": 900.0,
    }
    labels = {"benchmark": benchmark, "molecule": molecule, "train": 950, "model": model, "recipe": model}
    run = {"protocol": "sound", "budget": 600.0, "seed": seed, "parameters": 10, "steps": 60, "seconds": 30.0}
    return {**labels, **run, "epochs": 20, "config": {"epochs": "auto"}, "metrics": metrics}


def test_the_paper_is_quoted_in_the_units_it_really_has():
    baseline_force = paper_value("rmd17_forces", "paper/clifford", "aspirin")
    assert baseline_force.value == pytest.approx(
        947.7, abs=0.1
    )  # printed as 21.855 meV/Å; the data's mean is 945 meV/Å
    assert paper_value("rmd17_cosine", "paper/full", "aggregate").value == 0.551
    assert paper_value("ablation", "paper/full", "cosine").value == 0.506
    assert paper_value("ablation", "paper/full", "forces").value == pytest.approx(16.802 * 43.3641, rel=1e-5)
    assert paper_value("oc22", "paper/full", "is2re val_id").std == 0.261
    assert paper_value("wallclock", "paper/full", "parameters").value == 1_056_534
    assert paper_value("qm9", "visnet", "molecule3d gap") is None


def test_a_preset_with_the_settings_of_a_table_is_its_row_there_and_only_there():
    assert paper_value("qm9", "painn-qm9", "U0") == paper_value("qm9", "painn", "U0")
    assert paper_value("oc20", "equiformer-l4-oc", "is2re val_id").value == 0.801
    assert paper_value("rmd17_cosine", "paper/clifford-md17", "aspirin") is not None
    assert paper_value("qm9", "equiformer-l4-oc", "U0") is None
    assert paper_value("scaling", "equiformer-l2-10m", "oc20 s2ef energy").value == 1.244
    assert paper_value("scaling", "equiformer-l2-10m-oc", "oc20 s2ef energy").value == 1.244
    table = leaderboard([result("mace-l1-md17", 9.0)], 950, (600.0, 0, 0), "sound")
    assert table.rows[0][5:7] == ["32468 / 99737 (0.101)", "0.4 / 2.1"]


def test_protocols_have_leaderboards_of_their_own():
    names = ("default", "painn", "schnet", "mace-l1")
    results = [result(name, 5.0) for name in names]
    results += [{**result(name, 5.0), "protocol": "recommended", "recipe": f"{name} recommended"} for name in names]
    tables = all_tables(results)
    assert [[row[0] for row in table.rows[:-1]] for table in tables] == [
        [f"{name} recommended" for name in names],
        list(names),
    ]
    assert "protocol recommended" in tables[0].title


def test_machines_and_splits_have_leaderboards_of_their_own():
    names = ("default", "painn", "schnet", "mace-l1")
    here = [{**result(name, 5.0), "machine": {"processor": "A", "threads": 1}} for name in names]
    there = [{**result(name, 4.0), "machine": {"processor": "B", "threads": 1}} for name in names[:2]]
    other = [{**result(name, 9.0), "machine": {"processor": "A", "threads": 1}, "split": 2} for name in names]
    tables = all_tables([*here, *there, *other])
    assert [len(table.rows) - 1 for table in tables] == [4, 2, 4]
    assert ["of A" in table.title for table in tables] == [True, False, True]
    assert [table.rows[0][2] for table in tables] == [
        "1.00 / 5.00 (0.99900)",
        "1.00 / 4.00 (0.99900)",
        "1.00 / 9.00 (0.99900)",
    ]


def test_the_ablation_has_twelve_variants_that_can_be_built():
    assert len(ABLATION) == 12
    assert set(ABLATION) <= set(PRESETS)
    assert len(paper_models("rmd17_cosine")) == 19


def test_models_are_ranked_beside_the_paper_and_the_baseline():
    results = [result("mace-l1", 9.0), result("default", 5.0), result("default", 7.0, seed=1), result("painn", 20.0)]
    table = leaderboard(results, 950, (600.0, 0, 0), "sound")
    assert [row[0] for row in table.rows] == ["default", "mace-l1", "painn", "baseline"]
    assert table.rows[0][3:5] == ["2.0", "20"]
    assert table.rows[0][2].startswith("1.00 ± 0.00 / 6.00 ± 1.41")
    assert table.rows[1][5:7] == ["32468 / 99737 (0.101)", "0.4 / 2.1"]
    assert table.rows[-1][2] == "140 / 900 (0)"


def test_speed_and_passes_belong_to_a_molecule():
    slow = {**result("default", 9.0, molecule="aspirin"), "steps": 30, "passes": 4.25}
    table = leaderboard([result("default", 5.0), slow, result("painn", 7.0)], 950, (600.0, 0, 0), "sound")
    assert table.heads[7:10] == ["ethanol", "steps/s", "passes"]
    assert table.rows[0][3:5] == ["1.0", "4.2"]
    assert table.rows[0][8:10] == ["2.0", "20"]
    assert table.rows[1][2:5] == ["", "", ""]


def test_titles_say_under_which_circumstances():
    machine = {"machine": {"threads": 1, "processor": "AMD EPYC"}, "split": 1}
    runs = [{**result("default", 5.0), **machine, "commit": "b" * 40, "date": "2"}]
    runs += [{**result("painn", 5.0, seed=1), **machine, "commit": "a" * 40, "date": "1"}]
    assert leaderboard(runs, 950, (600.0, 0, 0), "sound").title.endswith(
        "; split 1; seeds 0, 1; 1 thread of AMD EPYC; commits aaaaaaa, bbbbbbb"
    )


def test_many_models_make_a_leaderboard_and_few_a_table():
    few = [result(name, 5.0) for name in ("default", "painn")]
    many = [result(name, 5.0) for name in ("default", "painn", "schnet", "mace-l1")]
    assert all_tables(few)[0].heads[0] == "molecule"
    assert all_tables(many)[0].heads[0] == "model"


def test_the_ablation_table_says_what_each_variant_has():
    results = [result(name, 5.0 + seed, seed=seed, benchmark="ablation") for name in ABLATION for seed in (0, 1)]
    longer = [{**result("paper/full", 4.0, benchmark="ablation"), "budget": 1200.0}]
    tables = [table for table in all_tables([*results, *longer]) if table.title.startswith("Ablation")]
    assert [len(table.rows) for table in tables] == [13, 2]
    table = ablation_table(results, (600.0, 0, 0))
    assert len(table.rows) == 13
    assert table.rows[0][:5] == ["paper/full", "stf2+stf3", "on", "on", "learned"]
    assert table.rows[0][6] == "1994 / 729 (0.506)"
    assert table.rows[-2][0] == "paper/clifford"


def test_an_ablation_of_equal_steps_has_a_table_of_its_own_and_says_what_each_variant_took():
    timed = result("paper/full", 5.0, benchmark="ablation")
    counted = [
        {
            **result("paper/full", 4.0 + seed, seed=seed, benchmark="ablation"),
            "budget": None,
            "config": {"epochs": "auto", "steps": 600},
        }
        for seed in (0, 1)
    ]
    steps, time = all_tables([timed, *counted])
    assert "10 min each" in time.title
    assert "600 steps each" in steps.title
    assert (time.heads[-1], steps.heads[-1]) == ("passes", "minutes")
    assert steps.rows[0][-2:] == ["1.00 ± 0.00 / 4.50 ± 0.71 (0.99900 ± 0.00000)", "0.5 ± 0.0"]
    assert ["600 steps each" in table.title for table in paper_tables([timed, *counted])] == [False, True]


def test_the_command_names_what_it_cannot_find(tmp_path):
    found = CliRunner().invoke(app, ["bench", "ablation", "--data", str(tmp_path), "--results", str(tmp_path / "r")])
    assert found.exit_code != 0


def test_a_tree_with_changes_is_not_shown_as_its_commit():
    runs = [{**result("default", 5.0), "commit": "0123456789abcdef+"}]
    assert circumstances(runs).endswith("commit 0123456+")


def test_tables_say_how_far_a_budget_got():
    short = {**result("paper/full", 9.0), "epochs": 124, "config": {"epochs": 250}}
    assert passes([short]) == "124 of 250"
    assert passes([short, {**short, "epochs": 99}]) == "99 to 124 of 250"
    assert passes([{**short, "passes": 123.6}]) == "124 of 250"
    assert passes([{**short, "passes": 0.34}, {**short, "passes": 1.05}]) == "0.3 to 1.1 of 250"
    assert leaderboard([short], 950, (600.0, 0, 0), "sound").rows[0][4] == "124 of 250"
    assert rmd17_table([short], 950).heads[1] == "paper/full, 10 min (124 of 250 passes)"
    assert rmd17_table([result("default", 5.0)], 950).heads[1] == "default, 10 min"

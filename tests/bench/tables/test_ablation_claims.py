import pytest

from cliffordstf.bench.tables.ablation import ABLATION
from cliffordstf.bench.tables.ablation_claims import COMPARISONS, claims_table
from cliffordstf.bench.tables.all_tables import all_tables
from cliffordstf.model.presets import own_preset
from tests.bench.tables.test_leaderboard import result

EACH = (600.0, 0, 0)


def run(model: str, forces: float, seed: int = 0) -> dict:
    return result(model, forces, seed=seed, benchmark="ablation")


def test_pairs_differ_in_one_thing_and_groups_hold_all_variants():
    assert {name for comparison in COMPARISONS for name in (*comparison.having, *comparison.lacking)} == set(ABLATION)
    for about, flag in (("cross-track", "cross_track"), ("Hodge", "hodge_forces"), ("routing", "routing")):
        for comparison in COMPARISONS:
            if about in comparison.about:
                (having,), (lacking,) = comparison.having, comparison.lacking
                first, second = (own_preset(name, elements=(1,)).model_dump() for name in (having, lacking))
                assert {key for key in first if first[key] != second[key]} == {flag}


def test_ratios_are_of_seeds_that_both_sides_have():
    runs = [run("paper/stf2", 10.0), run("paper/stf2", 30.0, 1), run("paper/stf2", 99.0, 2)]
    runs += [run("paper/stf2-no-cross", 20.0), run("paper/stf2-no-cross", 20.0, 1)]
    table = claims_table(runs, EACH)
    rows = {row[0]: row for row in table.rows}
    assert list(rows) == ["cross-track coupling (stf2)"], "what was not run is not there"
    assert rows["cross-track coupling (stf2)"][3:] == ["1.00 (0.50 to 1.50)", "1.00 (1.00 to 1.00)"]
    # The paper prints 17.511 / 17.317 and 34.909 / 25.790.
    assert rows["cross-track coupling (stf2)"][1:3] == ["1.01", "1.35"]


def test_groups_count_by_their_mean_and_need_all_their_members():
    runs = [run(name, 10.0) for name in ABLATION[:-1]] + [run("paper/clifford", 20.0)]
    rows = {row[0]: row[3] for row in claims_table(runs, EACH).rows}
    assert rows["the scaffold, beside vanilla Clifford"] == "0.50"
    assert rows["the scaffold, beside STF at the output only"] == "1.00"
    rows = {row[0]: row[3] for row in claims_table(runs[1:], EACH).rows}
    assert "the scaffold, beside vanilla Clifford" not in rows


@pytest.mark.parametrize("missing", [True, False])
def test_the_table_follows_that_of_the_ablation_where_there_is_something_to_compare(missing):
    runs = [run("paper/stf2", 10.0), *([] if missing else [run("paper/stf2-no-cross", 20.0)])]
    assert [table.title.split(",")[0] for table in all_tables(runs)] == [
        "Ablation", *([] if missing else ["The ablation's claims"])
    ]  # fmt: skip

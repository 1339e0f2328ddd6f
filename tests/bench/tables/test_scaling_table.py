from cliffordstf.bench.studies.scaling import LAST
from cliffordstf.bench.tables.scaling_table import scaling_tables


def result(model: str, seconds: float, seed: int = 0, **changes) -> dict:
    validation = {"energy_mae_mev": 20.0, "force_mae_mev_per_a": 50.0, "force_cosine": 0.99}
    baselines = {"baseline_energy_mae_mev": 210.0, "baseline_force_mae_mev_per_a": 945.0}
    labels = {"benchmark": "scaling", "frames": "a.npz", "budget_steps": 300, "cut_after": None}
    labels |= {"model": model, "recipe": model}
    times = {"step_seconds": seconds, "step_quartiles": [0.9 * seconds, 1.1 * seconds]}
    return {
        **labels, "overrides": [], "seed": seed, "parameters": 10**7 if "10m" in model else 10**6,
        "machine": {"processor": "a processor", "threads": 1, "accelerator": None}, "structures_a_step": 2,
        **times, "peak_memory_mb": 512.3, "last_loss": 0.1, "diverged": None,
        "steps": changes.get("budget_steps", 300),
        "validation": {**validation, **baselines}, **changes,
    }  # fmt: skip


def timing(small: str, large: str, step: tuple[float, float], gradient: tuple[float, float], **changes) -> dict:
    pairs = {"step": step, "gradient": gradient}
    return {
        "benchmark": "scaling", "kind": "timing", "frames": "a.npz", "small": small, "large": large,
        "machine": {"processor": "a processor", "threads": 1, "accelerator": None},
        "seconds": {
            f"{size} {part}": {"median": values[number], "quartiles": [0.9 * values[number], 1.1 * values[number]]}
            for part, values in pairs.items() for number, size in enumerate(("small", "large"))
        },
        "ratios": {
            part: {"median": b / a, "low": 0.5 * b / a, "high": 2 * b / a, "rounds": 15}
            for part, (a, b) in pairs.items()
        },
        **changes,
    }  # fmt: skip


def test_sizes_are_compared_where_they_were_timed_side_by_side():
    runs = [result("paper/full-10m", 3.0), result("paper/full", 0.5), result("mace-l2-10m", 4.0)]
    times = [
        timing("paper/full", "paper/full-10m", (0.4, 2.0), (0.3, 0.9)),
        timing("a", "b", (1, 1), (1, 1), frames="b.npz"),
    ]
    cost, _ = scaling_tables([*runs, *times])
    assert [row[0] for row in cost.rows] == ["paper/full", "paper/full-10m", "mace-l2-10m"]
    assert cost.rows[0][1:6] == ["1,000,000", "1,056,534", "512", "0.500 (0.450 to 0.550)", "0.400 (0.360 to 0.440)"]
    assert cost.rows[1][2] == "10^7"
    assert cost.rows[1][5:] == [
        "2.000 (1.800 to 2.200)",
        "5.0 (2.5 to 10.0)",
        "0.900 (0.810 to 0.990)",
        "3.0 (1.5 to 6.0)",
    ]
    assert (cost.rows[0][6], cost.rows[0][8], cost.rows[2][5:]) == ("", "", [""] * 4)
    assert "a processor, 1 threads" in cost.title


def test_several_seeds_have_a_spread():
    results = [result("mace-l2", 1.0 + seed, seed) for seed in (0, 1)]
    cost, learned = scaling_tables(results)
    assert cost.rows[0][4] == "1.500 ± 0.707"
    assert learned.rows[0][1:3] == ["300", "0.1000 ± 0.0000"]


def test_the_paper_and_the_zero_row_are_beside_what_was_learned():
    names = ("paper/full", "paper/full-10m", "equiformer-l2", "default/10m")
    _, learned = scaling_tables([result(name, 1.0) for name in names])
    rows = {row[0]: row for row in learned.rows}
    assert rows["paper/full"][3:] == [
        "20.00 / 50.00 (0.9900)",
        "4.089 eV",
        "2.866 / 0.073 (0.05)",
        "2.115 / 0.06 (0.138)",
    ]
    assert rows["paper/full-10m"][4:] == ["0.0162 eV/atom", "2.081 / 0.0769 (0.094)", "1.552 / 0.0554 (0.192)"]
    assert rows["equiformer-l2"][4:] == rows["default/10m"][4:] == ["", "", ""]
    assert rows["baseline"][3] == "210.00 / 945.00 (0.0000)"
    assert f"last {LAST} steps" in learned.title


def test_data_without_forces_have_a_table_too():
    energies = {
        "energy_mae_mev": 20.0,
        "force_mae_mev_per_a": None,
        "force_cosine": None,
        "baseline_energy_mae_mev": 9.0,
    }
    _, learned = scaling_tables([result("default/1m", 1.0, validation=energies)])
    assert [row[3] for row in learned.rows] == ["20.00", "9.00"]


def test_every_data_file_and_number_of_steps_has_its_tables():
    results = [
        result("default/1m", 1.0),
        result("default/1m", 1.0, budget_steps=50),
        result("default/1m", 1.0, frames="b"),
    ]
    assert len(scaling_tables(results)) == 6
    assert scaling_tables([]) == []


def cut(model: str, steps: int, losses: dict[int, float]) -> dict:
    rows = [
        {"step": float(step), "train_loss": loss, "valid_energy_mae_mev": 100 * loss,
         "valid_force_mae_mev_per_a": 1000 * loss, "valid_force_cosine": 0.5}
        for step, loss in losses.items()
    ]  # fmt: skip
    return result(model, 1.0, steps=steps, cut_after=120.0, history=rows)


def test_runs_that_a_budget_cut_are_compared_where_both_sizes_of_their_family_came_by():
    fast = cut("default/1m", 300, {50: 0.5, 100: 0.3, 150: 0.2, 300: 0.1})
    slow = cut("default/10m", 130, {50: 0.4, 100: 0.2, 130: 0.15})
    others = [cut(name, 170, {50: 0.4, 150: 0.1, 170: 0.15}) for name in ("mace-l2", "mace-l2-10m")]
    _, learned = scaling_tables([fast, slow, *others])
    assert "as each row says (the last mark that both sizes of a family got to in 2 min each)" in learned.title
    assert learned.rows[1][0] == "default/10m (cut after 130 steps)"
    assert [row[1:4] for row in learned.rows] == [
        ["100", "0.3000", "30.00 / 300.00 (0.5000)"],
        ["100", "0.2000", "20.00 / 200.00 (0.5000)"],
        ["150", "0.1000", "10.00 / 100.00 (0.5000)"],
        ["150", "0.1000", "10.00 / 100.00 (0.5000)"],
        ["", "", "210.00 / 945.00 (0.0000)"],
    ]


def test_a_run_that_was_cut_before_the_first_mark_has_no_errors():
    fast = cut("default/1m", 300, {50: 0.5, 300: 0.1})
    _, learned = scaling_tables([fast, cut("default/10m", 17, {17: 0.9})])
    assert [row[1:4] for row in learned.rows][:2] == [["300", "0.1000", "10.00 / 100.00 (0.5000)"], ["300", "", ""]]


def test_budgets_have_tables_of_their_own():
    assert len(scaling_tables([result("default/1m", 1.0), cut("default/1m", 300, {300: 0.1})])) == 4


def test_timings_alone_make_no_table():
    assert scaling_tables([timing("paper/full", "paper/full-10m", (0.4, 2.0), (0.3, 0.9))]) == []

"""The shipped tables of the paper against its LaTeX source: every value and standard deviation, to the last digit.

The files hold what is printed; `paper_values` converts units only when it is asked. So no conversion stands here.
"""

import csv
from dataclasses import dataclass, field
from decimal import Decimal
from importlib.resources import files

import pytest

from tests.bench.literature.latex_tables import number, read_table
from tests.conftest import data_directory

Numbers = dict[tuple[str, str], tuple[Decimal, Decimal | None]]

MODELS = {
    "CliffordSTF (ours)": "paper/full",
    "Clifford (ours)": "paper/clifford",
    "Clifford (ours base)": "paper/clifford",
    "EquiformerV2": "equiformer-l4",  # without a degree in the tables of OC20, OC22 and QM9; their settings say 4
    "EquiformerV2 L=4": "equiformer-l4",
    "EquiformerV2 L=3": "equiformer-l3",
    "EquiformerV2 L=2": "equiformer-l2",
    "MACE L=3": "mace-l3",
    "MACE L=2": "mace-l2",
    "MACE L=1": "mace-l1",
    "ICTP L=3": "ictp-l3",
    "ICTP L=2": "ictp-l2",
    "ICTP L=1": "ictp-l1",
    "NequIP": "nequip-l1",  # all its settings say degree 1
    "NequIP L=1": "nequip-l1",
    "GotenNet": "gotennet",
    "PaiNN": "painn",
    "TorchMD-NET": "torchmd-et",
    "ViSNet": "visnet",
    "FAENet": "faenet",
    "DimeNet++": "dimenet++",
    "SchNet": "schnet",
}
LARGE_MODELS = {
    "CliffordSTF (ours)": "paper/full-10m",
    "Clifford (ours base)": "paper/clifford-10m",
    "EquiformerV2 L=2": "equiformer-l2-10m",
    "MACE L=2": "mace-l2-10m",
}
VARIANTS = {
    "Full": "paper/full",
    "STF2 static routing": "paper/stf2-static",
    "CliffordSTF scaffold (L=2)": "paper/scaffold",
    "STF2 learned routing": "paper/stf2-learned",
    "STF2+STF3": "paper/stf2-stf3",
    "Full no cross": "paper/full-no-cross",
    "Hodge only": "paper/hodge-only",
    "STF2 no hodge": "paper/stf2-no-hodge",
    "STF2 no cross": "paper/stf2-no-cross",
    "STF2": "paper/stf2",
    "STF only output (no scaffold)": "paper/output-only",
    "Vanilla Clifford (L=1)": "paper/clifford",
}

MOLECULES = {
    "Asp": "aspirin",
    "Azo": "azobenzene",
    "Bnz": "benzene",
    "Eth": "ethanol",
    "Mal": "malonaldehyde",
    "Nap": "naphthalene",
    "Par": "paracetamol",
    "Sal": "salicylic",
    "Tol": "toluene",
    "Ura": "uracil",
    "Agg": "aggregate",
}
SWITCHES = ("STF mode", "Hodge", "Cross", "Routing", "Mode")


def s2ef(group: str, name: str) -> dict[str, str]:
    """Columns of energies and forces under one head."""
    measures = {"e_MAE (eV)": "energy", "f_MAE (eV/Å)": "forces", "f_cos": "cosine"}
    return {f"{group} / {head}": f"{name} {measure}" for head, measure in measures.items()}


OC22 = s2ef("S2EF val_id", "s2ef val_id") | s2ef("S2EF val_ood", "s2ef val_ood")


@dataclass(frozen=True)
class Place:
    """Where the numbers of a file stand in the paper.

    Attributes:
        file: Name of the csv file.
        label, panel: Of the LaTeX table.
        columns: Column of the file, by the head in LaTeX.
        models: Model of the file, by the name of the row in LaTeX.
        no_numbers: Heads of columns that are left out because they hold words.
        not_here: Columns of the file that another place of the paper prints.
    """

    file: str
    label: str
    columns: dict[str, str]
    panel: str = ""
    models: dict[str, str] = field(default_factory=lambda: MODELS)
    no_numbers: tuple[str, ...] = ()
    not_here: tuple[str, ...] = ()


PLACES = (
    Place("rmd17_cosine", "tab:md17_fcos", MOLECULES),
    Place("rmd17_forces", "tab:md17_permol_full", MOLECULES, panel="(a) Force MAE (meV/"),
    Place("rmd17_energy", "tab:md17_permol_full", MOLECULES, panel="(b) Energy MAE (meV)"),
    Place(
        "oc22",
        "tab:oc22",
        {"IS2RE MAE (eV) / val_id": "is2re val_id", "IS2RE MAE (eV) / val_ood": "is2re val_ood", **OC22},
        not_here=("is2re val_ood ewt",),
    ),
    Place(
        "oc22",
        "tab:oc_full",
        {
            "IS2RE / MAE_id (eV)": "is2re val_id",
            "IS2RE / MAE_ood (eV)": "is2re val_ood",
            "IS2RE / EwT_ood": "is2re val_ood ewt",
            **OC22,
        },
        panel="(b) OC22",
    ),
    Place(
        "oc20",
        "tab:oc_full",
        {
            "IS2RE MAE (eV) / val_id": "is2re val_id",
            "IS2RE MAE (eV) / val_ood-ads": "is2re val_ood_ads",
            "IS2RE MAE (eV) / val_ood-cat": "is2re val_ood_cat",
            "IS2RE MAE (eV) / val_ood-both": "is2re val_ood_both",
            **s2ef("S2EF val_id", "s2ef val_id"),
            **s2ef("S2EF val_ood-both", "s2ef val_ood_both"),
        },
        panel="(a) OC20",
    ),
    Place(
        "ablation",
        "tab:ablation",
        {
            "Metrics / f_MAE (meV/Å)": "forces",
            "Metrics / e_MAE (meV)": "energy",
            "Metrics / f_cos": "cosine",
        },
        models=VARIANTS,
        no_numbers=tuple(f"Configuration / {name}" for name in SWITCHES),
    ),
    Place(
        "scaling",
        "tab:scaling_check",
        {
            "OC22 IS2RE / MAE/at (eV/at)": "oc22 is2re per atom",
            **s2ef("OC22 S2EF", "oc22 s2ef"),
            **s2ef("OC20 S2EF", "oc20 s2ef"),
        },
        models=LARGE_MODELS,
    ),
    Place(
        "qm9",
        "tab:qm9_mol3d_full",
        {
            "QM9 / C_v": "Cv",
            "QM9 / U_0": "U0",
            "QM9 / alpha": "alpha",
            "QM9 / HOMO": "homo",
            "QM9 / LUMO": "lumo",
            "QM9 / mu": "mu",
            "QM9 / Aggregate": "aggregate",
            "Molecule3D / HOMO--LUMO (eV)": "molecule3d gap",
        },
    ),
    Place(
        "wallclock",
        "tab:wallclock",
        {
            "Params": "parameters",
            "Train step (s)": "training_s",
            "Train (s/s)": "training_per_s",
            "Infer step (s)": "inference_s",
            "Infer (s/s)": "inference_per_s",
        },
    ),
)


def transcribed(file: str) -> str:
    return (files("cliffordstf.bench.literature") / "paper" / f"{file}.csv").read_text(encoding="utf-8")


def differences(place: Place, text: str, source: str) -> list[str]:
    """Every number in which the text of a csv file and the LaTeX source differ, or that only one of them has."""
    table = read_table(source, place.label, place.panel)
    assert set(table.heads[1:]) == {*place.columns, *place.no_numbers}
    printed: Numbers = {}
    lines = {}
    for row in table.rows:
        model = place.models[row.cells[0]]
        assert model not in lines, f"{model} has two rows"
        lines[model] = row.line
        for head, cell in zip(table.heads, row.cells, strict=True):
            found = number(cell) if head in place.columns else None
            if found is not None:
                printed[model, place.columns[head]] = found
    written: Numbers = {}
    for entry in csv.DictReader(text.splitlines()):
        key = (entry["model"], entry["column"])
        assert key not in written, f"{key} stands twice in {place.file}.csv"
        written[key] = (Decimal(entry["value"]), Decimal(entry["std"]) if entry["std"] else None)
    order = list(dict.fromkeys(model for model, _ in written))
    said = [] if order == list(lines) else [f"{place.file}.csv has the models {order}, the paper {list(lines)}"]
    for key in dict.fromkeys([*printed, *written]):
        ours, theirs = written.get(key), printed.get(key)
        if ours != theirs and key[1] not in place.not_here:
            said.append(
                f"{place.file}.csv, {key}: {shown(ours)}, line {lines.get(key[0])} of the paper: {shown(theirs)}"
            )
    return said


def shown(found: tuple[Decimal, Decimal | None] | None) -> str:
    return "nothing" if found is None else " ± ".join(str(part) for part in found if part is not None)


@pytest.fixture
def paper() -> str:
    data = data_directory()
    path = None if data is None else data.parent / "paper.tex"
    if path is None or not path.is_file():
        pytest.skip("no LaTeX source of the paper: paper.tex beside the folder of real data (CLIFFORDSTF_TEST_DATA)")
    return path.read_text(encoding="utf-8")


@pytest.mark.parametrize("place", PLACES, ids=lambda place: f"{place.file} {place.label} {place.panel}".strip())
def test_every_number_is_the_papers(place, paper):
    found = differences(place, transcribed(place.file), paper)
    assert not found, "\n".join(found)


def test_every_file_has_its_place():
    shipped = {
        path.name for path in (files("cliffordstf.bench.literature") / "paper").iterdir() if path.name.endswith(".csv")
    }
    assert shipped == {f"{place.file}.csv" for place in PLACES}

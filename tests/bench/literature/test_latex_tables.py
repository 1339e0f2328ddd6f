from decimal import Decimal

import pytest

from tests.bench.literature.latex_tables import Row, Table, number, plain, read_table
from tests.bench.literature.test_paper_transcription import Place, differences

SAMPLE = r"""
\label{tab:sample}
(a) Sample
\begin{tabular}{lccc}
\toprule
& \multicolumn{2}{c}{Errors} & \\
\cmidrule(lr){2-3}
Model & $f_\mathrm{MAE}$ (meV/\AA) & $f_\mathrm{cos}\uparrow$ & Mode \\
\midrule
EquiformerV2 $L{=}4$$^{\dagger}$ & 12.8k $\pm$ 2.0k & \textbf{-0.960} $\pm$ 0.002 & static \\
\midrule
\color{gray}{SchNet} & \color{gray}{1{,}043 $\pm$ 0.0k} & -- & --- \\
\bottomrule
\end{tabular}%
\end{table}
"""
WRITTEN = """model,column,value,std
equiformer-l4,forces,12800,2000
equiformer-l4,cosine,-0.96,0.002
schnet,forces,1043,0
"""


def test_tables_are_read_as_plain_text():
    assert read_table(SAMPLE, "tab:sample", "(a) Sample") == Table(
        ("Model", "Errors / f_MAE (meV/Å)", "Errors / f_cos", "Mode"),
        (
            Row(10, ("EquiformerV2 L=4", "12.8k ± 2.0k", "-0.960 ± 0.002", "static")),
            Row(12, ("SchNet", "1,043 ± 0.0k", "--", "---")),
        ),
    )


def test_numbers_are_exact():
    assert number("12.8k ± 2.0k") == (Decimal(12800), Decimal(2000))
    assert number("1,043,856") == (Decimal(1043856), None)
    assert number("-0.960 ± 0.002") == (Decimal("-0.96"), Decimal("0.002"))
    assert number("--") is None


def test_what_is_not_understood_is_an_error():
    with pytest.raises(ValueError, match="not a number"):
        number("0.0779 [7.33]")
    with pytest.raises(ValueError, match="not understood"):
        plain(r"\cellcolor{red}{0.1}")
    with pytest.raises(ValueError, match="more or fewer cells"):
        read_table(SAMPLE.replace(" & static", ""), "tab:sample")


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("", "", []),
        ("-0.96,", "-0.961,", ["('equiformer-l4', 'cosine'): -0.961 ± 0.002, line 10 of the paper: -0.960 ± 0.002"]),
        ("0.96,0.002", "0.96,", ["('equiformer-l4', 'cosine'): -0.96, line 10 of the paper: -0.960 ± 0.002"]),
        ("12800,2000", "12.8,2", ["('equiformer-l4', 'forces'): 12.8 ± 2, line 10"]),
        ("1043,0\n", "1043,0\nschnet,cosine,0,\n", ["('schnet', 'cosine'): 0, line 12 of the paper: nothing"]),
        ("schnet,forces,1043,0\n", "", ["has the models ['equiformer-l4'], the paper", "nothing, line 12"]),
    ],
)
def test_a_wrong_number_is_found(old, new, said):
    heads = {"Errors / f_MAE (meV/Å)": "forces", "Errors / f_cos": "cosine"}
    place = Place("sample", "tab:sample", heads, panel="(a) Sample", no_numbers=("Mode",))
    found = differences(place, WRITTEN.replace(old, new), SAMPLE)
    assert len(found) == len(said)
    assert all(part in line for part, line in zip(said, found, strict=True))

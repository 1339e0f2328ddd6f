"""A table that prints to a terminal and writes itself as Markdown, LaTeX and HTML."""

from dataclasses import dataclass, field
from html import escape

import rich.table

_LATEX = {
    "&": r"\&",
    "%": r"\%",
    "_": r"\_",
    "#": r"\#",
    "±": r"$\pm$",
    "Å": r"\AA{}",
    "µ": r"$\mu$",
    "²": r"$^2$",
    "^": r"\^{}",
}


@dataclass
class Table:
    """Rows of text; the first column names them.

    Attributes:
        title: What the numbers are, with units.
        heads: Titles of the columns.
        rows: Text by row.
    """

    title: str
    heads: list[str]
    rows: list[list[str]] = field(default_factory=list)

    def add(self, *cells: str) -> None:
        """Add a row."""
        if len(cells) != len(self.heads):
            raise ValueError(f"a row of {len(cells)} cells does not fit {len(self.heads)} columns")
        self.rows.append(list(cells))

    def rich(self) -> rich.table.Table:
        """For a terminal."""
        table = rich.table.Table(title=self.title)
        for number, head in enumerate(self.heads):
            table.add_column(head, justify="right" if number else "left")
        for row in self.rows:
            table.add_row(*row)
        return table

    def markdown(self) -> str:
        """As Markdown, title first."""
        lines = [f"**{self.title}**", "", _line(self.heads), _line(["---"] + ["---:"] * (len(self.heads) - 1))]
        return "\n".join([*lines, *(_line(row) for row in self.rows)]) + "\n"

    def latex(self) -> str:
        """As a LaTeX table with booktabs rules."""
        body = [" & ".join(map(_latex, row)) + r" \\" for row in self.rows]
        return "\n".join(
            [
                r"\begin{table}",
                rf"\caption{{{_latex(self.title)}}}",
                rf"\begin{{tabular}}{{l{'r' * (len(self.heads) - 1)}}}",
                r"\toprule",
                " & ".join(map(_latex, self.heads)) + r" \\",
                r"\midrule",
                *body,
                r"\bottomrule",
                r"\end{tabular}",
                r"\end{table}",
                "",
            ]
        )

    def html(self) -> str:
        """As an HTML table."""
        head = "".join(f"<th>{escape(text)}</th>" for text in self.heads)
        rows = "\n".join("<tr>" + "".join(f"<td>{escape(text)}</td>" for text in row) + "</tr>" for row in self.rows)
        return f"<table>\n<caption>{escape(self.title)}</caption>\n<tr>{head}</tr>\n{rows}\n</table>\n"


def html_page(body: str) -> str:
    """Tables as a page that a browser shows as they are meant."""
    style = (
        "body{font:15px system-ui,sans-serif;margin:2em}table{border-collapse:collapse;margin-bottom:2em}"
        "caption{text-align:left;padding-bottom:.5em}"
        "th,td{padding:.2em .7em;text-align:right;border-bottom:1px solid #ddd}"
        "th:first-child,td:first-child{text-align:left}"
    )
    head = f'<meta charset="utf-8"><title>Results</title><style>{style}</style>'
    return f'<!doctype html>\n<html lang="en">\n<head>{head}</head>\n<body>\n{body}</body>\n</html>\n'


def _line(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _latex(text: str) -> str:
    return "".join(_LATEX.get(character, character) for character in text)

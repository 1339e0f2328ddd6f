"""Tables of a LaTeX source as plain text, and the numbers in their cells."""

import re
from dataclasses import dataclass
from decimal import Decimal

RULES = r"(?:\s|\\(?:top|mid|bottom)rule|\\cmidrule(?:\(\w+\))?\{[\d-]+\})*"
SYMBOLS = {r"\pm": "±", r"\AA": "Å", r"\alpha": "alpha", r"\mu": "mu"}
STYLE = r"\\(?:textbf|underline|mathrm|text|uparrow|!)(?![a-zA-Z])|\\color\{\w+\}|\\textcolor\{\w+\}"
MARKS = r"\^\{?\\(?:ast|dagger|ddagger)\}?"
NUMBER = r"(-?\d+(?:,\d{3})*(?:\.\d+)?)(k?)"


@dataclass(frozen=True)
class Row:
    """A row of a table: the line of the file on which it starts, and its cells as plain text."""

    line: int
    cells: tuple[str, ...]


@dataclass(frozen=True)
class Table:
    """Heads of the columns, as `group / head` where a head spans several, and the rows below them."""

    heads: tuple[str, ...]
    rows: tuple[Row, ...]


def read_table(source: str, label: str, panel: str = "") -> Table:
    """The table with a label; of several under one label, the one that follows the text `panel`."""
    labelled = source.index(rf"\label{{{label}}}")
    end = source.index(r"\end{table}", labelled)
    after = source.index(panel, labelled, end)
    begun = re.compile(r"\\begin\{tabular\}\{[^{}]*\}").search(source, after, end)
    if begun is None:
        raise ValueError(f"{label} has no tabular after {panel!r}")
    body, ended = begun.end(), source.index(r"\end{tabular}", begun.end(), end)
    middle = source.index(r"\midrule", body, ended)
    heads = [expanded(cells) for _, cells in split(source, body, middle)]
    rows = tuple(Row(line, tuple(map(plain, cells))) for line, cells in split(source, middle, ended))
    joined = tuple(" / ".join(part for part in parts if part) for parts in zip(*heads, strict=True))
    if any(len(row.cells) != len(joined) for row in rows):
        raise ValueError(f"{label} has rows with more or fewer cells than heads")
    return Table(joined, rows)


def split(source: str, start: int, end: int) -> list[tuple[int, list[str]]]:
    """Rows between two places of the source: their lines and their cells, still LaTeX."""
    found = []
    for text in source[start:end].split(r"\\"):
        rules = re.match(RULES, text)
        skipped = rules.end() if rules else 0
        if text[skipped:]:
            found.append((source.count("\n", 0, start + skipped) + 1, text[skipped:].split("&")))
        start += len(text) + len(r"\\")
    return found


def expanded(cells: list[str]) -> list[str]:
    """Plain heads, those that span several columns repeated over them."""
    found: list[str] = []
    for cell in cells:
        spans = re.fullmatch(r"\s*\\multicolumn\{(\d+)\}\{\w+\}\{(.*)\}\s*", cell, re.DOTALL)
        found += [plain(spans[2])] * int(spans[1]) if spans else [plain(cell)]
    return found


def plain(cell: str) -> str:
    """A cell without type, colour and footnote marks; anything not understood is an error."""
    text = re.sub(f"{STYLE}|{MARKS}", "", cell)
    for command, symbol in SYMBOLS.items():
        text = re.sub(re.escape(command) + "(?![a-zA-Z])", symbol, text)
    text = " ".join(re.sub(r"[${}]", "", text).split())
    if re.search(r"[\\%^~]", text):
        raise ValueError(f"LaTeX that is not understood: {cell!r}")
    return text


def number(cell: str) -> tuple[Decimal, Decimal | None] | None:
    """Value and standard deviation of a plain cell, 12.8k as 12800; None for a dash."""
    if re.fullmatch("-{2,3}", cell):
        return None
    found = re.fullmatch(f"{NUMBER}(?: ± {NUMBER})?", cell)
    if found is None:
        raise ValueError(f"not a number: {cell!r}")
    value, k, std, std_k = found.groups()
    return scaled(value, k), scaled(std, std_k) if std else None


def scaled(digits: str, k: str) -> Decimal:
    """Exactly the printed number."""
    return Decimal(digits.replace(",", "")) * (1000 if k else 1)

"""HTML from values: everything that could hold a user's text is escaped here."""

import base64
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import PurePath
from typing import Any
from xml.etree import ElementTree

import numpy as np
import yaml

DASH = "–"
NOT_FINITE = "NaN"


@dataclass(frozen=True)
class Cell:
    """A table cell.

    Attributes:
        text: Shown; escaped unless `is_html`.
        value: What sorting compares; None sorts last. Cells with a value are aligned as numbers.
        is_html: The text is markup made by this package.
        strong: Emphasised.
    """

    text: str
    value: float | None = None
    is_html: bool = False
    strong: bool = False


def is_number(value: Any) -> bool:
    """Whether there is a finite number to show."""
    return isinstance(value, int | float | np.number) and not isinstance(value, bool) and math.isfinite(value)


def significant(value: float | None, digits: int = 3) -> str:
    """Three significant digits, no exponent where it can be avoided, a dash for nothing.

    >>> significant(0.01234), significant(0.9999), significant(12345.6), significant(None)
    ('0.0123', '1.00', '12,346', '–')
    """
    if value is None or not is_number(value):
        return DASH
    if value == 0:
        return "0"
    scientific = f"{value:.{digits - 1}e}"
    exponent = int(scientific.split("e")[1])  # Of the rounded number: 0.9999 shows as 1.00, not 1.000.
    if not -4 <= exponent < 7:
        return scientific
    return f"{value:,.{max(0, digits - 1 - exponent)}f}"


def cosine_text(value: float | None) -> str:
    """Four decimals, more where that would round to 1."""
    if value is None or not is_number(value):
        return DASH
    return f"{value:.4f}" if abs(1 - value) > 5e-4 else f"{value:.6f}"


def number_cell(value: Any, text: str | None = None, strong: bool = False) -> Cell:
    """A cell that sorts by its number."""
    shown = significant(value) if text is None else text
    return Cell(shown, float(value) if is_number(value) else None, strong=strong)


def measured_cell(value: float | None, text: str | None = None, strong: bool = False) -> Cell:
    """A cell with a measure: a dash without labels, NaN where predictions are not finite.

    >>> measured_cell(None).text, measured_cell(float("nan")).text, measured_cell(0.5).text
    ('–', 'NaN', '0.500')
    """
    if value is None or is_number(value):
        return number_cell(value, text, strong)
    return Cell(NOT_FINITE, math.inf, strong=strong)


def table(headers: Sequence[str], rows: Sequence[Sequence[Cell]], *, sortable: bool = False, caption: str = "") -> str:
    """An HTML table; columns that hold numbers anywhere are right-aligned, and the caption does not scroll."""
    numeric = [any(row[column].value is not None for row in rows) for column in range(len(headers))]
    css = ["number" if flag else "text" for flag in numeric]
    head = "".join(_header(name, kind, sortable) for name, kind in zip(headers, css, strict=True))
    body = "".join(
        "<tr>" + "".join(_cell(cell, kind) for cell, kind in zip(row, css, strict=True)) + "</tr>" for row in rows
    )
    return (
        f'<div class="scroll"><table class="{"sortable" if sortable else "plain"}">'
        f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"
        + (f'<p class="caption">{escape(caption)}</p>' if caption else "")
    )


def _header(name: str, kind: str, sortable: bool) -> str:
    words = re.sub(r"\([^()]*\)$", r'<span class="unit">\g<0></span>', escape(name))  # A unit is never broken.
    text = f'<button type="button">{words}</button>' if sortable else words
    return f'<th scope="col" class="{kind}">{text}</th>'


def _cell(cell: Cell, kind: str) -> str:
    text = cell.text if cell.is_html else escape(cell.text)
    text = f"<strong>{text}</strong>" if cell.strong else text
    number = "Infinity" if cell.value == math.inf else repr(cell.value)  # As JavaScript reads it.
    value = "" if cell.value is None else f' data-value="{number}"'
    return f'<td class="{kind}"{value}>{text}</td>'


def figure(markup: str, caption: str) -> str:
    """A figure of our own with its caption."""
    return f"<figure>{markup}<figcaption>{escape(caption)}</figcaption></figure>"


def foreign_svg(caption: str, svg: str) -> str:
    """A figure from outside, as an image: whatever the SVG holds cannot run or reach the page."""
    try:
        root = ElementTree.fromstring(svg.encode())
    except ElementTree.ParseError as error:
        return figure(f'<p class="missing">This figure is not well-formed SVG ({escape(str(error))}).</p>', caption)
    if root.tag == "svg":  # As an image it needs the namespace that inline SVG does without.
        svg = svg.replace("<svg", '<svg xmlns="http://www.w3.org/2000/svg"', 1)
    data = base64.b64encode(svg.encode()).decode()
    image = f'<img class="foreign" alt="{escape(caption)}" src="data:image/svg+xml;base64,{data}">'
    return figure(image, caption)


def plain(value: Any) -> Any:
    """The value with only dicts, lists, strings, numbers, booleans and None in it, as YAML and JSON hold them."""
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, np.ndarray):
        return plain(value.tolist())
    if isinstance(value, list | tuple | set | frozenset):
        return [plain(item) for item in (sorted(value, key=str) if isinstance(value, set | frozenset) else value)]
    if isinstance(value, np.generic):
        return value.item()
    if value is None or isinstance(value, bool | int | float | str):
        return value
    return str(value) if isinstance(value, PurePath) else f"{value}"


def as_yaml(value: Any) -> str:
    """YAML in the given order of keys."""
    text: str = yaml.safe_dump(plain(value), sort_keys=False, allow_unicode=True, width=100)
    return text.removesuffix("...\n").rstrip("\n")


def code_block(text: str) -> str:
    """Preformatted text."""
    return f"<pre><code>{escape(text)}</code></pre>"


def definition_table(values: Mapping[str, Any]) -> str:
    """Names and values in two columns; nested values as YAML."""
    rows = []
    for key, value in plain(values).items():
        simple = isinstance(value, str | int | float | bool) or value is None
        shown = f"<code>{escape(str(value))}</code>" if simple else code_block(as_yaml(value))
        rows.append(f'<tr><th scope="row">{escape(key)}</th><td>{shown}</td></tr>')
    return f'<div class="scroll"><table class="definitions"><tbody>{"".join(rows)}</tbody></table></div>'

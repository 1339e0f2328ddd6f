"""`cliffordstf data fetch`: data sets from the internet, checked, in the layout that `bench` expects."""

import shlex
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Annotated
from urllib.parse import urlsplit

import typer
from rich.console import Console
from rich.markup import escape
from rich.progress import DownloadColumn, Progress, TimeRemainingColumn, TransferSpeedColumn
from rich.table import Table

from cliffordstf.cli.data import data_app
from cliffordstf.data.fetch import (
    CATALOGUE,
    RECORD,
    DataSet,
    Outcome,
    RemoteFile,
    Report,
    addresses,
    chosen_files,
    fetch,
    state,
)
from cliffordstf.errors import ConfigError
from cliffordstf.options.text import did_you_mean

STATES = {"missing": "to fetch", "begun": "to go on with", "archive": "to unpack", "there": "there"}


@data_app.command("fetch")
def fetch_command(
    name: Annotated[str | None, typer.Argument(help=f"{', '.join(CATALOGUE)}.")] = None,
    to: Annotated[Path | None, typer.Option(help="Folder; data/NAME by default, where bench looks.")] = None,
    parts: Annotated[str | None, typer.Option(help="Parts separated by commas, see --list; or 'all'.")] = None,
    url: Annotated[
        str | None, typer.Option(help="Take it from this mirror instead: address or path of a folder or of a file.")
    ] = None,
    keep: Annotated[bool, typer.Option("--keep", help="Keep archives that have been unpacked.")] = False,
    show: Annotated[bool, typer.Option("--list", help="Show what there is, with sizes; fetch nothing.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would be fetched; fetch nothing.")] = False,
) -> None:
    """Download a data set: resumable, checked against published checksums, unpacked for bench."""
    console = Console(soft_wrap=True)
    if show or name is None:
        console.print(catalogue_table([_find(name)] if name else CATALOGUE.values()))
        if not show:
            raise ConfigError(f"name a data set: {', '.join(CATALOGUE)}.")
        return
    dataset = _find(name)
    folder = to or dataset.folder
    wanted = _parts(dataset, parts)
    if dry_run:
        console.print(plan_table(chosen_files(dataset, wanted), folder, url))
        return
    outcomes: list[Outcome] = []
    try:
        with _Bars() as bars:
            fetch(dataset, folder, wanted, mirror=url, keep=keep, report=bars.report, done=outcomes.append)
    finally:  # if one file fails, what was found of the others is said all the same
        for outcome in outcomes:
            _say(console, _sentence(outcome, folder))
    _say(console, f"licence {dataset.licence}; cite {dataset.citation}")
    if dataset.note:
        _say(console, dataset.note)
    for command in next_commands(dataset, wanted, folder):
        _say(console, f"next: {command}")


def _find(name: str) -> DataSet:
    if name not in CATALOGUE:
        raise ConfigError(
            f"there is no data set '{name}'{did_you_mean(name, CATALOGUE)}; choose from {', '.join(CATALOGUE)}."
        )
    return CATALOGUE[name]


def _parts(dataset: DataSet, text: str | None) -> tuple[str, ...]:
    if text is None:
        return dataset.default
    return tuple(dataset.parts) if text == "all" else tuple(part.strip() for part in text.split(","))


def next_commands(dataset: DataSet, parts: Sequence[str], folder: Path) -> list[str]:
    """What can be run with these parts."""
    to = shlex.quote(str(folder))
    ready = [(needed, command) for needed, command in dataset.commands if needed <= set(parts)]
    return [command.format(to=to) for needed, command in ready if not any(needed < other for other, _ in ready)]


def catalogue_table(datasets: Iterable[DataSet]) -> Table:
    """Every part of the data sets; a star marks those that are fetched if none is named."""
    table = Table(title="Data sets", caption="* is fetched unless --parts says otherwise")
    for head in ("data set", "part", "size", "published checksum", "licence"):
        table.add_column(head, no_wrap=True, justify="right" if head == "size" else "left")
    for dataset in datasets:
        for part, files in dataset.parts.items():
            star = " *" if part in dataset.default else ""
            row = (dataset.name, part + star, _total(files), _checksums(files), dataset.licence)
            table.add_row(*map(escape, row))
        table.add_section()
    return table


def plan_table(files: Sequence[RemoteFile], folder: Path, mirror: str | None = None) -> Table:
    """What a fetch would do; sizes are those of the whole files."""
    urls = addresses(files, mirror)
    table = Table(title=escape(str(folder)), caption=f"{_total(files)} in all")
    for head in ("file", "size", "state", "published checksum", "from"):
        table.add_column(head, overflow="fold", justify="right" if head == "size" else "left")
    for file in files:
        row = (file.name, _total([file]), STATES[state(file, folder)], _checksums([file]), _place(urls[file.name]))
        table.add_row(*map(escape, row))
    return table


def _place(urls: Sequence[str]) -> str:
    """Hosts, or this machine."""
    return ", ".join(dict.fromkeys(urlsplit(url).hostname or "this machine" for url in urls))


def _checksums(files: Iterable[RemoteFile]) -> str:
    found = {", ".join(checksum.partition(":")[0] for checksum in file.checksums) or "none" for file in files}
    return "; ".join(sorted(found))


def _total(files: Iterable[RemoteFile]) -> str:
    items = list(files)
    if any(file.size is None for file in items):
        return "unknown"
    size = human(sum(file.size or 0 for file in items))
    return size if all(file.exact for file in items) else f"about {size}"


def human(size: float) -> str:
    """Bytes with a unit.

    >>> human(1_066_301_513)
    '1.07 GB'
    """
    for unit in ("bytes", "kB", "MB", "GB"):
        if size < 1000:
            return f"{size:.3g} {unit}"
        size /= 1000
    return f"{size:.3g} TB"


def _sentence(outcome: Outcome, folder: Path) -> str:
    file, verdict = outcome.file, outcome.verdict
    name = file.name
    if verdict is None:
        if outcome.ours:
            return f"{name}: was fetched, checked and unpacked before"
        return f"{name}: its data are in {folder}, but not from this command, so nothing was checked"
    what = "fetched" if outcome.fetched else "was there"
    left_out = f"; {outcome.links} links in it were left out" if outcome.links else ""
    if verdict.against == "published":
        return f"{name}: {what}, and is what was published ({', '.join(verdict.algorithms)}){left_out}"
    if verdict.against == "recorded":
        return f"{name}: {what}, and is the same as at the first fetch (sha256 in {folder / RECORD}){left_out}"
    return (
        f"{name}: {what}, but no checksum of it is published; it is taken on trust, and later fetches are compared "
        f"with the sha256 {verdict.sha256} that is now in {folder / RECORD}{left_out}"
    )


def _say(console: Console, text: str) -> None:
    console.print(escape(text), highlight=False)


class _Bars:
    """A bar for each file."""

    def __init__(self) -> None:
        columns = (*Progress.get_default_columns()[:2], DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn())
        self.progress = Progress(*columns, console=Console(stderr=True), transient=True)

    def __enter__(self) -> "_Bars":
        self.progress.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self.progress.stop()

    def report(self, file: RemoteFile) -> Report:
        """What tells of one file; a new step starts the bar again."""
        task = self.progress.add_task(escape(file.name), total=None)
        step = ""

        def tell(what: str, done: int, total: int | None) -> None:
            nonlocal step
            if what != step:
                self.progress.reset(task, description=f"{what} {escape(file.name)}")
                step = what
            self.progress.update(task, completed=done, total=total)

        return tell

"""Data sets from the internet: a catalogue, downloads that go on after a cut, checksums, archives."""

from cliffordstf.data.fetch.catalogue import CATALOGUE
from cliffordstf.data.fetch.checksums import RECORD, Report, Verdict
from cliffordstf.data.fetch.entries import DataSet, RemoteFile, Unpack
from cliffordstf.data.fetch.fetching import Outcome, chosen_files, fetch, state
from cliffordstf.data.fetch.mirror import addresses

__all__ = [
    "CATALOGUE",
    "RECORD",
    "DataSet",
    "Outcome",
    "RemoteFile",
    "Report",
    "Unpack",
    "Verdict",
    "addresses",
    "chosen_files",
    "fetch",
    "state",
]

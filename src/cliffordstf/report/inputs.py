"""What a report is made of."""

from dataclasses import dataclass, field
from typing import Any

from cliffordstf.train.evaluation import Evaluation


@dataclass(frozen=True)
class ReportSection:
    """One evaluated data set.

    Attributes:
        title: For example `test set`.
        evaluation: Predictions beside labels, eV and Å; missing labels are NaN.
        metrics: Of `cliffordstf.train.metrics.compute_metrics`.
    """

    title: str
    evaluation: Evaluation
    metrics: dict[str, Any]


@dataclass(frozen=True)
class ReportInputs:
    """Everything a report shows. Any text may hold any character: the page escapes it.

    Attributes:
        title: Headline.
        sections: Evaluated data sets; the headline numbers are those of the first.
        history: One row per epoch of training, with keys such as `epoch`, `learning_rate`, `train_loss`,
            `valid_energy_mae_mev`, `valid_force_mae_mev_per_a`, `valid_force_cosine`; any may be missing.
        config: Shown as YAML.
        provenance: Command, commit, seed, machine, versions, data files.
        comparison: Rows of a table at the top: `name`, `energy_mae_mev`, `force_mae_mev_per_a`, `force_cosine`,
            `parameters`, and any other keys.
        notes: Short paragraphs.
        extra_figures: Pairs of a caption and the text of an SVG file.
        warnings: What was found while the data were read: train/test leakage, outliers, duplicates, …
    """

    title: str
    sections: list[ReportSection]
    history: list[dict[str, float]]
    config: dict[str, Any]
    provenance: dict[str, Any]
    comparison: list[dict[str, Any]]
    notes: list[str]
    extra_figures: list[tuple[str, str]]
    warnings: list[str] = field(default_factory=list)

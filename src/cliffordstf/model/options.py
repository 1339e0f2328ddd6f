"""Options that every model has, of this package or of another family."""

from typing import Annotated, Literal

from pydantic import Field

from cliffordstf.options import Options


class AnyModelOptions(Options):
    """How atomic energies become those of structures, and what happens at distances that the data do not reach."""

    pooling: Literal["sum", "mean"] = Field(
        "sum", description="A structure's value is the sum of its atoms' (energies), or their mean (a gap, a dipole)."
    )
    repulsion: Literal["none", "zbl"] = Field(
        "none",
        description="zbl: nuclear repulsion (Ziegler, Biersack, Littmark) below the shortest distances of the data, "
        "where the network is shown a distance that no longer falls; exactly zero beyond.",
    )
    repulsion_distances: dict[str, Annotated[float, Field(gt=0)]] = Field(
        {}, description="Distances by pair of elements below which it acts, Å, such as {H-O: 0.85}; found when trained."
    )

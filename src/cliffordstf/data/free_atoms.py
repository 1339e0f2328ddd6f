"""Forces on atoms that were held in place are no goal: they are masked."""

from dataclasses import replace
from pathlib import Path

import numpy as np

from cliffordstf.data.frame import Frame
from cliffordstf.errors import ConfigError


def mask_fixed_atoms(frames: list[Frame], file: Path | str) -> tuple[list[Frame], list[str]]:
    """Frames whose forces on fixed atoms are NaN, which neither loss nor measures count; and warnings.

    Raises:
        ConfigError: No frame says which of its atoms are fixed.
    """
    unknown = sum(frame.fixed is None for frame in frames)
    if unknown == len(frames):
        raise ConfigError(
            f"data.free_atoms_only needs to know which atoms are fixed, but {file} does not say; leave it out, or "
            "write the data with constraints (ASE) or a move_mask column (extended XYZ)."
        )
    warnings = []
    if unknown:
        warnings = [f"{unknown} of {len(frames)} structures of {file} name no fixed atoms: all count as free."]
    return [_masked(frame) for frame in frames], warnings


def _masked(frame: Frame) -> Frame:
    if frame.forces is None or frame.fixed is None:
        return frame
    return replace(frame, forces=np.where(frame.fixed[:, None], np.nan, frame.forces))

"""Traced graphs are in `cliffordstf.engine.traced` now; the old names still work, with a warning."""

from cliffordstf.moved import moved_from

__getattr__ = moved_from(__name__)

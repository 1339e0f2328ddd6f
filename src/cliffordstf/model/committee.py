"""Old place of `cliffordstf.model.ensemble.Ensemble`."""

from cliffordstf.moved import moved_from

__getattr__ = moved_from(__name__)

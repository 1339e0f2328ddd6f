"""Training: config, set-up, the loop, losses, metrics, checkpoints, evaluation.

The package can be called: `cliffordstf.train("my.extxyz")` trains a potential, see `cliffordstf.api.train`.
"""

import sys
from types import ModuleType
from typing import Any


class _CallableModule(ModuleType):
    """A function of the same name at the top would hide this package from `import cliffordstf.train.config as …`."""

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        """Train a potential, see `cliffordstf.api.train`."""
        from cliffordstf.api import train  # noqa: PLC0415 - it imports this package

        return train(*arguments, **options)


sys.modules[__name__].__class__ = _CallableModule

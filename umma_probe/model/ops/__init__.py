"""One decorated function per instruction, grouped by family. A new family is one file in this folder."""

from __future__ import annotations

import importlib
import pkgutil


def load_all() -> None:
    """Import every family, so that its operations register themselves."""
    for module in pkgutil.iter_modules(__path__):
        importlib.import_module(f"{__name__}.{module.name}")

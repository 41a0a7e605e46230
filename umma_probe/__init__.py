"""umma-probe: what a tensor-core kernel really did to Tensor Memory.

The public API is loaded on first use, so that ``umma-probe --help`` stays fast.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from umma_probe.api import device as device

__version__ = "0.1.0"
__all__ = ["__version__", "device"]


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


def __getattr__(name: str) -> object:
    if name == "device":
        from umma_probe.api import device

        return device
    raise AttributeError(f"module 'umma_probe' has no attribute '{name}'")

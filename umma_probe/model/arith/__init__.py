"""Bit-exact tensor-core arithmetic."""

from umma_probe.model.arith.mma import mma

__all__ = ["mma"]

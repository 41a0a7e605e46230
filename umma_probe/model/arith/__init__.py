"""Bit-exact tensor-core arithmetic: words in, words out.

``mma`` is one instruction, ``DotProduct`` one element of its result. The parameters are rows of
``spec/arithmetic.py``; ``window`` and ``groups`` are the two schemes, ``integer`` the third.
"""

from umma_probe.model.arith.dot import DotProduct
from umma_probe.model.arith.mma import mma

__all__ = ["DotProduct", "mma"]

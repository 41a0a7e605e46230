"""Causes that stop the kernel: the device's own words are the observation."""

from __future__ import annotations

from typing import TYPE_CHECKING

from umma_probe.record.schema import Diagnosis

if TYPE_CHECKING:
    from umma_probe.errors import UmmaProbeError

# what the device says -> cause; a GPU says less than this, and then there is no cause
_WORDS = (
    ("outside Tensor Memory", "tmem-out-of-range: an access leaves the 128 lanes and 512 columns of Tensor Memory"),
    ("is not allocated", "tmem-out-of-range: an access leaves the columns that the CTA has allocated"),
    ("lane % 32 must be", "tmem-lane-misaligned: an access begins at a lane at which its shape cannot begin"),
    ("reads shared address", "shared-out-of-range: an operand is fetched from outside of shared memory; its start "
     "address, LBO or SBO is wrong, or counts bytes instead of 16 bytes"),
)  # fmt: skip


def diagnose_error(error: UmmaProbeError) -> Diagnosis | None:
    """The cause, where the error itself says it."""
    for words, cause in _WORDS:
        if words in error.message:
            return Diagnosis(cause, "certain", [error.message])
    return None

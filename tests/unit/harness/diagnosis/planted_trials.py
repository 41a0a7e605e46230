"""What a planted fault leaves, by the host's prediction: runs for the diagnosis without a kernel."""

from __future__ import annotations

from umma_probe.harness.gemm.case import GemmCase
from umma_probe.harness.gemm.passes import gemm_passes
from umma_probe.harness.gemm.predict import expected_image, predict
from umma_probe.harness.gemm.registers import load
from umma_probe.harness.gemm.trial import Seen, Trial
from umma_probe.harness.inject import inject

BASE = 1024


def planted_trial(fault: str, **params: object) -> Trial:
    """M = 64, N = 24, K = 32 unless said, over the sentinel."""
    case = GemmCase.of(**{"m": 64, "n": 24, "k": 32, **params})
    clean = case.recipe()
    planted = inject(clean, fault)
    seen = []
    for codes in gemm_passes(case.m, case.n, clean.tile_k, clean.tiles, (case.a_type, case.b_type, case.d_type)):
        image = expected_image(planted, codes, BASE)
        words = predict(planted, codes, None, image, "sm_100a")
        seen.append(Seen(codes, "sentinel", tuple(load(words, one) for one in planted.readings), image))
    return Trial(clean, None, "sm_100a", seen)

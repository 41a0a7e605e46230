"""What is planted, where, and the cause that must be named: every fault of ``--inject``, and clean runs beside them.

``certain`` is what the diagnosis must be; the cases that are not say why one run cannot tell.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Planted:
    """One run with a fault."""

    probe: str
    inject: str
    cause: str
    params: dict[str, Any] = field(default_factory=dict)
    policy: str = "eager"
    ambiguous: str = ""
    """Why the run does not tell this cause from another one; empty if it must."""
    quick: bool = False
    """Part of every test run; the others run on request."""

    def __str__(self) -> str:
        options = "".join(f" {name}={value}" for name, value in self.params.items())
        return f"{self.probe}{options} {self.inject}"


ZERO, QK, PV, ALL, IDESC, LAYOUT = "tmem-zero-pv", "qk-gemm", "pv-gemm", "tmem-all-lanes", "idesc-map", "tmem-layout"
F16 = {"a_type": "f16", "d_type": "f16"}
HISTORIC = "operand-hole:512-575,768-831"
SAME_BYTES = "LBO is not used by one row width of N, and SBO of 1024 bytes times 16 is LBO"

CASES = [
    Planted(ZERO, HISTORIC, "operand-hole", quick=True),
    Planted(ZERO, HISTORIC, "operand-hole", {"fill": "sentinel"}),
    Planted(ZERO, HISTORIC, "operand-hole", {"fill": "stale"}),
    Planted(ZERO, HISTORIC, "operand-hole", {"pv_n": "16"}),
    Planted(LAYOUT, HISTORIC, "operand-hole"),
    Planted(QK, "operand-hole:a,0-15", "operand-hole"),
    Planted(QK, "operand-hole:b,5", "operand-hole"),
    Planted(PV, "operand-hole:100-200", "operand-hole"),
    Planted(ALL, "lbo-sbo-swap:a", "lbo-sbo-swap", {"swizzle": "none"}, quick=True),
    Planted(ZERO, "lbo-sbo-swap", "lbo-sbo-swap"),
    Planted(ZERO, "lbo-sbo-swap:a", "lbo-sbo-swap"),
    Planted(PV, "lbo-sbo-swap", "lbo-sbo-swap", {"hd": 128}),
    Planted(PV, "lbo-sbo-swap", "lbo-sbo-swap", ambiguous=SAME_BYTES),
    Planted(
        ALL, "lbo-sbo-swap", "lbo-sbo-swap", ambiguous="K-major with a swizzle uses no LBO: SBO alone may be wrong"
    ),
    Planted(ALL, "wrong-stride:sbo,512", "wrong-stride", quick=True),
    Planted(ZERO, "wrong-stride:sbo,256", "wrong-stride"),
    Planted(ZERO, "wrong-stride:lbo,2048", "wrong-stride"),
    Planted(QK, "wrong-stride:a,sbo,512", "wrong-stride"),
    Planted(PV, "wrong-stride:sbo,512", "wrong-stride"),
    Planted(LAYOUT, "wrong-stride:sbo,512", "wrong-stride", {"kind": "tf32"}),
    Planted(ALL, "wrong-swizzle:64B", "wrong-swizzle", quick=True),
    Planted(QK, "wrong-swizzle:64B", "wrong-swizzle"),
    Planted(QK, "wrong-swizzle:a,none", "wrong-swizzle"),
    Planted(QK, "wrong-swizzle:128B", "wrong-swizzle", {"swizzle": "32B"}),
    Planted(QK, "wrong-swizzle:32B", "wrong-swizzle", {"swizzle": "64B", "kind": "f8f6f4"}),
    Planted(ALL, "wrong-phase:128", "wrong-phase", quick=True),
    Planted(QK, "wrong-phase:a,512", "wrong-phase"),
    Planted(QK, "wrong-phase:128", "wrong-phase", {"keys": 24, "kind": "f8f6f4"}),
    Planted(QK, "wrong-start:32", "wrong-start"),
    Planted(ALL, "wrong-start:a,1024", "wrong-start", quick=True),
    Planted(ALL, "wrong-major", "wrong-major", quick=True),
    Planted(QK, "wrong-major:a", "wrong-major"),
    Planted(PV, "wrong-major", "wrong-major"),
    Planted(QK, "wrong-idesc:b-major=mn", "wrong-major"),
    Planted(QK, "k-panel-stride:8192", "k-panel-stride", {"hd": 128}),
    Planted(QK, "k-panel-stride:a,64", "k-panel-stride"),
    Planted(ZERO, "k-panel-stride:1024", "k-panel-stride", {"keys": 32}, quick=True),
    Planted(ZERO, "unit-forgotten:sbo", "unit-forgotten", {"keys": 32}, quick=True),
    Planted(ZERO, "unit-forgotten:a,lbo", "unit-forgotten"),
    Planted(QK, "unit-forgotten:start", "unit-forgotten"),
    Planted(QK, "unit-forgotten:sbo", "shared-out-of-range", quick=True),
    Planted(PV, "operand-unpacked", "operand-unpacked", {"keys": 32}, quick=True),
    Planted(PV, "operand-unpacked", "operand-unpacked", {"kind": "f8f6f4"}),
    Planted(PV, "operand-unpacked:unpack::16b", "operand-unpacked", {"keys": 32}, quick=True),
    Planted(PV, "operand-unpacked:unpack::16b", "operand-unpacked", {"kind": "i8"}),
    Planted(ALL, "wrong-idesc:n=56", "wrong-idesc", quick=True),
    Planted(ALL, "wrong-idesc:n=128", "wrong-idesc"),
    Planted(QK, "wrong-idesc:n=64", "wrong-idesc"),
    Planted(ALL, "wrong-idesc:m=64", "wrong-idesc"),
    Planted(IDESC, "wrong-idesc:m=128", "wrong-idesc", {"m": 64}),
    Planted(QK, "wrong-idesc:a-type=f16", "wrong-idesc"),
    Planted(QK, "wrong-idesc:b-type=f16", "wrong-idesc"),
    Planted(IDESC, "wrong-idesc:b-type=e5m2", "wrong-idesc", {"kind": "f8f6f4"}),
    Planted(IDESC, "wrong-idesc:b-type=u8", "wrong-idesc", {"kind": "i8"}),
    Planted(IDESC, "wrong-idesc:d-type=f16", "wrong-idesc", {"a_type": "f16"}),
    Planted(QK, "wrong-idesc:negate-a", "wrong-idesc"),
    Planted(PV, "wrong-idesc:negate-b", "wrong-idesc"),
    Planted(IDESC, "wrong-idesc:negate-b", "wrong-idesc", F16),
    Planted(ALL, "layout-mistaken", "layout-mistaken", {"m": 64}, quick=True),
    Planted(ALL, "layout-mistaken", "layout-mistaken", {"m": 64, "taddr_lane": 16}),
    Planted(LAYOUT, "layout-mistaken", "layout-mistaken", {"m": 64}),
    Planted(ALL, "stale-accumulator", "stale-accumulator", quick=True),
    Planted(ZERO, "stale-accumulator", "stale-accumulator", {"fill": "stale"}),
    Planted(ZERO, "shared-columns:8", "shared-columns", {"pv_n": "16", "keys": 32}, quick=True),
    Planted(ZERO, "shared-columns:0", "shared-columns", {"pv_n": "16", "fill": "stale"}),
    Planted(ZERO, "shared-columns:40", "shared-columns", {"pv_n": "32", "fill": "sentinel"}),
    Planted(PV, "tmem-overlap:32", "tmem-overlap", {"keys": 32}, quick=True),
    Planted(PV, "tmem-overlap:56", "tmem-overlap"),
    Planted(ALL, "d-column:4", "d-column", quick=True),
    Planted(ALL, "d-column:480", "tmem-out-of-range", quick=True),
    Planted(ALL, "lane-mask:32-63", "lane-mask", quick=True),
    Planted(ZERO, "lane-mask:0", "lane-mask", {"fill": "stale"}),
    Planted(PV, "lane-mask:0-31,40", "lane-mask"),
    Planted(ZERO, "sub-tile-skipped:1", "sub-tile-skipped", {"pv_n": "32", "keys": 32}, quick=True),
    Planted(ZERO, "sub-tile-skipped:0,2", "sub-tile-skipped", {"pv_n": "16", "fill": "stale"}),
    Planted(ZERO, "sub-tile-skipped:3", "sub-tile-skipped", {"pv_n": "16", "fill": "sentinel"}),
    Planted(ALL, "not-written:32-39,48-55", "not-written", quick=True),
    Planted(ZERO, "not-written:8-15", "not-written", {"keys": 32}),
    Planted(ZERO, "not-written:32-39,48-55", "not-written", {"fill": "sentinel", "pv_n": "16"}),
    Planted(QK, "not-written:0-63", "not-written", {"rows": 64}),
    Planted(IDESC, "not-written:48-55", "not-written", F16),
    Planted(ALL, "mma-skipped", "mma-skipped", quick=True),
    Planted(QK, "mma-skipped:1", "mma-skipped"),
    Planted(ZERO, "mma-skipped", "mma-skipped", {"fill": "stale"}),
    Planted(ALL, "readback:column=4", "readback-column", quick=True),
    Planted(QK, "readback:0,column=32", "readback-column"),
    Planted(ALL, "readback:lane=0", "readback-lane", quick=True),
    Planted(ALL, "readback:lane=8", "tmem-lane-misaligned", quick=True),
    Planted(ALL, "readback:shape=16x128b.x8", "readback-shape", quick=True),
    Planted(QK, "readback:shape=16x64b.x16", "readback-shape"),
    Planted(QK, "readback:0,shape=16x256b.x8", "readback-shape", {"readback": "32x32b.x32,16x256b.x8"}),
    Planted(IDESC, "readback:2,pack=off", "readback-pack", F16, quick=True),
    Planted(LAYOUT, "readback:2,pack=off", "readback-pack", {**F16, "m": 64}),
    Planted(QK, "readback:0,pack=on", "readback-pack"),
    Planted(IDESC, "readback:2,column=3", "readback-column", F16),
    Planted(IDESC, "readback:2,shape=16x64b.x16", "readback-shape", F16),
    Planted(ALL, "race:commit-wait", "race", policy="lazy", quick=True),
    Planted(QK, "race:commit-wait", "race"),
    Planted(QK, "race:proxy-fence", "race"),
    Planted(PV, "race:wait-st", "race", policy="lazy"),
    Planted(QK, "race:wait-ld", "race"),
]

CLEAN: list[tuple[str, dict[str, Any]]] = [
    (ZERO, {}),
    (ZERO, {"fill": "sentinel", "pv_n": "16"}),
    (ZERO, {"fill": "stale"}),
    (QK, {}),
    (PV, {}),
    (PV, {"p_source": "smem", "v_major": "k", "pv_n": 32}),
    (ALL, {"m": 64, "taddr_lane": 16, "taddr_column": 33}),
    (IDESC, {"idesc": "0x08100490"}),
    (IDESC, {**F16, "m": 64}),
]

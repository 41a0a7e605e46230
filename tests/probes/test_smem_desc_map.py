"""``smem-desc-map`` on the model: recovered addresses against CUTLASS's own, and planted faults of either witness."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from probe_runs import POLICIES, failed, passes, run

from umma_probe.harness.suites import smem_desc_map as suite
from umma_probe.model.mma import operand_fetch
from umma_probe.spec.descriptors import SmemDescriptor, decode_smem_desc

GOLDEN = json.loads((Path(__file__).parents[1] / "vectors" / "smem_desc_maps.json").read_text())["cases"]
KINDS = {"bf16": "f16", "f16": "f16", "tf32": "tf32", "e4m3": "f8f6f4", "e5m2": "f8f6f4", "s8": "i8", "u8": "i8"}
UNDOCUMENTED = ("tf32", "mn")
"""MN-major 32-bit elements are documented with 32-byte atoms only (swizzle code 1)."""
WIDE = [
    case
    for case in GOLDEN
    if case["elem"] in KINDS and ((case["elem"], case["major"]) != UNDOCUMENTED or int(case["word"], 16) >> 61 == 1)
]


@pytest.mark.parametrize("case", WIDE, ids=lambda c: f"{c['elem']}-{c['major']}-{c['rows']}-{c['word']}")
def test_against_cutlass(case: dict, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is recovered is what CUTLASS's layouts say for the same descriptor; no layout of ours takes part."""
    golden = np.array(case["bit"]) - 8 * case["base"]
    monkeypatch.setattr(suite, "element_bit_address", lambda *_: golden)
    desc = decode_smem_desc(int(case["word"], 16))
    passes(run("smem-desc-map", kind=KINDS[case["elem"]], type=case["elem"], rows=case["rows"], major=case["major"],
               swizzle=desc.swizzle.text, lbo=desc.lbo_bytes, sbo=desc.sbo_bytes))  # fmt: skip


@pytest.mark.parametrize("policy", POLICIES)
def test_policies(policy: str) -> None:
    passes(run("smem-desc-map", policy=policy, start=32, swizzle="64B"))


@pytest.mark.parametrize("operand", ["a", "b"])
@pytest.mark.parametrize("type_", ["e2m1", "e2m3", "e3m2"])
def test_elements_narrower_than_a_byte(operand: str, type_: str) -> None:
    passes(run("smem-desc-map", operand=operand, kind="f8f6f4", type=type_, rows=128 if operand == "a" else 16))


def test_starts_inside_the_pattern_and_any_strides() -> None:
    passes(run("smem-desc-map", operand="a", kind="i8", swizzle="none", start=48, lbo=4096, sbo=256))
    passes(run("smem-desc-map", major="mn", rows=128, start=1024, lbo=8192, sbo=1024, swizzle="128B"))
    passes(run("smem-desc-map", rows=40, swizzle="32B", start=128, sbo=512))


def test_machine_that_exchanges_lbo_and_sbo(monkeypatch: pytest.MonkeyPatch) -> None:
    original = operand_fetch.operand_byte_addresses

    def exchanged(desc: SmemDescriptor, *rest: object) -> object:
        return original(replace(desc, lbo_bytes=desc.sbo_bytes, sbo_bytes=desc.lbo_bytes), *rest)

    monkeypatch.setattr(operand_fetch, "operand_byte_addresses", exchanged)
    report = run("smem-desc-map", swizzle="none")
    assert failed(report) == {"address"}
    assert report.diagnosis is not None
    assert report.diagnosis.cause == "the operand is fetched as K-major with swizzle none, LBO and SBO exchanged"


def test_machine_that_ignores_the_swizzle(monkeypatch: pytest.MonkeyPatch) -> None:
    original = operand_fetch.operand_byte_addresses
    monkeypatch.setattr(
        operand_fetch, "operand_byte_addresses", lambda *args: original(*args) ^ (original(*args) >> 7 & 7) << 4
    )
    report = run("smem-desc-map", operand="b", swizzle="128B")
    assert failed(report) == {"address"}
    (check,) = [check for check in report.checks if check.name == "address"]
    assert check.message == "element (row 1, k 0) came from byte 128, must come from byte 144"


@pytest.mark.parametrize(("swizzle", "start"), [("128B", 0), ("128B", 384), ("64B", 256), ("32B", 128)])
def test_base_offset_as_wgmma_has_it(swizzle: str, start: int) -> None:
    passes(run("smem-desc-map", base_offset=3, swizzle=swizzle, start=start))


def test_target_on_which_the_base_offset_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    original = operand_fetch.operand_byte_addresses
    monkeypatch.setattr(
        operand_fetch, "operand_byte_addresses", lambda desc, *rest: original(replace(desc, base_offset=0), *rest)
    )
    report = run("smem-desc-map", base_offset=2)
    assert failed(report) == {"address"}
    assert report.diagnosis is not None
    assert report.diagnosis.cause == "the base offset is ignored"


def test_target_on_which_the_base_offset_moves_the_pattern(monkeypatch: pytest.MonkeyPatch) -> None:
    original = operand_fetch.operand_byte_addresses

    def moved(desc: SmemDescriptor, *rest: object) -> object:
        return original(replace(desc, base_offset=0, start_bytes=desc.start_bytes + 128 * desc.base_offset), *rest)

    monkeypatch.setattr(operand_fetch, "operand_byte_addresses", moved)
    report = run("smem-desc-map", base_offset=1)
    assert failed(report) == {"address"}
    (check,) = [check for check in report.checks if check.name == "address"]
    assert "rows begin at bytes 144, 288" in check.message

"""A stored result is used again only for the same case, made by the same sources."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from umma_probe.assets import asset_dir
from umma_probe.harness.sweep import case as cases
from umma_probe.harness.sweep.case import CaseSpec

TARGET = {"kind": "model"}
SPEC = CaseSpec("tmem-layout", {"m": 128})


@pytest.fixture
def probes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = Path(shutil.copytree(asset_dir("probes"), tmp_path / "probes"))
    monkeypatch.setattr(cases, "asset_dir", lambda _: folder)
    return folder


def _digest() -> str:
    cases.probes_digest.cache_clear()
    return SPEC.digest(TARGET)


@pytest.mark.parametrize("file", ["tmem_layout.cu", "gemm.cu", "common.cuh", "tmem_layout.yaml"])
def test_an_edit_of_any_source_makes_a_result_stale(probes: Path, file: str) -> None:
    """tmem-layout runs gemm.cu too, when a fault is planted."""
    before = _digest()
    assert _digest() == before
    with (probes / file).open("a") as source:
        source.write("\n")
    assert _digest() != before
    cases.probes_digest.cache_clear()


@pytest.mark.parametrize(
    "other",
    [CaseSpec("tmem-layout", {"m": 64}), CaseSpec("tmem-layout", {"m": 128}, "lazy"),
     CaseSpec("tmem-layout", {"m": 128}, seed=1), CaseSpec("tmem-layout", {"m": 128}, arch="sm_103a"),
     CaseSpec("tmem-layout", {"m": 128}, timeout_s=1)],
)  # fmt: skip
def test_cases_that_differ_have_identities_of_their_own(other: CaseSpec) -> None:
    assert other.digest(TARGET) != SPEC.digest(TARGET)
    assert SPEC.digest({"kind": "cuda"}) != SPEC.digest(TARGET)

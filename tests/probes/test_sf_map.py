"""``sf-map`` on the model: every kind and vector, and planted faults of either witness."""

from dataclasses import replace

import pytest
from probe_runs import POLICIES, failed, passes, run

from umma_probe.errors import ConfigError
from umma_probe.harness.suites import sf_map as suite
from umma_probe.model.mma import scale_fetch
from umma_probe.record.schema import Report

CASES = [
    {"kind": "mxf8f6f4", "sfa_id": 3, "sfb_id": 1},
    {"kind": "mxf4", "sfa_id": 2},
    {"kind": "mxf4nvf4", "scale_vec": "2", "sfb_id": 2},
    {"kind": "mxf4nvf4", "scale_type": "ue8m0"},
    {"kind": "mxf4nvf4"},
]


def copies(report: Report) -> list[str]:
    return [check.actual for check in report.checks if check.name.endswith("-copies")]


@pytest.mark.parametrize("params", CASES, ids=str)
def test_kinds(params: dict[str, object]) -> None:
    report = run("sf-map", n=8, **params)
    passes(report)
    assert copies(report) == ["each partition its own"] * 2


@pytest.mark.parametrize("policy", POLICIES)
def test_policies(policy: str) -> None:
    passes(run("sf-map", n=40, policy=policy))


def test_more_columns_than_a_partition_has_lanes() -> None:
    passes(run("sf-map", n=256))


@pytest.mark.parametrize(("pair", "policy"), [*(("128", policy) for policy in POLICIES), ("256", "lazy")])
def test_pairs(pair: str, policy: str) -> None:
    report = run("sf-map", pair=pair, n=16, sfa_id=1, policy=policy)
    passes(report)
    assert copies(report) == ["each partition its own"] * 2


@pytest.mark.parametrize(
    "params", [{}, {"kind": "mxf4nvf4"}, {"kind": "mxf4", "pair": "256"}], ids=lambda p: str(p.get("kind"))
)
def test_sparse(params: dict[str, object]) -> None:
    passes(run("sf-map", sparse=True, n=16, **params))


ULTRA = [
    {"kind": "mxf4", "sfb_id": 3},
    {"kind": "mxf4nvf4", "sfa_id": 2},
    {"kind": "mxf4nvf4", "scale_vec": "2", "pair": "256"},
]


@pytest.mark.parametrize("params", ULTRA, ids=str)
def test_k96(params: dict[str, object]) -> None:
    report = run("sf-map", k=96, n=16, arch="sm_103a", **params)
    passes(report)


def test_k96_where_it_does_not_exist() -> None:
    with pytest.raises(ConfigError, match="K is 96 on sm_100a"):
        run("sf-map", kind="mxf4", k=96, n=16)
    with pytest.raises(ConfigError, match="k is 96, must be 32 under kind::mxf8f6f4"):
        run("sf-map", k=96, n=16, arch="sm_103a")
    assert run("sf-map", kind="mxf4", k=96, n=16, arch="sm_103a", pair="128", force=True).verdict == "undecided"


def test_document_without_the_split_of_n_over_a_pair(monkeypatch: pytest.MonkeyPatch) -> None:
    """With M = 128 the second half of N takes its scales 64 lanes further on, not in further columns."""
    original = suite.scale_factor_map
    monkeypatch.setattr(
        suite, "scale_factor_map", lambda *args, **options: original(*args, **{**options, "split_n": False})
    )
    report = run("sf-map", pair="128", n=128)
    assert failed(report) == {"sfb-place"}
    (check,) = [check for check in report.checks if check.name == "sfb-place"]
    assert check.message == (
        "element (m 0, n 64, k 0) takes CTA 0, lane 64, column 0, byte 0, "
        "must take CTA 0, lane 0 (or a copy), column 2, byte 0"
    )


def test_machine_in_which_a_pair_reads_the_first_ctas_scales(monkeypatch: pytest.MonkeyPatch) -> None:
    original = scale_fetch._read
    monkeypatch.setattr(scale_fetch, "_read", lambda call, slot, *rest: original(call, call.slots[0], *rest))
    report = run("sf-map", pair="256", n=16)
    assert failed(report) == {"sfa-place"}
    assert copies(report) == ["each partition its own, and not each CTA"] * 2


def test_shape_that_only_cutlass_lets_through() -> None:
    params = {"kind": "mxf4nvf4", "sparse": True, "pair": "128"}
    with pytest.raises(ConfigError, match="M is 128, must be 256 for sparse kind::mxf4nvf4"):
        run("sf-map", **params)
    assert run("sf-map", force=True, **params).verdict == "undecided"
    with pytest.raises(ConfigError, match="n is 24, must be a multiple of 16"):
        run("sf-map", pair="256", n=24)


def test_machine_that_takes_the_next_byte(monkeypatch: pytest.MonkeyPatch) -> None:
    original = scale_fetch._read

    def next_byte(call, slot, name, partition, index, column, first, count):  # type: ignore[no-untyped-def]
        return original(call, slot, name, partition, index, column, first + (name == "B"), count)

    monkeypatch.setattr(scale_fetch, "_read", next_byte)
    report = run("sf-map", n=8)
    assert failed(report) == {"sfb-place"}
    (check,) = [check for check in report.checks if check.name == "sfb-place"]
    assert check.message == (
        "element (m 0, n 0, k 0) takes lane 0, column 0, byte 1, must take lane 0 (or a copy), column 0, byte 0"
    )


def test_machine_in_which_all_partitions_read_one_copy(monkeypatch: pytest.MonkeyPatch) -> None:
    """That is no fault, but the report says so."""
    original = scale_fetch._read
    monkeypatch.setattr(
        scale_fetch,
        "_read",
        lambda call, slot, name, partition, *rest: original(call, slot, name, 0 * partition, *rest),
    )
    report = run("sf-map", n=8)
    passes(report)
    assert copies(report) == ["not each partition its own"] * 2


def test_wrong_document(monkeypatch: pytest.MonkeyPatch) -> None:
    original = suite.scale_factor_map

    def shifted(*args: object, **options: object) -> object:
        documented = original(*args, **options)  # type: ignore[arg-type]
        return replace(documented, lane=documented.lane[::-1])

    monkeypatch.setattr(suite, "scale_factor_map", shifted)
    assert failed(run("sf-map", n=16)) == {"sfa-place", "sfb-place"}


def test_what_the_kinds_do_not_have() -> None:
    with pytest.raises(ConfigError, match="scale-vec is 4, must be 1 under kind::mxf8f6f4"):
        run("sf-map", scale_vec="4")
    with pytest.raises(ConfigError, match="sfa-id is 1, must be 0, 2 with 2X"):
        run("sf-map", kind="mxf4", sfa_id=1)

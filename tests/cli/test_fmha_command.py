"""``umma-probe fmha``: exit codes, keys, the picture of a failure, budgets; in process, on the model."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial

import pytest

from umma_probe.backends.model import ModelKernel
from umma_probe.errors import Deadlock
from umma_probe.record import store

HOLE = "operand-hole:512-575,768-831"


@pytest.fixture
def cli(cli: Callable[..., tuple[int, str, str]]) -> Callable[..., tuple[int, str, str]]:
    return partial(cli, "fmha")


def test_a_pass_is_one_table_and_one_line(cli) -> None:
    code, out, err = cli("--hd", "16", "--target", "model")
    assert (code, err) == (0, "")
    lines = out.splitlines()
    assert lines[-1] == "verdict: pass"
    assert sum(line.startswith("cosine 0.9999") for line in lines) == 1
    assert sum(line.startswith(" ✓") for line in lines) == 4
    assert "rows by columns" not in out


def test_json(cli) -> None:
    code, out, _ = cli("--hd", "16", "--target", "model", "--policy", "lazy", "--seed", "4", "--stage", "all", "--json")
    report = json.loads(out)
    assert code == 0
    keys = {"schema_version", "command", "probe", "params", "target", "seed", "verdict", "checks", "metrics", "timing",
            "environment", "findings"}  # fmt: skip
    assert keys <= report.keys()
    assert (report["command"], report["probe"], report["seed"]) == ("fmha", "fmha", 4)
    assert report["metrics"]["cosine"] >= 0.99999
    assert {"max_abs_error", "max_rel_error", "max_ulp", "min_tile_cosine", "min_column_cosine"} <= report[
        "metrics"
    ].keys()
    accuracy = report["accuracy"]
    assert len(accuracy["column_cosine"]) == 16
    assert sum(accuracy["ulp_histogram"].values()) == 128 * 16
    assert [stage["name"] for stage in accuracy["stages"]] == [
        "S = Q K^T", "row maximum", "row sum", "P", "O before the division"
    ]  # fmt: skip
    assert store.loads(out).to_json() == report


def test_the_seed_changes_the_inputs(cli) -> None:
    figures = [
        json.loads(cli("--hd", "16", "--seq-k", "16", "--target", "model", "--seed", seed, "--json")[1])["metrics"]
        for seed in ("1", "1", "2")
    ]
    assert figures[0] == figures[1] != figures[2]


def test_a_failure_shows_where_and_why(cli) -> None:
    code, out, _ = cli("--target", "model", "--inject", HOLE)
    assert code == 1
    assert "................................0000............0000............" in out
    assert "wrong columns 32-35,48-51" in out
    assert "cause: operand hole in V" in out
    assert "elements 512-575,768-831" in out
    assert out.splitlines()[-1] == "verdict: fail"


@pytest.mark.parametrize("format_", ["markdown", "html", "junit"])
def test_every_format_has_the_verdict(cli, format_: str) -> None:
    code, out, _ = cli("--hd", "16", "--target", "model", "--format", format_)
    assert code == 0
    assert "pass" in out or 'failures="0"' in out


@pytest.mark.parametrize(
    ("arguments", "findings"),
    [
        (["--hd", "64"], ["skipped-columns"]),
        (["--hd", "64", "--pv-n", "16"], ["n16-sub-tiles"]),
        (["--hd", "16", "--pv-n", "16"], ["n16-sub-tiles"]),
        (["--hd", "32"], []),
    ],
)
def test_the_findings_it_bears_on(cli, arguments: list[str], findings: list[str]) -> None:
    assert json.loads(cli("--target", "model", *arguments, "--json")[1])["findings"] == findings


def test_markdown_has_the_map(cli) -> None:
    _, out, _ = cli("--target", "model", "--inject", HOLE, "--format", "markdown")
    assert "| batch | head | rows |" in out
    assert "0000............0000" in out


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        (["--hd", "48"], "hd is 48, must be one of 16, 32, 64, 96, 128, 192, 256"),
        (["--hd", "48", "--force"], "hd is 48"),
        (["--hd", "96", "--pv-n", "64"], "pv-n is 64, must divide the head dimension 96"),
        (["--heads", "3", "--kv-heads", "2"], "heads is 3, must be a multiple of kv-heads 2"),
        (["--seq-k", "0"], "seq-k is 0, must be 1 to"),
        (["--inject", "nonsense"], "inject is 'nonsense', must be operand-hole:RANGES"),
        (["--inject", "operand-hole:5000"], "must be at most 1023"),
        (["--inject", "operand-hole:-1"], "usage error: inject is 'operand-hole:-1': set is '-1', must be like 0-31"),
        (["--dtype", "f32"], "f32"),
    ],
)
def test_wrong_options(cli, arguments: list[str], part: str) -> None:
    code, out, err = cli("--target", "model", *arguments)
    assert (code, out) == (2, "")
    assert part in err


def test_a_hang_is_a_verdict(cli, monkeypatch: pytest.MonkeyPatch) -> None:
    def hang(*_: object, **__: object) -> None:
        raise Deadlock("no warp can go on")

    monkeypatch.setattr(ModelKernel, "launch", hang)
    code, out, _ = cli("--hd", "16", "--target", "model")
    assert code == 5
    assert out.splitlines()[-1] == "verdict: hang"


def test_explain_runs_nothing(cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(ModelKernel, "launch")
    code, out, _ = cli("--hd", "128", "--p", "smem", "--explain")
    assert code == 0
    assert "384 columns used, 512 of 512 allocated" in out
    assert "193 of 227 KiB, 4 tiles in the ring" in out
    code, out, _ = cli("--hd", "256", "--explain", "--json")
    plan = json.loads(out)
    assert plan["ring_stages"] == 2
    assert [use["start"] for use in plan["tmem"]["uses"]] == [0, 128, 256]

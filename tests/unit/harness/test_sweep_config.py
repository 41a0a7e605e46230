"""Configs: what they expand to, and every fault with its line."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from umma_probe.assets import asset_dir
from umma_probe.errors import ConfigError
from umma_probe.harness.sweep.condition import Condition
from umma_probe.harness.sweep.config import SweepConfig, load_config, preflight


def _load(folder: Path, text: str) -> SweepConfig:
    path = folder / "c.yaml"
    path.write_text(text)
    return load_config(path)


def _labels(folder: Path, entry: str, **options: bool) -> list[str]:
    config = _load(folder, f"title: t\ncases:\n  - {{probe: tmem-layout, {entry}}}\n")
    return [case.label for case in config.cases(**options)]


def test_the_product_in_order(tmp_path: Path) -> None:
    labels = _labels(tmp_path, 'options: {m: [64, 128], n: {from: 8, to: 24, step: 8}}, policies: [eager, "random:3"]')
    expected = [
        f"m={m} n={n}{policy}" for m, n, policy in itertools.product((64, 128), (8, 16, 24), ("", " [random:3]"))
    ]
    assert labels == expected


def test_legal_shapes_follow_the_other_options(tmp_path: Path) -> None:
    labels = _labels(tmp_path, "options: {kind: [f16, i8], m: legal, n: legal, ws: all}")
    plain_f16 = [f"m={m} n={n}" for m in (64, 128) for n in range(8, 257, 8)]
    plain_i8 = [f"m={m} n={n}" for m in (64, 128) for n in (8, 16, 24, 32, *range(48, 257, 16))]
    ws = [f"m={m} n={n} ws" for m in (32, 64, 128) for n in (64, 128, 256)]
    assert labels == [f"kind={kind} {shape}" for kind, plain in (("f16", plain_f16), ("i8", plain_i8))
                      for shape in plain + ws]  # fmt: skip


def test_legal_n_of_a_given_m(tmp_path: Path) -> None:
    assert _labels(tmp_path, "options: {ws: true, m: 32, n: legal}") == [
        "ws m=32 n=64",
        "ws m=32 n=128",
        "ws m=32 n=256",
    ]
    # m at the probe's default of 128
    assert len(_labels(tmp_path, "options: {n: legal}")) == 32


def test_where_leaves_out(tmp_path: Path) -> None:
    labels = _labels(tmp_path, 'options: {m: [64, 128], n: [8, 16, 24]}, where: "m == 64 or n % 16 == 0"')
    assert labels == ["m=64 n=8", "m=64 n=16", "m=64 n=24", "m=128 n=16"]


def test_choices_and_flags(tmp_path: Path) -> None:
    assert _labels(tmp_path, "options: {a-major: all, ws: all}") == ["a-major=k", "a-major=k ws", "a-major=mn",
                                                                      "a-major=mn ws"]  # fmt: skip


def test_a_gpu_runs_a_case_once_whatever_its_policies(tmp_path: Path) -> None:
    assert _labels(tmp_path, "policies: [lazy, eager], seeds: [0, 2]", policies=False) == ["defaults", "[seed 2]"]


def test_a_case_of_two_entries_runs_once(tmp_path: Path) -> None:
    config = _load(tmp_path, "title: t\ncases:\n- {probe: tmem-layout, options: {m: [64, 128]}}\n"
                             "- {probe: tmem-layout, options: {m: [128, 64]}}\n"
                             "- {probe: tmem-layout, options: {m: 64}, expect: fail}\n")  # fmt: skip
    found = [(case.group, case.label) for case in config.cases()]
    assert found == [("tmem-layout", "m=64"), ("tmem-layout", "m=128"), ("tmem-layout 3", "m=64")]


def test_defaults_hold_for_entries_that_do_not_say_otherwise(tmp_path: Path) -> None:
    config = _load(tmp_path, "title: t\ndefaults: {policies: [lazy], timeout: 5, arch: sm_103a}\n"
                             "cases:\n- {probe: tmem-layout}\n"
                             "- {probe: tmem-layout, name: own, timeout: 7, arch: sm_100a}\n")  # fmt: skip
    specs = [case.spec for case in config.cases()]
    assert [(s.policy, s.timeout_s, s.arch) for s in specs] == [("lazy", 5.0, "sm_103a"), ("lazy", 7.0, "sm_100a")]


FAULTS = """\
title: 3
defualts: {}
defaults: {policies: [eagre], timeout: 0}
cases:
  - {probe: tmem-layuot}
  - probe: tmem-layout
    options: {mm: 64, n: [8, x], kind: f17, swizzle: legal, a-major: [k, k], k-tiles: {from: 8, to: 0, step: 1}}
    where: mm == 64
    expect: passed
  - probe: tmem-layout
    where: __import__('os')
    expect: {occupancy.writen_columns: "0-63"}
    answers: []
  - probe: tmem-layout
    question: Is it so?
    expect: pass
    answers: [{when: {verdict: pass}}, {when: pass, says: x}]
  - {probe: tmem-layout, name: twin, policies: [], arch: sm_100b}
  - {probe: tmem-layout, name: twin}
"""


def test_all_faults_at_once_with_their_lines(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        _load(tmp_path, FAULTS)
    message = caught.value.render()
    for line, part in [
        (1, "title: is 3, must be text"),
        (2, "unknown key 'defualts'; did you mean defaults?"),
        (3, "policy is 'eagre'"),
        (3, "timeout: is 0"),
        (5, "unknown probe 'tmem-layuot'"),
        (7, "unknown option of tmem-layout 'mm'"),
        (7, "options.n: is 'x', must be an integer"),
        (7, "options.kind: unknown value 'f17'"),
        (7, "options.swizzle: is legal, which only m and n can be"),
        (7, "options.a-major: k stands twice"),
        (7, "options.k-tiles: is {'from': 8"),
        (8, "where: 'mm == 64': unknown option 'mm'; did you mean m"),
        (9, "unknown verdict 'passed'; did you mean pass"),
        (11, "Call is not allowed"),
        (12, "unknown part 'writen_columns'"),
        (16, "stands beside a question"),
        (17, "key 'says' is missing"),
        (17, "when: must be a mapping of report keys"),
        (18, "policies: is empty"),
        (18, "unknown arch 'sm_100b'"),
        (18, "name 'twin' stands twice"),
        (19, "name 'twin' stands twice"),
    ]:
        # the first fault is the message's own line
        where = "" if line == 1 else f"c.yaml:{line}:"
        assert any(where in text and part in text for text in message.splitlines()), (line, part, message)
    assert message.count("c.yaml:") == 22  # a fault of the defaults is told once


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "the file is empty"),
        ("title: t\n", "key 'cases' is missing"),
        ("title: t\ncases: []\n", "must have an entry"),
        ("title: t\ncases: [1]\n", "must be a mapping"),
        ("title: [\n", "no valid YAML"),
        (
            "title: t\ncases: [{probe: tmem-layout, answers: [{when: {verdict: pass}, says: x}]}]\n",
            "without a question",
        ),
    ],
)
def test_files_that_are_no_config(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        _load(tmp_path, text)


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ("options: {ws: true, m: [16], n: legal}", "has no case"),
        ('where: "m == 1"', "has no case"),
        ('where: "a_type < 3"', "cannot be answered"),
    ],
)
def test_entries_without_cases(tmp_path: Path, entry: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        _labels(tmp_path, entry)


def test_illegal_cases_are_found_before_anything_runs(tmp_path: Path) -> None:
    config = _load(tmp_path, "title: t\ncases:\n- {probe: tmem-layout, options: {m: [96, 128], n: [12, 16]}}\n"
                             "- {probe: tmem-layout, name: on purpose, options: {n: 12}, force: true}\n")  # fmt: skip
    with pytest.raises(ConfigError) as caught:
        preflight(config, config.cases())
    message = caught.value.render()
    for label in ("m=96 n=12", "m=96 n=16", "m=128 n=12"):
        assert label in message
    assert "m=128 n=16" not in message
    assert "on purpose" not in message


@pytest.mark.parametrize(
    ("text", "holds"),
    [("m in (64, 96)", True), ("not (m < 64 or n > 8)", True), ("n // 8 * 8 != n", False), ("a_type is None", True),
     ("-m + 1 == -63 and m - 1 == 63", True)],
)  # fmt: skip
def test_conditions(text: str, holds: bool) -> None:
    assert Condition(text, ["m", "n", "a_type"]).holds({"m": 64, "n": 8, "a_type": None}) is holds


@pytest.mark.parametrize(
    "text",
    ["m.real", "(lambda: 1)()", "[m for m in (1,)]", "m if n else 1", "m ** 9", "m[0]", "f'{m}'", "m =", "", "m := 1"],
)
def test_a_condition_cannot_run_code(text: str) -> None:
    with pytest.raises(ConfigError):
        Condition(text, ["m", "n"])


@pytest.mark.parametrize("path", sorted(asset_dir("configs").glob("*.yaml")), ids=lambda path: path.stem)
def test_supplied_configs_are_whole_and_legal(path: Path) -> None:
    config = load_config(path)
    cases = config.cases()
    assert cases
    preflight(config, cases)


def test_a_mistyped_key_finds_one_that_the_file_lacks(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="unknown key 'defauts'; did you mean defaults"):
        _load(tmp_path, "title: t\ndefauts: {timeout: 3}\ncases: [{probe: tmem-layout}]\n")

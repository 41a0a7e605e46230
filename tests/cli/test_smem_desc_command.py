"""umma-probe smem-desc: CUTLASS's words and maps through the command line, problems and exit codes."""

import csv
import json
from functools import partial
from pathlib import Path

import numpy as np
import pytest

VECTORS = Path(__file__).parents[1] / "vectors"
MAPS = json.loads((VECTORS / "smem_desc_maps.json").read_text())["cases"]
GOOD = ["--start", "0x8000", "--lbo", "0", "--sbo", "1024", "--swizzle", "128B"]


@pytest.fixture
def run(cli):
    return partial(cli, "smem-desc")


@pytest.fixture
def run_json(cli_json):
    return partial(cli_json, "smem-desc")


def test_words_of_cutlass(run_json):
    with (VECTORS / "smem_desc.csv").open() as lines:
        rows = list(csv.DictReader(line for line in lines if not line.startswith("#")))
    for row in rows[::9]:
        word = row["words"].split()[0]
        start = hex((int(word, 16) & 0x3FFF) * 16)
        code, document = run_json(
            "--start", start, "--lbo", row["lbo"], "--sbo", row["sbo"], "--swizzle", row["swizzle"]
        )
        assert (code, document["value"], document["problems"]) == (0, word, [])
        assert run_json(word) == (code, document)


@pytest.mark.parametrize("case", MAPS, ids=lambda c: f"{c['elem']}-{c['major']}-{c['word']}")
def test_maps_of_cutlass(run_json, case):
    code, document = run_json(
        case["word"], "--map", "--major", case["major"], "--elem", case["elem"], "--rows", str(case["rows"])
    )
    np.testing.assert_array_equal(np.array(document["bit"]) - case["base"] * 8, case["bit"])
    assert code == bool(document["problems"])


def test_undocumented_combinations_are_mapped_and_reported(run_json):
    for elem, swizzle, legal in (
        ("tf32", "128B-base32B", True),
        ("tf32", "128B", False),
        ("bf16", "128B-base32B", False),
    ):
        args = ["--start", "0", "--swizzle", swizzle, "--map", "--major", "mn", "--elem", elem, "--rows", "32"]
        code, document = run_json(*args)
        assert (code == 0) is legal
        assert [problem["field"] for problem in document["problems"]] == ([] if legal else ["swizzle"])


def test_fields_are_in_bytes(run_json):
    code, document = run_json(*GOOD)
    assert code == 0
    assert document["value"] == "0x4000404000000800"
    expected = {"start": 0x8000, "lbo": 0, "sbo": 1024, "swizzle": "128B", "base_offset": 0, "lbo_mode": 0}
    assert document["fields"] | expected == document["fields"]


def test_one_element_and_one_byte_are_inverses(run_json):
    operand = ["--elem", "bf16", "--rows", "128"]
    _, document = run_json(*GOOD, *operand, "--at", "9,11")
    assert document["bit"] == (0x8000 + 1024 + 128 + 6) * 8  # chunk 1 of atom row 1 lies in chunk 0; 11 = 8 + 3
    _, document = run_json(*GOOD, *operand, "--byte", str(document["bit"] // 8))
    assert document["elements"] == [[9, 11]]
    _, document = run_json(*GOOD, *operand, "--byte", "0")
    assert document["elements"] == []


def test_packing_of_narrow_types(run_json):
    plain = ["--start", "0", "--lbo", "128", "--sbo", "256", "--map", "--rows", "1"]
    _, dense = run_json(*plain, "--elem", "e2m1")
    _, padded = run_json(*plain, "--elem", "e2m1", "--packing", "padded")
    _, six = run_json(*plain, "--elem", "e3m2")
    assert (len(dense["bit"][0]), len(padded["bit"][0]), len(six["bit"][0])) == (64, 32, 32)
    assert [m["bit"][0][16] for m in (dense, padded, six)] == [64, 1024, 1024]


def test_problems_of_a_word(run_json):
    code, document = run_json("0x6000000000080800")
    assert code == 1
    assert [problem["field"] for problem in document["problems"]] == ["swizzle", "version"]
    assert document["fields"]["swizzle"] is None


def test_k_major_base32b_is_a_note(run_json):
    args = ["--start", "0", "--sbo", "1024", "--swizzle", "128B-base32B", "--map", "--elem", "bf16", "--rows", "8"]
    code, document = run_json(*args)
    assert code == 0
    assert "disagree" in document["notes"][0]


@pytest.mark.parametrize(
    ("args", "code", "says"),
    [
        (["--start", "0x8001"], 2, "multiple of 16"),
        (["--start", "0x40000"], 2, "0x3FFFF"),
        (["--start", "0", "--base-offset", "9"], 2, "must fit 3 bits"),
        (["--start", "0", "--swizzle", "16B"], 2, "unknown swizzle"),
        (["--lbo", "16"], 2, "--start is missing"),
        (["0x4000404000000800", "--sbo", "16"], 2, "--sbo is given beside a word"),
        ([*GOOD, "--map"], 2, "--elem, --rows missing"),
        ([*GOOD, "--map", "--elem", "bf17", "--rows", "8"], 2, "did you mean bf16"),
        ([*GOOD, "--elem", "bf16", "--rows", "8", "--at", "8,0"], 2, "must be below 8,16"),
        ([*GOOD, "--map", "--elem", "bf16", "--rows", "8", "--packing", "padded"], 2, "must be dense"),
    ],
)
def test_exit_codes_with_an_empty_stdout(run, args, code, says):
    actual, out, err = run(*args)
    assert (actual, out) == (code, "")
    assert says in err


def test_force_encodes_and_says_what_was_cut(run_json):
    code, document = run_json("--start", "0x8008", "--sbo", "1024", "--swizzle", "128B", "--force")
    assert (code, document["value"]) == (1, "0x4000404000000800")
    assert [problem["field"] for problem in document["problems"]] == ["start"]


@pytest.mark.parametrize("major", ["k", "mn"])
def test_text_stays_within_the_width(run, major):
    code, out, err = run(*GOOD, "--map", "--major", major, "--elem", "bf16", "--rows", "256")
    assert (code, err) == (0, "")
    assert "256 x 16 bf16" in out
    assert "0x8090" in out
    assert max(map(len, out.splitlines())) <= 120
    assert "…" not in out


def test_csv_of_the_map(run):
    _, out, _ = run(*GOOD, "--map", "--elem", "bf16", "--rows", "2", "--format", "csv")
    table = list(csv.DictReader(out.splitlines()))
    assert len(table) == 32
    assert table[-1] == {"row": "1", "k": "15", "bit": str((0x8000 + 128 + 14) * 8)}

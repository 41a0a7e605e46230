"""umma-probe idesc: CUTLASS's words through the command line, decoding, problems and exit codes."""

import csv
from functools import partial
from pathlib import Path

import pytest

VECTORS = Path(__file__).parents[1] / "vectors"
GOOD = ["--kind", "f16", "--a", "bf16", "--b", "bf16", "--d", "f32", "--m", "128", "--n", "64"]


def rows():
    with (VECTORS / "idesc.csv").open() as lines:
        yield from csv.DictReader(line for line in lines if not line.startswith("#"))


def options_of(row):
    """A row of the table as options, leaving out what is zero or empty."""
    args = [f"--{name}={row[name]}" for name in ("kind", "a", "b", "d", "m", "n")]
    for name in ("a_major", "b_major", "scale", "sfa_id", "sfb_id", "sparsity_selector", "max_shift", "k"):
        if row[name] not in ("", "0"):
            args.append(f"--{name.replace('_', '-')}={row[name]}")
    for name in ("negate_a", "negate_b", "saturate", "sparse"):
        args += [f"--{name.replace('_', '-')}"] * int(row[name])
    return args


@pytest.fixture
def run(cli):
    return partial(cli, "idesc")


@pytest.fixture
def run_json(cli_json):
    return partial(cli_json, "idesc")


def test_words_of_cutlass(run_json):
    for row in list(rows())[::7]:
        code, document = run_json(*options_of(row))
        assert document["value"] == row["value"]
        assert code == bool(document["problems"])


def test_the_contract_example(run_json):
    code, document = run_json(*GOOD)
    assert code == 0
    assert (document["value"], document["kind"], document["problems"]) == ("0x08100490", "f16", [])
    assert document["fields"] | {"m": 128, "n": 64, "a": "bf16", "d": "f32", "k": 16} == document["fields"]
    assert document["legal_in"]["forms"] == ["cta_group::1", "cta_group::1 .ws", "cta_group::2"]


def test_decoding_gives_the_same_document(run_json):
    assert run_json("0x08100490", "--kind", "f16") == run_json(*GOOD)


def test_b_and_d_have_defaults(run_json):
    assert run_json("--kind", "f16", "--a", "bf16", "--m", "128", "--n", "64") == run_json(*GOOD)


def test_m_256_is_legal_in_a_pair_only(run_json):
    args = ["--kind", "f16", "--a", "f16", "--m", "256", "--n", "64"]
    code, document = run_json(*args)
    assert (code, document["legal_in"]["forms"]) == (0, ["cta_group::2"])
    code, document = run_json(*args, "--cta-group", "1")
    assert code == 1
    assert [problem["field"] for problem in document["problems"]] == ["m"]
    assert "PTX ISA" in document["problems"][0]["source"]


def test_ws_and_arch_narrow_down(run_json):
    args = ["--kind", "f16", "--a", "f16", "--m", "32", "--n", "64"]
    assert run_json(*args)[0] == run_json(*args, "--ws")[0] == 0
    assert run_json(*args, "--no-ws")[0] == 1
    args = ["--kind", "i8", "--a", "s8", "--m", "128", "--n", "64"]
    assert run_json(*args)[1]["legal_in"]["archs"] == ["sm_100a", "sm_110a"]
    assert run_json(*args, "--arch", "sm_103a")[0] == 1


def test_sources_that_disagree_are_notes(run_json):
    code, document = run_json("--kind", "i8", "--a", "s8", "--m", "128", "--n", "24")
    assert code == 0
    assert any("CUTLASS refuses N = 24" in note for note in document["notes"])


def test_illegal_values_are_encoded_with_exit_code_1(run_json):
    code, document = run_json("--kind", "f16", "--a", "tf32", "--m", "96", "--n", "64")
    assert (code, document["value"]) == (1, "0x06100910")
    assert {problem["field"] for problem in document["problems"]} == {"a_type", "b_type", "m"}
    assert document["fields"]["a"] is None


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (["--kind", "f16", "--a", "bf16", "--m", "128", "--n", "20"], "n is 20"),
        (
            ["--kind", "f16", "--a", "bf16", "--m", "1024", "--n", "64"],
            "m is 1024, must fit 5 bits in units of 16 (0 to 496)",
        ),
        (["--kind", "mxf4", "--a", "e2m1", "--m", "64", "--n", "64"], "multiple of 128"),
        (["--kind", "f16", "--a", "bf61", "--m", "128", "--n", "64"], "did you mean bf16"),
        (["--kind", "mxf4nvf4", "--a", "e2m1", "--m", "128", "--n", "64"], "--scale is missing"),
        (["--kind", "f16", "--m", "128"], "--a, --n missing"),
        (["--kind", "f18", "--a", "bf16", "--m", "128", "--n", "64"], "unknown MMA kind"),
        (["0x08100490", "--kind", "f16", "--m", "128"], "--m is given beside a word"),
        (["0x108100490", "--kind", "f16"], "32 bits"),
        (["zebra", "--kind", "f16"], "must be 32 bits such as 0x8100490"),
        ([*GOOD, "--arch", "sm_10a"], "unknown architecture"),
    ],
)
def test_what_cannot_be_encoded_is_exit_code_2_with_an_empty_stdout(run, args, says):
    code, out, err = run(*args, "--json")
    assert (code, out) == (2, "")
    assert says in err


def test_force_encodes_and_says_what_was_cut(run_json):
    code, document = run_json("--kind", "f16", "--a", "bf16", "--m", "128", "--n", "69", "--force")
    assert (code, document["value"]) == (1, "0x08100490")
    assert [problem["field"] for problem in document["problems"]] == ["n"]


def test_text_names_every_field_and_the_source_of_a_problem(run):
    code, out, err = run("0x06100490", "--kind", "f16")
    assert (code, err) == (1, "")
    for part in ("sparsity_selector", "24-28", "M = 96 (6 x 16)", "✗ M is 96", "PTX ISA, Shapes for tcgen05.mma"):
        assert part in out
    assert "\x1b" not in out
    assert max(map(len, out.splitlines())) <= 120


def test_csv_has_one_row_a_field(run):
    code, out, _ = run(*GOOD, "--format", "csv")
    table = list(csv.DictReader(out.splitlines()))
    assert code == 0
    assert {row["field"]: int(row["code"]) for row in table} | {"m": 8, "n": 8, "a_type": 1, "d_type": 1} == {
        row["field"]: int(row["code"]) for row in table
    }


@pytest.mark.parametrize(
    ("given", "note"),
    [
        ("0x08100490", ""),
        ("0b1000000100000000010010010000", ""),
        ("08100490", "'08100490' was read as hexadecimal: 0x8100490"),
        ("135267472", "'135267472' was read as decimal: 0x8100490"),  # 36 bits if hexadecimal
    ],
)
def test_words_that_can_be_read_one_way_are_read_that_way(run_json, given, note):
    code, document = run_json(given, "--kind", "f16")
    assert (code, document["value"]) == (0, "0x08100490")
    assert [text for text in document["notes"] if "read as" in text] == ([note] if note else [])


def test_letters_make_a_word_hexadecimal(run_json):
    assert run_json("810049a", "--kind", "f16")[1]["value"] == "0x0810049a"


def test_a_word_that_could_be_read_two_ways_is_refused(run):
    code, out, err = run("8100490", "--kind", "f16")
    assert (code, out) == (2, "")
    assert "0x8100490 if that is hexadecimal, 0x7b9a8a if it is decimal" in err
    assert "hint: write 0x8100490 or 0x7b9a8a" in err


@pytest.mark.parametrize("given", ["zz", "", "0x", "0xg", "1 2", "٣"])
def test_what_is_no_word_is_refused(run, given):
    code, out, err = run(given, "--kind", "f16")
    assert (code, out) == (2, "")
    assert "must be 32 bits such as 0x8100490" in err

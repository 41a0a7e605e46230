"""umma-probe dot: measured words through the command line, files, and what a wrong input is told."""

import json
from functools import partial
from pathlib import Path

import pytest

FILE = Path(__file__).parents[1] / "vectors" / "b200_words.json"
VECTORS = json.loads(FILE.read_text())["vectors"]
ONES = ",".join(["3f800000"] * 8)
TF32 = ["--kind", "tf32", "--a-type", "tf32", "--a", ONES, "--b", ONES]


@pytest.fixture
def run(cli):
    return partial(cli, "dot")


def options_of(row):
    args = []
    for option, key in (
        ("--kind", "kind"),
        ("--a-type", "a_format"),
        ("--b-type", "b_format"),
        ("--d-type", "d_format"),
        ("--scale-type", "scale_format"),
        ("--scale-vec", "scale_vec"),
    ):
        if key in row:
            args += [option, str(row[key])]
    for key in ("a", "b", "scale_a", "scale_b"):
        if key in row:
            args += [f"--{key.replace('_', '-')}", ",".join(f"{word:x}" for word in row[key])]
    return [*args, "--c", f"{row['c']:#010x}", *(["--saturate"] if row.get("saturate") else [])]


@pytest.mark.parametrize("row", VECTORS, ids=lambda row: row["name"])
def test_measured_words(run, row):
    code, out, err = run(*options_of(row), "--json")
    assert (code, err) == (0, "")
    document = json.loads(out)
    assert list(document) == ["d"]
    assert row["expected"] == int(document["d"], 16)


def test_text_is_the_word_alone(run):
    assert run(*TF32, "--c", "3f800000") == (0, "0x41100000\n", "")


def test_an_f16_result_has_four_digits(run):
    words = ",".join(["3c00"] * 16)
    code, out, _ = run("--kind", "f16", "--a-type", "f16", "--a", words, "--b", words, "--d-type", "f16")
    assert (code, out) == (0, "0x4c00\n")


def test_hopper_keeps_13_bits_of_fp8(run):
    ones = ",".join(["38"] * 32)
    args = ["--kind", "f8f6f4", "--a-type", "e4m3", "--a", ones, "--b", ones, "--c", "3f800400"]
    assert run(*args)[1] == "0x42040020\n"
    assert run(*args, "--arch", "sm_90a")[1] == "0x42040000\n"


@pytest.mark.parametrize("wrapped", [True, False])
def test_a_file_of_vectors_gives_a_list_of_words(run, tmp_path, wrapped):
    file = FILE
    if not wrapped:
        file = tmp_path / "list.json"
        file.write_text(json.dumps(VECTORS))
    code, out, err = run("--batch", str(file), "--json")
    assert (code, err) == (0, "")
    assert [row["expected"] for row in VECTORS] == [int(word, 16) for word in json.loads(out)]


def test_words_in_a_file_may_be_hexadecimal_strings(run, tmp_path):
    file = tmp_path / "one.json"
    file.write_text(json.dumps([{"kind": "tf32", "a_format": "tf32", "a": ["0x3f800000"] * 8, "b": ["3f800000"] * 8}]))
    assert run("--batch", str(file)) == (0, "0x41000000\n", "")


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ([], "--kind is missing"),
        (TF32[:-2], "--b is missing"),
        ([*TF32[:-1], ONES[:-8] + "3f80000g"], "--b: element 7 is '3f80000g', must be a hexadecimal word"),
        ([*TF32[:-1], ONES[:-9]], "b has 7 elements, must have 8, the K of kind tf32"),
        ([*TF32, "--c", ""], "--c is '', must be a hexadecimal word"),
        ([*TF32, "--c", "123456789"], "c is 0x123456789, must fit 32 bits"),
        ([*TF32, "--kind", "tf3"], "did you mean tf32"),
        ([*TF32, "--d-type", "f16"], "d_type: unknown type for kind tf32 'f16'"),
        ([*TF32, "--arch", "sm_99a"], "unknown architecture 'sm_99a'"),
        ([*TF32, "--batch", "x.json"], "--batch: --kind, --a-type, --a, --b given too"),
        (["--batch", "no/such.json"], "cannot read no/such.json: No such file"),
    ],
)
def test_wrong_options(run, args, message):
    code, out, err = run(*args)
    assert (code, out) == (2, "")
    assert message in err


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[\n  {]", "bad.json:2:4"),
        ("3", "must be a list, or an object whose 'vectors' is a list"),
        ('{"rows": []}', "must be a list, or an object whose 'vectors' is a list"),
        ("[3]", "the vector is of type int, must be an object"),
        ('[{"kind": "tf32"}]', "a is missing"),
        ('[{"kind": "tf32", "a_fromat": "tf32"}]', "unknown key 'a_fromat'; did you mean a_format"),
        ('[{"name": "n1", "kind": "tf32", "a": [1.5]}]', "a[0] is 1.5, must be a whole number"),
        ('[{"kind": "tf32", "a": ["zz"]}]', "a[0] is 'zz', must be a hexadecimal word"),
        ('[{"kind": "tf32", "a": 5}]', "a is 5, must be a list of words"),
        ('[{"kind": 32}]', "kind is 32, must be of type str"),
        ('[{"saturate": 1}]', "saturate is 1, must be of type bool"),
    ],
)
def test_wrong_files(run, tmp_path, text, message):
    file = tmp_path / "bad.json"
    file.write_text(text)
    code, out, err = run("--batch", str(file))
    assert (code, out) == (2, "")
    assert message in err
    assert "bad.json" in err


def test_a_fault_in_a_file_names_the_vector(run, tmp_path):
    file = tmp_path / "bad.json"
    file.write_text(json.dumps([VECTORS[0], {**VECTORS[1], "b": [0] * 15}]))
    assert "vectors[1] (bf16-0)" in run("--batch", str(file))[2]

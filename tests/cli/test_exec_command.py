"""umma-probe exec: a kernel of one's own, and every kind of mistake in the case file."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result

from umma_probe.cli.main import _exit_code, main
from umma_probe.errors import ConfigError
from umma_probe.harness.launch_case.schema import load_case

SAXPY = """
extern "C" __global__ void saxpy(float* y, const float* x, float a, unsigned n) {
  unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) y[i] = a * x[i] + y[i];
}
"""
CASE = """\
name: saxpy
source: saxpy.cu
entry: saxpy
grid: [2]
block: [64, 1, 1]
buffers:
  - {name: y, dtype: f32, shape: [100], init: arange}
  - {name: x, dtype: f32, shape: [100], init: {random_int: [-9, 9], seed: 3}}
args:
  - {buffer: y}
  - {buffer: x, offset: 0}
  - {value: 2.0, dtype: f32}
  - {value: 100, dtype: u32}
expect:
  - {buffer: y, value: "2 * x + y"}
"""
TOO_WIDE = "{name: t, buffer: y, dtype: f32, rank: 1, global_dim: [100], box_dim: [300]}"
SHARED_CASES = Path(__file__).resolve().parents[2].parent / "shared" / "cases"


@pytest.fixture
def case(tmp_path: Path) -> Path:
    (tmp_path / "saxpy.cu").write_text(SAXPY)
    file = tmp_path / "case.yaml"
    file.write_text(CASE)
    return file


def _run(*args: str) -> Result:
    return CliRunner().invoke(main, ["exec", *args], standalone_mode=False)


def _edit(file: Path, old: str, new: str) -> Path:
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new))
    return file


def test_a_right_kernel_passes(case: Path) -> None:
    result = _run(str(case), "--target", "model", "--json")
    report = json.loads(result.stdout)
    assert result.return_value == 0
    assert (report["verdict"], report["command"], report["probe"]) == ("pass", "exec", "saxpy")


def test_a_wrong_kernel_differs_at_the_first_wrong_element(case: Path) -> None:
    _edit(case.parent / "saxpy.cu", "if (i < n)", "if (i < n && i != 7)")
    result = _run(str(case), "--target", "model", "--json")
    report = json.loads(result.stdout)
    assert result.return_value == 1
    (check,) = (c for c in report["checks"] if c["verdict"] == "fail")
    assert "y[7]" in check["expected"]
    assert "1 of 100" in check["message"]


def test_a_tolerance_is_honoured(case: Path) -> None:
    _edit(case.parent / "saxpy.cu", "+ y[i]", "+ y[i] + 0.25f")
    assert _run(str(case), "--target", "model").return_value == 1
    _edit(case, '"2 * x + y"}', '"2 * x + y", atol: 0.3}')
    assert _run(str(case), "--target", "model").return_value == 0


def test_outputs_are_saved(case: Path, tmp_path: Path) -> None:
    _run(str(case), "--target", "model", "--save-outputs", str(tmp_path / "out"))
    y = np.fromfile(tmp_path / "out" / "y.bin", np.float32)
    x = np.fromfile(tmp_path / "out" / "x.bin", np.float32)
    assert np.array_equal(y, 2 * x + np.arange(100, dtype=np.float32))


def test_json_and_a_struct_with_a_pointer_inside(tmp_path: Path) -> None:
    (tmp_path / "k.cu").write_text(
        "struct S { int n; int pad; int* p; };\n"
        'extern "C" __global__ void k(S s) { if (threadIdx.x < s.n) s.p[threadIdx.x] = s.n; }\n'
    )
    document = {
        "name": "struct", "source": "k.cu", "entry": "k", "grid": [1], "block": [32],
        "buffers": [{"name": "out", "dtype": "s32", "shape": [8]}],
        "args": [{"bytes": "05000000 00000000" + "00" * 8, "pointers": [{"at": 8, "buffer": "out", "offset": 8}]}],
        "expect": [{"buffer": "out", "value": "np.where((np.arange(8) >= 2) & (np.arange(8) < 7), 5, 0)"}],
    }  # fmt: skip
    (tmp_path / "case.json").write_text(json.dumps(document))
    assert _run(str(tmp_path / "case.json"), "--target", "model").return_value == 0


def _array_of_pointers(folder: Path, **changes: object) -> Path:
    (folder / "k.cu").write_text('extern "C" __global__ void k(int** p) { p[threadIdx.x][0] = 7 + threadIdx.x; }\n')
    document = {
        "name": "pointers", "source": "k.cu", "entry": "k", "grid": [1], "block": [2],
        "buffers": [
            {"name": "table", "dtype": "u64", "shape": [2],
             "pointers": [{"at": 0, "buffer": "b", "offset": 4}, {"at": 8, "buffer": "a"}], **changes},
            {"name": "a", "dtype": "s32", "shape": [1]},
            {"name": "b", "dtype": "s32", "shape": [2]},
        ],
        "args": [{"buffer": "table"}],
        "expect": [{"buffer": "a", "value": "a + 8"}, {"buffer": "b", "value": "np.arange(2) * 7"}],
    }  # fmt: skip
    (folder / "case.json").write_text(json.dumps(document))
    return folder / "case.json"


def test_a_buffer_that_holds_addresses_of_later_buffers(tmp_path: Path) -> None:
    assert _run(str(_array_of_pointers(tmp_path)), "--target", "model").return_value == 0


@pytest.mark.parametrize(
    ("pointers", "words"),
    [
        ([{"at": 12, "buffer": "a"}], ["pointers[0].at", "12", "8 bytes", "buffer of 16 bytes"]),
        ([{"at": 0, "buffer": "c"}], ["unknown buffer 'c'"]),
        ([{"at": 0, "buffer": "table"}], ["circle", "table -> table"]),
    ],
)
def test_wrong_addresses_in_a_buffer(tmp_path: Path, pointers: list[object], words: list[str]) -> None:
    with pytest.raises(ConfigError) as caught:
        load_case(_array_of_pointers(tmp_path, pointers=pointers))
    for word in words:
        assert word in caught.value.render()


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("entry: saxpy", "entry: saxpi", ["saxpi", "saxpy", "case.yaml:3:8"]),
        ("source: saxpy.cu", "source: nothere.cu", ["source", "no such file"]),
        ("grid: [2]", "gird: [2]", ["gird", "grid"]),
        ("dtype: f32, shape: [100], init: arange", "dtype: f23, shape: [100], init: arange", ["f23", "f32"]),
        ("shape: [100], init: arange", "shape: [-1], init: arange", ["shape"]),
        ("{buffer: y}\n", "{buffer: z}\n", ["z"]),
        ("{value: 100, dtype: u32}", "{value: -1, dtype: u32}", ["-1", "u32"]),
        ("{value: 100, dtype: u32}", "{value: 100, dtype: u64}", ["8", "4"]),
        ('"2 * x + y"', '"2 * q + y"', ["q"]),
        ('"2 * x + y"', "\"__import__('os').getcwd()\"", ["getcwd", "unknown"]),
        ('"2 * x + y"', '"x[:5]"', ["shape"]),
        ("block: [64, 1, 1]", "block: [4096, 1, 1]", ["4096", "1024", "case.yaml"]),
        ("dtype: f32, shape: [100], init: arange", "dtype: {}, shape: [100]", ["unknown dtype '{}'", "case.yaml:7"]),
        ("{buffer: y}\n", "{buffer: ~}\n", ["args[0].buffer: has no value, must have one"]),
        ("{buffer: y, value", "{buffer: [], value", ["expect[0].buffer: unknown buffer '[]'"]),
        ("init: arange", "init: {random_int: [3, -3]}", ["[3, -3]", "[lowest, highest]", "case.yaml:7"]),
        ("init: arange", "init: {random_int: [0, 9223372036854775808]}", ["within 64 bits"]),
        ("init: arange", "init: {random_int: [0, 1], seed: -1}", ["seed of at least 0"]),
        ("{value: 100, dtype: u32}", "{value: 1.5, dtype: u32}", ["1.5", "must be a whole number for u32"]),
        ("{value: 100, dtype: u32}", "{value: .nan, dtype: u32}", ["must be a whole number for u32"]),
        ("{value: 100, dtype: u32}", "{value: .inf, dtype: u32}", ["must be a whole number for u32"]),
        ("shape: [100], init: arange", "shape: [99999999999, 99999999]", ["must have at most 2**40 elements"]),
        ("init: arange", "init: {file: case.npy}", ["case.npy is no .npy array"]),
        ('"2 * x + y"', '"x * (1 / 0)"', ["division by zero", "case.yaml"]),
        ("grid: [2]", "grid: [2]\ntimeout: 3", ["unknown key 'timeout'"]),
        ("grid: [2]", "grid: [2]\ncluter: [2]", ["unknown key 'cluter'; did you mean cluster?"]),
        ("init: arange", "init: {file: none.bin}", ["none.bin"]),
        ("{buffer: x, offset: 0}", "{buffer: x, offset: 404}", ["is 404, must be at most 400", "case.yaml:11"]),
        ('"2 * x + y"', '"2 * x + y", rtol: -1', ["rtol: is -1, must be a finite number", "case.yaml:15"]),
        ('"2 * x + y"', '"2 * x + y", atol: .nan', ["atol: is nan, must be a finite number"]),
        ('"2 * x + y"', '"x.reshape(3, 5)"', ["cannot reshape", "case.yaml:15"]),
        ("source: saxpy.cu", "source: case.npy", ["case.npy is no text, must be CUDA C++ or PTX", "cuobjdump"]),
        ("args:\n", f"tensor_maps:\n  - {TOO_WIDE}\nargs:\n", ["box_dim[0] is 300, must be 1 to 256", "case.yaml:10"]),
    ],
)  # fmt: skip
def test_mistakes_exit_2_and_say_what_was_expected(case: Path, old: str, new: str, words: list[str],
                                                   capsys: pytest.CaptureFixture[str]) -> None:  # fmt: skip
    _edit(case, old, new)
    (case.parent / "case.npy").write_bytes(b"\x93NUMPY no array")
    assert _exit_code(["exec", str(case), "--target", "model"], debug=False) == 2
    message = capsys.readouterr().err
    for word in words:
        assert word in message


def test_all_mistakes_are_reported_with_their_lines(case: Path) -> None:
    _edit(case, "grid: [2]", "gird: [2]")
    _edit(case, "init: arange", "init: {random_int: [1]}")
    with pytest.raises(ConfigError) as caught:
        load_case(case)
    text = caught.value.render()
    assert "case.yaml:4" in text
    assert ":7" in text


@pytest.mark.parametrize(
    ("old", "new", "line", "message"),
    [
        ("block: [64, 1, 1]", "block: [64, 32, 1]", 5, "block has 2048 threads, must be at most 1024"),
        ("block: [64, 1, 1]", "block: [64]\ncluster: [3]", 6, "must be a multiple of cluster.x = 3"),
        ("block: [64, 1, 1]", "block: [64]\ndynamic_smem: 300000", 6, "300000 dynamic bytes, must be at most"),
        ("grid: [2]", "cooperative: true\ngrid: [9999]", 5, "needs all CTAs at once: there are 9999 of"),
    ],
)
def test_a_shape_that_cannot_be_launched(case: Path, old: str, new: str, line: int, message: str) -> None:
    result = _run(str(_edit(case, old, new)), "--target", "model")
    assert isinstance(result.exception, ConfigError)
    assert result.exception.where is not None
    assert result.exception.where.line == line
    assert message in result.exception.message


def test_a_kernel_that_synchronises_its_grid(tmp_path: Path) -> None:
    (tmp_path / "turn.cu").write_text("""
#include <cooperative_groups.h>
extern "C" __global__ void turn(unsigned* x) {
  unsigned mine = blockIdx.x * blockDim.x + threadIdx.x, last = gridDim.x * blockDim.x - 1, other = x[last - mine];
  cooperative_groups::this_grid().sync();
  x[mine] = other;
}
""")
    file = tmp_path / "case.yaml"
    file.write_text("""\
{name: turn, source: turn.cu, entry: turn, grid: [3], block: [32], cooperative: true, args: [{buffer: x}],
 buffers: [{name: x, dtype: u32, shape: [96], init: arange}], expect: [{buffer: x, value: "x[::-1]"}]}
""")
    assert _run(str(file), "--target", "model").exit_code == 0


def test_a_file_of_the_wrong_size(case: Path) -> None:
    (case.parent / "x.bin").write_bytes(bytes(399))
    _edit(case, "init: arange", "init: {file: x.bin}")
    with pytest.raises(ConfigError, match="399 bytes, must have 400"):
        load_case(case)


@pytest.mark.parametrize("text", ["", "[1, 2", "- a\n- b", "name: x", "\x00"])
def test_garbage_is_a_usage_error(tmp_path: Path, text: str) -> None:
    file = tmp_path / "case.yaml"
    file.write_text(text)
    assert _exit_code(["exec", str(file)], debug=False) == 2


def test_a_missing_file_is_a_usage_error() -> None:
    assert _exit_code(["exec", "no/such/case.yaml"], debug=False) == 2


def test_an_unsupported_instruction_is_undecided_before_anything_runs(
    case: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    head = ".version 8.8\n.target sm_100a\n.address_size 64\n.visible .entry saxpy()\n{\n.reg .b32 r;\n"
    (case.parent / "k.ptx").write_text(head + "\ttex.odd.b32 r, r;\n\tret;\n}\n")
    text = case.read_text().replace("saxpy.cu", "k.ptx")
    case.write_text(text[: text.index("args:")])
    assert _exit_code(["exec", str(case), "--target", "model"], debug=False) == 4
    shown = capsys.readouterr().out
    assert "tex" in shown
    assert "k.ptx:7" in shown


UNFENCED = """
extern "C" __global__ void copy(float* y, const float* x) {
  __shared__ alignas(128) float tile[32];
  tile[threadIdx.x] = x[threadIdx.x];
  FENCE
  __syncthreads();
  if (threadIdx.x == 0) {
    unsigned from = (unsigned)__cvta_generic_to_shared(tile);
    asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], 128;" :: "l"(y), "r"(from) : "memory");
    asm volatile("cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;" ::: "memory");
  }
}
"""
UNFENCED_CASE = """\
name: copy
source: copy.cu
entry: copy
grid: [1]
block: [32]
buffers:
  - {name: y, dtype: f32, shape: [32], init: sentinel}
  - {name: x, dtype: f32, shape: [32], init: arange}
args: [{buffer: y}, {buffer: x}]
expect: [{buffer: y, value: x}]
"""


def _copy_case(folder: Path, fence: str) -> str:
    (folder / "copy.cu").write_text(UNFENCED.replace("FENCE", fence))
    (folder / "copy.yaml").write_text(UNFENCED_CASE)
    return str(folder / "copy.yaml")


def test_a_missing_proxy_fence_is_for_review_unless_strict(tmp_path: Path) -> None:
    case = _copy_case(tmp_path, "")
    result = _run(case, "--target", "model", "--json")
    assert result.return_value == 0
    (review,) = json.loads(result.stdout)["reviews"]
    assert review["rule"] == "missing-proxy-fence"
    assert _run(case, "--target", "model", "--strict").return_value == 1
    fenced = _copy_case(tmp_path, 'asm volatile("fence.proxy.async;" ::: "memory");')
    assert _run(fenced, "--target", "model", "--strict").return_value == 0


@pytest.mark.parametrize(("old", "new", "line", "message"), [
    ("  - {buffer: y}\n", "  - {value: 2.0, dtype: f32}\n", 10,
     "args[0]: a value of type f32 has 4 bytes, must have 8: kernel 'saxpy' takes (u64, u64, f32, u32)"),
    ("  - {value: 100, dtype: u32}\n", "", 10,
     "args: 3 arguments, must be 4: kernel 'saxpy' takes (u64, u64, f32, u32)"),
    ("value: 100, dtype: u32", "value: 100, dtype: f32", 13,
     "args[3]: a value of type f32 is given for a parameter of type u32 (b32 where the bits are meant)"),
    ("value: 2.0, dtype: f32", "value: 2, dtype: s32", 12,
     "args[2]: a value of type s32 is given for a parameter of type f32"),
    ("entry: saxpy\n", "entry: saxpy\ninclude_dirs: [none]\n", 4, "include_dirs: no such folder"),
    ('"2 * x + y"', '"x[:3]"', 15, "gives shape [3], buffer y has shape [100]"),
])  # fmt: skip
def test_arguments_that_the_kernel_does_not_take(case: Path, old: str, new: str, line: int, message: str) -> None:
    error = _run(str(_edit(case, old, new)), "--target", "model").exception
    assert isinstance(error, ConfigError)
    assert message in error.message
    assert error.where is not None
    assert (error.where.file, error.where.line) == (str(case), line)


def test_bits_for_a_parameter_of_any_type(case: Path) -> None:
    assert _run(str(_edit(case, "value: 2.0, dtype: f32", "value: 0x40000000, dtype: b32"))).return_value == 0


def test_what_the_kernel_did_not_write_is_counted(case: Path) -> None:
    _edit(case, "grid: [2]", "grid: [1]")
    checks = json.loads(_run(str(case), "--target", "model", "--json").stdout)["checks"]
    assert checks[0]["verdict"] == "fail"
    message = checks[0]["message"]
    wrong, untouched = int(message.split()[0]), int(message.rsplit("; ", 1)[1].split()[0])
    assert message.endswith("hold what they held before the launch")
    assert 30 < wrong == untouched <= 36


def test_an_access_behind_a_buffer_names_it(case: Path) -> None:
    _edit(case, "{name: x, dtype: f32, shape: [100]", "{name: x, dtype: f32, shape: [90]")
    _edit(case, '"2 * x + y"', "y")
    report = json.loads(_run(str(case), "--target", "model", "--json").stdout)
    assert report["verdict"] == "fault"
    assert "0 bytes behind the end of buffer 'x' (360 bytes)" in report["checks"][0]["message"]


PADDED = """
extern "C" __global__ void padded(float* y, const float* x) {
  __shared__ float tile[32];
  if (threadIdx.x < 20) tile[threadIdx.x] = x[threadIdx.x];
  __syncthreads();
  const float value = *(volatile float*)&tile[threadIdx.x];
  if (threadIdx.x < STORED) y[threadIdx.x] = value;
}
"""


@pytest.mark.parametrize(("stored", "expected", "options", "code"), [
    (20, True, (), 0), (20, True, ("--strict",), 1), (20, False, (), 1), (21, True, (), 1),
])  # fmt: skip
def test_a_read_of_what_nobody_wrote_fails_unless_the_outputs_are_right(
    tmp_path: Path, stored: int, expected: bool, options: tuple[str, ...], code: int
) -> None:
    """Twelve threads read beside the data; what they read may be dropped, or reach an output."""
    (tmp_path / "copy.cu").write_text(PADDED.replace("STORED", str(stored)))
    text = UNFENCED_CASE.replace("copy\n", "padded\n").replace("init: sentinel", "init: zero")
    text = text.replace("value: x}", 'value: "np.where(np.arange(32) < 20, x, 0)"}')
    (tmp_path / "copy.yaml").write_text(text if expected else text[: text.index("expect")])
    result = _run(str(tmp_path / "copy.yaml"), "--target", "model", "--json", *options)
    assert result.return_value == code
    report = json.loads(result.stdout)
    assert {entry["rule"] for entry in report["reviews" if code == 0 else "sanitizer"]} == {"uninitialised-read"}


def test_the_trace_has_a_line_for_each_operation(tmp_path: Path) -> None:
    case = _copy_case(tmp_path, 'asm volatile("fence.proxy.async;" ::: "memory");')
    for policy, effects in (("eager", ["2", "4"]), ("lazy", ["3", "4"])):
        file = tmp_path / f"{policy}.tsv"
        assert _run(case, "--target", "model", "--policy", policy, "--trace", str(file)).return_value == 0
        head, *rows = (line.split("\t") for line in file.read_text().splitlines())
        assert head == ["issued", "effect", "cta", "warp", "operation", "line", "instruction"]
        assert [row[4] for row in rows] == ["bulk.read", "bulk.write"]
        assert [row[1] for row in rows] == effects
        assert all(row[2:4] == ["0", "0"] and "cp.async.bulk.global" in row[6] for row in rows)


def test_a_trace_named_json_is_a_timeline(tmp_path: Path) -> None:
    case = _copy_case(tmp_path, 'asm volatile("fence.proxy.async;" ::: "memory");')
    file = tmp_path / "trace.json"
    assert _run(case, "--target", "model", "--policy", "lazy", "--trace", str(file)).return_value == 0
    head, *spans = json.loads(file.read_text())["traceEvents"]
    assert head["args"] == {"name": "CTA 0"}
    assert [(e["ph"], e["name"], e["id"], e["ts"]) for e in spans] == [
        ("b", "bulk.read", 0, 1), ("e", "bulk.read", 0, 3), ("b", "bulk.write", 1, 2), ("e", "bulk.write", 1, 4),
    ]  # fmt: skip
    assert "cp.async.bulk.global" in spans[0]["args"]["instruction"]


def test_a_trace_that_cannot_be_written_is_a_usage_error(case: Path) -> None:
    assert _exit_code(["exec", str(case), "--target", "model", "--trace", "/no/such/folder/t"], debug=False) == 2


def test_ptx_needs_no_compiler(case: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from umma_probe.errors import DeviceUnavailable
    from umma_probe.gpu import nvrtc

    def missing() -> None:
        raise DeviceUnavailable("NVRTC: not here")

    monkeypatch.setattr(nvrtc, "load_nvrtc", missing)
    head = ".version 8.8\n.target sm_100a\n.address_size 64\n.visible .entry saxpy()\n{\n"
    (case.parent / "k.ptx").write_text(head + "\tret;\n}\n")
    text = case.read_text().replace("saxpy.cu", "k.ptx")
    case.write_text(text[: text.index("args:")])
    result = _run(str(case), "--target", "model", "--json")
    assert result.return_value == 0
    assert json.loads(result.stdout)["target"]["nvrtc"] == "none"


def test_jobs_change_nothing_but_a_word_on_stderr(case: Path) -> None:
    alone, many = (_run(str(case), "--target", "model", "--jobs", jobs) for jobs in ("1", "2"))
    assert (many.return_value, many.stderr) == (0, "")
    assert [line for line in many.stdout.splitlines() if " s" not in line] == [
        line for line in alone.stdout.splitlines() if " s" not in line
    ]


def test_jobs_that_cannot_be_say_why(case: Path) -> None:
    _edit(case.parent / "saxpy.cu", "y[i] = a * x[i] + y[i]", "atomicAdd(y + i, a * x[i])")
    result = _run(str(case), "--target", "model", "--jobs", "2")
    assert result.return_value == 0
    assert "--jobs: one process, since" in result.stderr
    assert "shows the order of things" in result.stderr


CASES = sorted(SHARED_CASES.glob("*/case.yaml")) if SHARED_CASES.is_dir() else []


@pytest.mark.skipif(not CASES, reason="the cases of other people's kernels are not in this checkout")
@pytest.mark.parametrize("file", CASES, ids=lambda p: p.parent.name)
def test_kernels_that_nobody_here_wrote(file: Path) -> None:
    result = _run(str(file), "--target", "model", "--json")
    report = json.loads(result.stdout)
    assert [c for c in report["checks"] if c["verdict"] != "pass"] == []
    assert result.return_value == 0


@pytest.mark.parametrize(
    ("redirection", "code", "says"),
    [(">&-", 0, ""), ("> /dev/full", 2, "cannot write to stdout: No space left on device")],
)
def test_a_stdout_that_takes_nothing(redirection: str, code: int, says: str) -> None:
    line = f"{shlex.quote(sys.executable)} -m umma_probe ldst 32x32b.x1 --json {redirection}"
    ran = subprocess.run(["bash", "-c", line], stderr=subprocess.PIPE, text=True, check=False)
    assert ran.returncode == code
    assert says in ran.stderr
    assert "internal error" not in ran.stderr

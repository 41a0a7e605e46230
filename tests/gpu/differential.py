"""Instructions on a GPU and on the model: the same kernels, the same operands, compared bit for bit.

    python tests/gpu/differential.py -o reports/fidelity-sm90-h200.json

- *exact* forms: the element-wise instructions of ``tests/vectors/alu_h200.jsonl.gz``, with operands drawn anew: half
  of them the recorded edge values, half random bits.
- *approximate* functions: how many words differ, and by how much at most (in units of the last place); *unit* forms are
  those that the model has bit for bit.
- *mma* forms: mma.sync of every shape and type, with operands of four kinds: random bits, numbers near 1, of widely
  different exponents, and sparse with very small ones.
- *warp* forms: shfl, vote, match, redux, matrix moves; *memory* forms: atomics and vectors, each thread its own place.
"""  # fmt: skip

from __future__ import annotations

import argparse
import gzip
import json
import re
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import ml_dtypes
import numpy as np

TESTS = Path(__file__).parents[1]
sys.path.insert(0, str(TESTS / "unit" / "model" / "ops"))

from harness import kernel_text  # noqa: E402 - a neighbour, found through the line above

import umma_probe as up  # noqa: E402
from umma_probe.gpu.info import Driver, probe_environment  # noqa: E402
from umma_probe.model.numbers.values import TYPES  # noqa: E402
from umma_probe.spec.warp_mma import WARP_MMAS, WarpMma  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Iterator

    from umma_probe.backends.base import Device

VECTORS = TESTS / "vectors" / "alu_h200.jsonl.gz"
ROWS, APPROXIMATE_ROWS, BATCH = 4096, 1 << 17, 40
WORDS = {1: np.bool_, 8: np.uint8, 16: np.uint16, 32: np.uint32, 64: np.uint64}
ARCH = "sm_90a"
FLOATS: dict[str, Any] = {
    "f16": np.float16, "bf16": ml_dtypes.bfloat16, "tf32": np.float32, "f32": np.float32, "f64": np.float64,
    "e4m3": ml_dtypes.float8_e4m3fn, "e5m2": ml_dtypes.float8_e5m2,
}  # fmt: skip
BITS = {"s8": 8, "u8": 8, "s32": 32} | {name: np.dtype(type_).itemsize * 8 for name, type_ in FLOATS.items()}
Form = dict[str, Any]
"""``ptx``; ``in``: name to width or to recorded values; ``out``: name to width; ``kind``."""


# ---------------------------------------------------------------------- forms
def exact_forms() -> list[Form]:
    forms = []
    for line in gzip.decompress(VECTORS.read_bytes()).decode().splitlines():
        record = json.loads(line)
        sources = {name: _column(text) for name, text in record["in"].items()}
        widths = {name: int(text.split(":")[0]) for name, text in record["out"].items()}
        forms.append({"kind": "exact", "ptx": record["ptx"], "in": sources, "out": widths})
    return forms


def _column(text: str) -> Any:
    width, values = text.split(":")
    return np.array([int(value, 16) for value in values.split()], WORDS[int(width)])


def unit_forms() -> list[Form]:
    names = [f"{name}.approx{ftz}.f32" for name in ("ex2", "lg2", "sin", "cos", "rsqrt", "rcp", "sqrt")
             for ftz in ("", ".ftz")]  # fmt: skip
    halves = [("ex2.approx.f16", 16), ("ex2.approx.ftz.bf16", 16), ("ex2.approx.f16x2", 32),
              ("ex2.approx.ftz.bf16x2", 32)]  # fmt: skip
    divisions = ["div.approx.f32", "div.approx.ftz.f32", "div.full.f32", "div.full.ftz.f32"]
    forms = [_form(f"{op} %d, %a;", {"a": width}, {"d": width}, "unit")
             for op, width in [*((name, 32) for name in names), *halves]]  # fmt: skip
    return forms + [_form(f"{op} %d, %a, %b;", {"a": 32, "b": 32}, {"d": 32}, "unit") for op in divisions]


def approximate_forms() -> list[Form]:
    widths = {"tanh.approx.f32": 32, "tanh.approx.f16": 16, "tanh.approx.bf16": 16, "tanh.approx.f16x2": 32,
              "tanh.approx.bf16x2": 32, "rsqrt.approx.f64": 64, "rsqrt.approx.ftz.f64": 64,
              "rcp.approx.ftz.f64": 64}  # fmt: skip
    return [_form(f"{op} %d, %a;", {"a": width}, {"d": width}) for op, width in widths.items()]


def mma_forms() -> list[Form]:
    forms = []
    for row in WARP_MMAS:
        for accumulator in row.accumulators:
            for a, b in ((a, b) for a in row.operands for b in row.operands if row.mixed or a == b):
                forms.append(_mma(row, accumulator, a, b))
        if row.kind == "i8":
            forms.append(_mma(row, "s32", "s8", "u8", ".satfinite"))
        if row.kind == "f64":
            forms += [_mma(row, "f64", "f64", "f64", f".{mode}") for mode in ("rz", "rm", "rp")]
    return forms


def _mma(row: WarpMma, accumulator: str, a: str, b: str, option: str = "") -> Form:
    width = row.register_bits
    of_c = row.m * row.n * BITS[accumulator] // (32 * width)
    counts = {"a": row.m * row.k * BITS[a] // (32 * width), "b": row.n * row.k * BITS[b] // (32 * width), "c": of_c,
              "d": of_c}  # fmt: skip
    lists = {name: ", ".join(f"%{name}{i}" for i in range(count)) for name, count in counts.items()}
    text = (f"mma.sync.aligned.{row.shape}.row.col{option}.{accumulator}.{a}.{b}.{accumulator} "
            f"{{{lists['d']}}}, {{{lists['a']}}}, {{{lists['b']}}}, {{{lists['c']}}};")  # fmt: skip
    types = {"a": a, "b": b, "c": accumulator}
    sources = {f"{name}{i}": width for name in "abc" for i in range(counts[name])}
    results = {f"d{i}": width for i in range(of_c)}
    return _form(text, sources, results, "mma") | {"types": types}


def _form(
    ptx: str, sources: dict[str, int], results: dict[str, int], kind: str = "approximate", setup: str = ""
) -> Form:
    return {"kind": kind, "ptx": ptx, "in": sources, "out": results, "setup": setup}


def warp_forms() -> list[Form]:
    forms = []
    for mode in ("idx", "up", "down", "bfly"):
        for clamp in ("0x1f", "0x0", "0x181f", "0x1c03"):
            text = f"shfl.sync.{mode}.b32 %d|%p, %a, %b, {clamp}, 0xffffffff;"
            forms.append(_form(text, {"a": 32, "b": 32}, {"d": 32, "p": 1}, "warp"))
    for mode in ("all", "any", "uni"):
        forms.append(_form(f"vote.sync.{mode}.pred %p, %a, 0xffffffff;", {"a": 1}, {"p": 1}, "warp"))
    forms.append(_form("vote.sync.ballot.b32 %d, %a, 0xffffffff;", {"a": 1}, {"d": 32}, "warp"))
    small = "and.b32 %a, %a, 3;\n"
    forms.append(_form(small + "match.any.sync.b32 %d, %a, 0xffffffff;", {"a": 32}, {"d": 32}, "warp"))
    forms.append(_form("match.any.sync.b64 %d, %a, 0xffffffff;", {"a": 64}, {"d": 32}, "warp"))
    forms.append(_form("match.all.sync.b32 %d|%p, %a, 0xffffffff;", {"a": 32}, {"d": 32, "p": 1}, "warp"))
    for operator, types in (("add", ("u32", "s32")), ("min", ("u32", "s32")), ("max", ("u32", "s32")),
                            ("and", ("b32",)), ("or", ("b32",)), ("xor", ("b32",))):  # fmt: skip
        for type_ in types:
            forms.append(_form(f"redux.sync.{operator}.{type_} %d, %a, 0xffffffff;", {"a": 32}, {"d": 32}, "warp"))
    forms.append(_form("movmatrix.sync.aligned.m8n8.trans.b16 %d, %a;", {"a": 32}, {"d": 32}, "warp"))
    forms.append(_form("activemask.b32 %d;", {"a": 32}, {"d": 32}, "warp"))
    return forms


def memory_forms() -> list[Form]:
    """Each thread works on eight bytes of shared memory of its own."""
    place = ".shared .align 16 .b8 place[4096];\n.reg .b32 %spot;"
    spot = "mov.u32 %spot, %tid.x;\nshl.b32 %spot, %spot, 4;\nmov.u32 %d, place;\nadd.u32 %spot, %spot, %d;\n"
    forms = []
    atomics = [(op, type_, width) for op, types in (
        ("add", "u32 s32 u64 f32 f64"), ("min", "u32 s32 u64 s64"), ("max", "u32 s32 u64 s64"), ("inc", "u32"),
        ("dec", "u32"), ("and", "b32 b64"), ("or", "b32 b64"), ("xor", "b32 b64"), ("exch", "b32 b64"))
        for type_ in types.split() for width in (int(type_[1:]),)]  # fmt: skip
    for op, type_, width in atomics:
        wide = spot if width == 32 else spot.replace("%d, place", "%low, place").replace(", %d;", ", %low;")
        text = (wide + f"st.shared.b{width} [%spot], %a;\natom.shared.{op}.{type_} %d, [%spot], %b;\n"
                f"ld.shared.b{width} %e, [%spot];")  # fmt: skip
        extra = place + ("\n.reg .b32 %low;" if width == 64 else "")
        forms.append(_form(text, {"a": width, "b": width}, {"d": width, "e": width}, "memory", extra))
    for op in ("add.noftz.f16x2", "add.noftz.bf16x2"):
        text = f"{spot}st.shared.b32 [%spot], %a;\natom.shared.{op} %d, [%spot], %b;\nld.shared.b32 %e, [%spot];"
        forms.append(_form(text, {"a": 32, "b": 32}, {"d": 32, "e": 32}, "memory", place))
    cas = f"{spot}st.shared.b32 [%spot], %a;\natom.shared.cas.b32 %d, [%spot], %a, %b;\nld.shared.b32 %e, [%spot];"
    forms.append(_form(cas, {"a": 32, "b": 32}, {"d": 32, "e": 32}, "memory", place))
    vector = (f"{spot}st.shared.v2.b32 [%spot], {{%a, %b}};\nld.shared.v4.u8 {{%w, %x, %y, %z}}, [%spot+4];\n"
              "ld.shared.v2.b32 {%e, %d}, [%spot];\nmov.b32 %f, {%x, %z};")  # fmt: skip
    forms.append(_form(vector, {"a": 32, "b": 32}, {"d": 32, "e": 32, "f": 32}, "memory",
                       place + "\n.reg .b16 %w, %x, %y, %z;"))  # fmt: skip
    for count in (1, 2, 4):
        for trans in ("", ".trans"):
            names = ["d", "e", "f", "g"][:count]
            text = (f"{spot}st.shared.v4.b32 [%spot], {{%a, %b, %a, %b}};\nbar.sync 0;\n"
                    f"ldmatrix.sync.aligned.m8n8.x{count}{trans}.shared.b16 {{{', '.join('%' + n for n in names)}}}, "
                    "[%spot];")  # fmt: skip
            forms.append(_form(text, {"a": 32, "b": 32}, dict.fromkeys(names, 32), "memory", place))
    return forms


# ---------------------------------------------------------------------- operands
def operands(form: Form, rows: int, random: np.random.Generator) -> dict[str, Any]:
    if form["kind"] == "mma":
        return mma_operands(form, rows, random)
    return {name: _values(name, source, rows, random, form) for name, source in form["in"].items()}


def mma_operands(form: Form, rows: int, random: np.random.Generator) -> dict[str, Any]:
    """Registers of whole warps; warp w draws numbers of kind w % 4."""
    found = {}
    for name, width in form["in"].items():
        type_ = form["types"][name[0]]
        parts = [_fragment(type_, width, kind, rows // 4, random) for kind in range(4)]
        warps = np.stack([part.reshape(-1, 32) for part in parts], axis=1)
        found[name] = np.ascontiguousarray(warps.reshape(-1))
    return found


def _fragment(type_: str, width: int, kind: int, rows: int, random: np.random.Generator) -> Any:
    if kind == 0 or type_ in ("s8", "u8"):
        return random.integers(0, 1 << 64, rows, dtype=np.uint64).astype(WORDS[width])
    if type_ == "s32":
        near = np.int64(1) << (8, 20, 31)[kind - 1]
        return (random.integers(-near, near, rows) & 0xFFFFFFFF).astype(np.uint32)
    count = width // BITS[type_]
    values = random.standard_normal((rows, count))
    if kind == 2:
        values *= 2.0 ** random.integers(-12, 13, values.shape)
    if kind == 3:
        values *= 2.0 ** random.integers(-30, 4, values.shape) * (random.random(values.shape) < 0.4)
    with np.errstate(all="ignore"):
        return np.ascontiguousarray(values.astype(FLOATS[type_])).view(WORDS[width]).reshape(rows)


def _values(name: str, source: Any, rows: int, random: np.random.Generator, form: Form) -> Any:
    width = source if isinstance(source, int) else source.dtype.itemsize * 8 if source.dtype != np.bool_ else 1
    if width == 1:
        return random.integers(0, 2, rows).astype(np.bool_)
    words = random.integers(0, 1 << 64, rows, dtype=np.uint64).astype(WORDS[width])
    if form["kind"] in ("approximate", "unit") and width == 32 and "16" not in form["ptx"].split()[0]:
        near = (random.standard_normal(rows) * 8).astype(np.float32).view(np.uint32)
        words = np.where(random.random(rows) < 0.5, near, words)
    if not isinstance(source, int):
        words = np.where(random.random(rows) < 0.5, random.choice(source, rows), words)
    if form["ptx"].startswith("cvt.rna"):  # NaN operands have no defined result
        words = np.where((words & 0x7FFFFFFF) > 0x7F800000, np.uint32(0x3F800000), words)
    if form["ptx"].startswith("fns") and name == "b":  # the base is a bit number
        words &= 31
    return words.astype(WORDS[width])


# ---------------------------------------------------------------------- runs
def run(device: Device, forms: list[Form], inputs: list[dict[str, Any]], rows: int) -> list[dict[str, Any]]:
    """All forms in one kernel; the outputs of each."""
    columns: dict[str, Any] = {}
    outputs: dict[str, str] = {}
    bodies, declarations = [], []
    for number, (form, values) in enumerate(zip(forms, inputs, strict=True)):
        prefix = f"c{number}_"
        columns |= {prefix + name: value for name, value in values.items()}
        outputs |= {prefix + name: "pred" if width == 1 else f"b{width}" for name, width in form["out"].items()}
        bodies.append(_renamed(form["ptx"], prefix, f"place{number}"))
        declarations.append(_renamed(form.get("setup", ""), prefix, f"place{number}"))
    text = kernel_text("\n".join(bodies), columns, outputs, "\n".join(declarations))
    text = text.replace(".target sm_100a", f".target {ARCH}")
    kernel = device.load_ptx(text, "differential.ptx")["k"]
    buffers = [device.array(_bytes(value)) for value in columns.values()]
    sizes = {name: rows * max(TYPES[type_].bits // 8, 1) for name, type_ in outputs.items()}
    results = {name: device.array(np.zeros(size, np.uint8)) for name, size in sizes.items()}
    kernel.launch(grid=rows // 256, block=256, args=[*buffers, *results.values()], timeout=60)
    found: list[dict[str, Any]] = [{} for _ in forms]
    for name, buffer in results.items():
        number, _, plain = name[1:].partition("_")
        width = forms[int(number)]["out"][plain]
        found[int(number)][plain] = buffer.numpy().view(WORDS[width])
    return found


def _renamed(ptx: str, prefix: str, place: str) -> str:
    special = r"%(?!tid|ctaid|ntid|laneid)(\w+)"
    return re.sub(r"\bplace\b", place, re.sub(special, rf"%{prefix}\1", ptx))


def _bytes(value: Any) -> Any:
    return np.ascontiguousarray(value).view(np.uint8)


def compare(form: Form, inputs: dict[str, Any], silicon: dict[str, Any], model: dict[str, Any]) -> dict[str, Any]:
    """What the report says of a form."""
    opcode = form["ptx"].split("\n")[-1] if form["kind"] != "memory" else _central(form["ptx"])
    entry: dict[str, Any] = {"ptx": opcode, "kind": form["kind"], "operand_sets": len(next(iter(inputs.values())))}
    differing = np.logical_or.reduce([silicon[name] != model[name] for name in silicon])
    entry["mismatches"] = int(differing.sum())
    if differing.any():
        row = int(np.flatnonzero(differing)[0])
        entry["first"] = {
            "operands": [f"{int(value[row]):#x}" for value in inputs.values()],
            "silicon": [f"{int(value[row]):#x}" for value in silicon.values()],
            "model": [f"{int(value[row]):#x}" for value in model.values()],
        }
    if form["kind"] == "approximate":
        entry |= distance(opcode, silicon["d"], model["d"])
    return entry


def _central(ptx: str) -> str:
    """The instruction that a memory form is about."""
    return next((line for line in ptx.split("\n") if line.startswith(("atom", "ldmatrix", "ld.shared.v4"))), ptx)


def distance(opcode: str, silicon: Any, model: Any) -> dict[str, Any]:
    """The largest distance of two finite results in units of the last place, and how often only one is finite."""
    words = {"f64": (np.uint64, np.float64), "f16": (np.uint16, np.float16), "f32": (np.uint32, np.float32)}
    name = "f64" if ".f64" in opcode else "f16" if re.search(r"\.b?f16", opcode) else "f32"
    word, real = words[name]
    a, b = silicon.view(word), model.view(word)
    ordered = [_ordered(x) for x in (a, b)]
    if "bf16" in opcode:
        finite = [(x & 0x7F80) != 0x7F80 for x in (a, b)]
    else:
        with np.errstate(all="ignore"):
            finite = [np.isfinite(x.view(real)) for x in (a, b)]
    both = finite[0] & finite[1]
    far = np.abs(ordered[0] - ordered[1])[both]
    extra = {}
    if opcode.startswith(("sin", "cos", "lg2", "tanh")) and word is np.uint32:
        apart = np.abs(a.view(real).astype(np.float64) - b.view(real))[both]
        extra["max_abs_error"] = float(f"{apart.max(initial=0):.3g}")
    return {"max_ulp": int(far.max(initial=0)), "special_mismatches": int((~both & (a != b)).sum()), **extra}


def _ordered(words: Any) -> Any:
    """Sign and magnitude as integers that count steps of the format; both zeros are 0."""
    sign = words.dtype.type(1 << (8 * words.dtype.itemsize - 1))
    magnitude = (words & ~sign).astype(np.int64)
    return np.where(words & sign, -magnitude, magnitude)


def batches(forms: list[Form], size: int) -> Iterator[list[Form]]:
    for start in range(0, len(forms), size):
        yield forms[start : start + size]


def measure(gpu: Device, model: Device) -> list[dict[str, Any]]:
    """All forms on both."""
    random = np.random.default_rng(90)
    entries = []
    plans = [(exact_forms(), BATCH, ROWS), (unit_forms(), 8, APPROXIMATE_ROWS),
             (approximate_forms(), 8, APPROXIMATE_ROWS), (warp_forms(), 20, ROWS), (memory_forms(), 6, ROWS),
             (mma_forms(), 3, ROWS)]  # fmt: skip
    for forms, size, rows in plans:
        for batch in batches(forms, size):
            inputs = [operands(form, rows, random) for form in batch]
            silicon, modelled = run(gpu, batch, inputs, rows), run(model, batch, inputs, rows)
            entries += [compare(*four) for four in zip(batch, inputs, silicon, modelled, strict=True)]
    return entries


def report(entries: list[dict[str, Any]]) -> dict[str, Any]:
    environment = probe_environment()
    gpu, driver = environment.gpus[0], environment.driver
    exact = [entry for entry in entries if entry["kind"] != "approximate"]
    return {
        "schema_version": 1,
        "command": "python tests/gpu/differential.py",
        "date": datetime.now(UTC).date().isoformat(),
        "gpu": {"name": gpu.name, "arch": gpu.arch},
        "driver": driver.version if isinstance(driver, Driver) else "",
        "assembler": "the driver's",
        "forms": len(entries),
        "operand_sets": sum(entry["operand_sets"] for entry in entries),
        "exact_forms_with_mismatches": sum(entry["mismatches"] > 0 for entry in exact),
        "entries": entries,
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-o", "--output", type=Path, required=True)
    parser.add_argument("--target", default="cuda:0", help="model compares the model with itself")
    options = parser.parse_args()
    found = measure(up.device(options.target, arch=ARCH), up.device("model", arch=ARCH))
    if options.target == "model":
        print(len(found), "forms,", sum(entry["mismatches"] for entry in found), "mismatches")
        return 0
    options.output.write_text(json.dumps(report(found), indent=1) + "\n")
    for entry in found:
        if entry["mismatches"]:
            print(json.dumps(entry))
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""``numerics``: the words of one MMA, D = A * B + C, against the published arithmetic (``model.arith``), bit for bit.

Operands are drawn for the edges of the arithmetic (``harness.number_draws``), 128 x N dot products a launch, or come
from a file of dot products with the words that some silicon gave: then case i is A's row i, B's row i and C's (i, i).
The model computes by the same rule, so that on the model the probe shows that operands, scales, C and D get there and
back; on silicon it shows whether the rule holds.

``scale-input-d`` multiplies C by 2^-s. That much is documented, so products whose sums need no rounding are compared
with float64, beside the drawn ones by the rule. Under ``kind::i8`` no document defines it: what became of C is noted.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from umma_probe.errors import ConfigError
from umma_probe.harness.number_draws import DATA
from umma_probe.harness.suite import Experiment, Input, Judgement, LaunchPlan, Output, Outputs, noted, passed
from umma_probe.harness.wording import counted
from umma_probe.layouts.scale_factors import ScaleOperand, scale_factor_map
from umma_probe.layouts.smem_operand import bit_of_row
from umma_probe.model.arith import mma
from umma_probe.spec.descriptors import Problem, encode_idesc, encode_smem_desc
from umma_probe.spec.encoding import decode_to_float64, encode_exact
from umma_probe.spec.formats import FORMATS
from umma_probe.spec.kinds import KINDS, ScaleVector, check_shape
from umma_probe.spec.machine import TMEM_LANES
from umma_probe.spec.sources import documented

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from umma_probe.harness.number_draws import Random
    from umma_probe.harness.suite import Array
    from umma_probe.record.schema import Check

_M = 128
_ROW_BYTES = 32
_SCALE_COLUMNS = 4
_UPPER_MARK = 0xABCD0000
"""In the upper halves of F16 accumulators: shows what an MMA leaves there."""
_TYPES = {"f16": "bf16", "tf32": "tf32", "f8f6f4": "e4m3", "i8": "s8", "mxf8f6f4": "e4m3", "mxf4": "e2m1",
          "mxf4nvf4": "e2m1"}  # fmt: skip
_SCALES_C = ("f16", "tf32")
_SCALE_INPUT = documented("tcgen05.mma, scale-input-d", "kinds f16 and tf32")
_UNIT_SCALES = {"ue8m0": 127, "ue4m3": 0x38}
# data: lowest and highest scale byte that is drawn
_SCALE_RANGES = {
    "ue8m0": {"normal": (124, 130), "wide": (107, 147), "small": (0, 3), "cancelling": (127, 128),
              "special": (124, 130), "any": (0, 255)},
    "ue4m3": {"normal": (0x30, 0x40), "wide": (1, 0x7E), "small": (0, 9), "cancelling": (0x38, 0x3A),
              "special": (0x7B, 0x7F), "any": (0, 255)},
}  # fmt: skip


@dataclass(frozen=True)
class Form:
    """The instruction."""

    kind: str
    a_type: str
    b_type: str
    d_type: str
    vector: ScaleVector | None
    scale_type: str | None
    saturate: bool
    negate_a: bool
    scale_input_d: int = 0

    @classmethod
    def of(cls, params: Mapping[str, Any]) -> Form:
        """Fill in the defaults.

        :raises ConfigError: something that the kind does not have.
        """
        kind = KINDS[params["kind"]]
        a_type = params["a_type"] or _TYPES[kind.name]
        b_type, d_type = params["b_type"] or a_type, params["d_type"] or kind.d_types[-1]
        for name, type_, known in (("a-type", a_type, kind.operand_types), ("b-type", b_type, kind.operand_types),
                                   ("d-type", d_type, kind.d_types)):  # fmt: skip
            if type_ not in known:
                raise ConfigError(f"{name} is {type_}, must be {' or '.join(known)} under kind::{kind.name}")
        for name, given, has in (("saturate", params["saturate"], kind.saturate),
                                 ("negate-a", params["negate_a"], kind.negate)):  # fmt: skip
            if given and not has:
                raise ConfigError(f"{name} is given, must be left out under kind::{kind.name}")
        if params["scale_input_d"] and kind.name not in (*_SCALES_C, "i8"):
            raise ConfigError(f"scale-input-d is {params['scale_input_d']}, must be 0 under kind::{kind.name}: the "
                              "assembler refuses it", ref=str(_SCALE_INPUT))  # fmt: skip
        vector, scale_type = _scaling(params)
        return cls(kind.name, a_type, b_type, d_type, vector, scale_type, params["saturate"], params["negate_a"],
                   params["scale_input_d"])  # fmt: skip

    @property
    def k(self) -> int:
        """Elements of a row."""
        return KINDS[self.kind].k_dense

    @property
    def d_mask(self) -> np.uint32:
        """The bits of a word that are D."""
        return np.uint32((1 << FORMATS[self.d_type].bits) - 1)


def _scaling(params: Mapping[str, Any]) -> tuple[ScaleVector | None, str | None]:
    vectors = {str(vector.scales): vector for vector in KINDS[params["kind"]].scale_vectors}
    wanted, type_ = params["scale_vec"], params["scale_type"]
    if not vectors:
        if wanted or type_:
            raise ConfigError(f"scale-vec and scale-type must be left out under kind::{params['kind']}")
        return None, None
    wanted = wanted or max(vectors)
    if wanted not in vectors:
        raise ConfigError(f"scale-vec is {wanted}, must be {' or '.join(vectors)} under kind::{params['kind']}")
    known = vectors[wanted].scale_types
    if type_ is not None and type_ not in known:
        raise ConfigError(f"scale-type is {type_}, must be {' or '.join(known)} with {vectors[wanted].name}")
    return vectors[wanted], type_ or known[-1]


@dataclass(frozen=True)
class Numbers:
    """One launch: words of A (128, K), B (N, K), C (128, N), and scale bytes (rows, S) of A and B or None."""

    name: str
    a: Array
    b: Array
    c: Array
    scale_a: Array | None = None
    scale_b: Array | None = None
    silicon: Array | None = None
    """Words that silicon gave for the first cases on the diagonal."""
    exact: Array | None = None
    """D by float64, where no sum needs rounding."""

    def expected(self, form: Form, arch: str) -> Array:
        """D by the rule, (128, N)."""
        if self.exact is not None:
            return self.exact
        words = mma(form.kind, self.a, self.b, self.c, a_type=form.a_type, b_type=form.b_type, d_type=form.d_type,
                    saturate=form.saturate, negate_a=form.negate_a, scale_input_d=form.scale_input_d,
                    scale_a=self.scale_a, scale_b=self.scale_b, scale_type=form.scale_type, arch=arch)  # fmt: skip
        return words & form.d_mask


def prepare(params: Mapping[str, Any], arch: str, seed: int = 0) -> Experiment:
    """One launch for each kind of data; ``seed`` draws them."""
    form = Form.of(params)
    if params["vectors"]:
        numbers = [_from_file(form, Path(params["vectors"]))]
    else:
        names = DATA if params["data"] == "all" else [params["data"]]
        numbers = [_drawn(form, name, params["n"], seed) for name in names]
        if form.scale_input_d:
            numbers = [_exact(form, params["n"], seed), *(numbers if form.kind in _SCALES_C else [])]
    n = len(numbers[0].b)
    filled = {**params, "a_type": form.a_type, "b_type": form.b_type, "d_type": form.d_type, "n": n,
              "scale_vec": str(form.vector.scales) if form.vector else None, "scale_type": form.scale_type}  # fmt: skip
    problems: list[Problem] = check_shape(form.kind, m=_M, n=n, a_type=form.a_type, b_type=form.b_type,
                                          d_type=form.d_type, arch=arch)  # fmt: skip
    if form.scale_input_d and form.kind not in _SCALES_C:
        problems.append(Problem("scale_input_d", f"scale-input-d is {form.scale_input_d}, must be 0 under kind::"
                                f"{form.kind}", _SCALE_INPUT))  # fmt: skip
    defines: dict[str, object] = {"KIND": form.kind, "SCALE_INPUT_D": form.scale_input_d}
    if form.vector:
        defines["VECTOR"] = f"scale_vec::{form.vector.name}"
    return Experiment(
        params=filled,
        problems=problems,
        defines=defines,
        launches=[_launch(form, entry) for entry in numbers],
        judge=lambda outputs: judge(form, numbers, arch, outputs),
    )


def _drawn(form: Form, name: str, n: int, seed: int) -> Numbers:
    random = np.random.default_rng((seed, sum(name.encode())))
    draw = DATA[name]
    a = draw(random, (_M, form.k), FORMATS[form.a_type])
    b = draw(random, (n, form.k), FORMATS[form.b_type])
    c = draw(random, (_M, n), FORMATS[form.d_type])
    return Numbers(name, a, b, c, _drawn_scales(form, random, name, _M), _drawn_scales(form, random, name, n))


def _exact(form: Form, n: int, seed: int) -> Numbers:
    """C is a small multiple of 2^s, and every sum is an integer that D holds."""
    random = np.random.default_rng((seed, 1))
    a, b = random.integers(-2, 3, (_M, form.k)), random.integers(-2, 3, (n, form.k))
    c = random.integers(-1, 2, (_M, n)) << form.scale_input_d
    if form.kind == "i8":
        c += random.integers(0, 1 << form.scale_input_d, c.shape)  # so that rounding shows
    sums = (-a if form.negate_a else a) @ b.T + c / (1 << form.scale_input_d)
    exact = None if form.kind == "i8" else encode_exact(sums, form.d_type).astype(np.uint32)
    a_words, b_words, c_words = (
        encode_exact(values.astype(np.float64), type_).astype(np.uint32)
        for values, type_ in ((a, form.a_type), (b, form.b_type), (c, form.d_type))
    )
    return Numbers("exact", a_words, b_words, c_words, exact=exact)


def _drawn_scales(form: Form, random: Random, name: str, rows: int) -> Array | None:
    if form.vector is None or form.scale_type is None:
        return None
    low, high = _SCALE_RANGES[form.scale_type][name]
    drawn = random.integers(low, high + 1, (rows, form.vector.scales), dtype=np.int64).astype(np.uint8)
    if name == "special" and form.scale_type == "ue8m0":
        drawn[random.random(drawn.shape) < 0.02] = 0xFF
    return drawn


# -------------------------------------------------------------------------------------------------------------- files


def _from_file(form: Form, path: Path) -> Numbers:
    """The vectors of this form.

    :raises ConfigError: no such file, not of that form, or none of this instruction.
    """
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
        listed = document["vectors"] if isinstance(document, dict) else document
        chosen = [vector for vector in listed if _fits(form, vector)]
        if chosen:
            return _of_vectors(form, chosen[:_M])
    except OSError as error:
        raise ConfigError(f"vectors: cannot read {path}: {error.strerror}") from error
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ConfigError(f"vectors: {path} is no list of dot products ({error})",
                          hint="the form is that of umma-probe dot --batch") from error  # fmt: skip
    raise ConfigError(
        f"vectors: none in {path} is of kind {form.kind} with {form.a_type}, {form.b_type}, {form.d_type}"
    )


def _fits(form: Form, vector: Mapping[str, Any]) -> bool:
    wanted = (form.kind, form.a_type, form.b_type, form.d_type, form.saturate)
    has = (vector["kind"], vector["a_format"], vector["b_format"], vector["d_format"], vector.get("saturate", False))
    scales = (form.vector.scales if form.vector else None, form.scale_type)
    return wanted == has and scales == (vector.get("scale_vec"), vector.get("scale_format"))


def _of_vectors(form: Form, vectors: Sequence[Mapping[str, Any]]) -> Numbers:
    n = -(-len(vectors) // 8) * 8

    def elements(rows: int, key: str, type_: str) -> Array:
        words = np.zeros((rows, form.k), np.uint32)
        words[: len(vectors)] = [vector[key] for vector in vectors]
        return words >> np.uint32(16) if type_ == "bf16" else words

    def scales(rows: int, key: str) -> Array | None:
        if form.vector is None or form.scale_type is None:
            return None
        words = np.full((rows, form.vector.scales), _UNIT_SCALES[form.scale_type], np.uint8)
        words[: len(vectors)] = [vector[key] for vector in vectors]
        return words

    c = np.zeros((_M, n), np.uint32)
    diagonal = np.arange(len(vectors))
    c[diagonal, diagonal] = [vector["c"] for vector in vectors]
    silicon = np.array([vector["expected"] for vector in vectors], np.uint32) & form.d_mask
    return Numbers("vectors", elements(_M, "a", form.a_type), elements(n, "b", form.b_type), c, scales(_M, "scale_a"),
                   scales(n, "scale_b"), silicon)  # fmt: skip


# ------------------------------------------------------------------------------------------------------------- launch


def _row_bytes(form: Form, words: Array, type_: str) -> Array:
    """Elements as the tensor core wants a row of them: (rows, 32) bytes."""
    width = FORMATS[type_].container_bits
    first = bit_of_row(width, KINDS[form.kind].packing(type_), np.arange(form.k))
    bits = np.zeros((len(words), 8 * _ROW_BYTES), np.uint8)
    for bit in range(width):
        bits[:, first + bit] = words >> np.uint32(bit) & 1
    return np.packbits(bits, axis=1, bitorder="little")


def _scale_image(scales: Array | None, operand: ScaleOperand) -> Array:
    """Scale bytes in all copies, (128 lanes, 4 columns) words; zeros where there are none."""
    image = np.zeros((TMEM_LANES, _SCALE_COLUMNS, 4), np.uint8)
    if scales is not None:
        placed = scale_factor_map(len(scales), scales.shape[1], operand=operand)
        for offset in placed.copies:
            image[placed.lane + offset, placed.column, placed.byte] = scales
    return image.view(np.uint32)[..., 0]


def _launch(form: Form, numbers: Numbers) -> LaunchPlan:
    n = len(numbers.b)
    idesc = encode_idesc(form.kind, a_type=form.a_type, b_type=form.b_type, m=_M, n=n, saturate=form.saturate,
                         negate_a=form.negate_a, scale_type=form.scale_type,
                         d_type=None if form.vector else form.d_type, force=True)  # fmt: skip
    c = numbers.c | np.uint32(_UPPER_MARK) if form.d_type == "f16" else numbers.c
    return LaunchPlan(
        entry="numerics",
        args=[
            Input(_row_bytes(form, numbers.a, form.a_type)),
            Input(_row_bytes(form, numbers.b, form.b_type)),
            Input(np.ascontiguousarray(c, np.uint32)),
            Input(_scale_image(numbers.scale_a, ScaleOperand.SFA)),
            Input(_scale_image(numbers.scale_b, ScaleOperand.SFB)),
            *(np.uint64(encode_smem_desc(start_bytes=0, lbo_bytes=16 * rows, sbo_bytes=128)) for rows in (_M, n)),
            np.uint32(idesc),
            np.uint32(n),
            Output("d", (_M, n)),
        ],
        dynamic_smem=_ROW_BYTES * (_M + n),
        label=numbers.name,
    )


# ---------------------------------------------------------------------------------------------------------- judgement


def judge(form: Form, numbers: Sequence[Numbers], arch: str, outputs: Sequence[Outputs]) -> Judgement:
    """Every word against the rule, and those on the diagonal against silicon's, if the file has them."""
    if form.scale_input_d and form.kind not in _SCALES_C:
        return Judgement([noted("scaled-c", _what_became_of_c(form, numbers[0], outputs[0]["d"]))])
    checks: list[Check] = []
    wrong = total = 0
    for entry, output in zip(numbers, outputs, strict=True):
        found, expected = output["d"] & form.d_mask, entry.expected(form, arch)
        differs = found != expected
        wrong, total = wrong + int(differs.sum()), total + differs.size
        witness = "the rule" if entry.exact is None else "float64"
        checks.append(passed(entry.name, not differs.any(), f"{differs.size} words by {witness}",
                             counted(differs.sum(), "word") + " otherwise",
                             _first(form, entry, found, expected, differs)))  # fmt: skip
        checks += _silicon_check(entry, found)
    if form.d_type == "f16":
        checks.append(noted("upper-halves", _upper_halves(outputs)))
    return Judgement(checks, metrics={"dot_products": float(total), "differing_words": float(wrong)})


def _what_became_of_c(form: Form, numbers: Numbers, d: Array) -> str:
    """What was added to the products of i8, if it is any of the obvious things."""
    products = decode_to_float64(numbers.a, form.a_type) @ decode_to_float64(numbers.b, form.b_type).T
    added = d.view(np.int32) - products.astype(np.int64)
    c, unit = numbers.c.view(np.int32).astype(np.int64), 1 << form.scale_input_d
    known = {
        "unchanged": c,
        "shifted to the right": c >> form.scale_input_d,
        "divided, towards zero": np.trunc(c / unit),
        "divided, to the nearest even": np.rint(c / unit),
        "left out": np.zeros_like(c),
    }
    return next((words for words, wanted in known.items() if (added == wanted).all()), "something else")


def _silicon_check(numbers: Numbers, found: Array) -> Iterator[Check]:
    if numbers.silicon is None:
        return
    diagonal = np.arange(len(numbers.silicon))
    differs = found[diagonal, diagonal] != numbers.silicon
    yield passed("silicon", not differs.any(), f"{len(differs)} words as in the file",
                 counted(differs.sum(), "word") + " otherwise",
                 f"vectors {np.flatnonzero(differs).tolist()}")  # fmt: skip


def _first(form: Form, numbers: Numbers, found: Array, expected: Array, differs: Array) -> str:
    """The first word that differs, with the command that computes it by the rule."""
    if not differs.any():
        return ""
    m, n = (int(index) for index in np.argwhere(differs)[0])

    def listed(words: Array, type_: str) -> str:
        return ",".join(f"{int(word) << (16 if type_ == 'bf16' else 0):x}" for word in words)

    words = f"D({m}, {n}) is {int(found[m, n]):#x}, must be {int(expected[m, n]):#x}"
    if form.scale_input_d:
        return f"{words}; C was {int(numbers.c[m, n]):#x}"
    a_format = FORMATS[form.a_type]
    row = numbers.a[m] ^ np.uint32(form.negate_a << (a_format.bits - 1 + a_format.container_shift))
    command = [
        f"umma-probe dot --kind {form.kind}",
        f"--a-type {form.a_type} --b-type {form.b_type} --d-type {form.d_type}",
        f"--a {listed(row, form.a_type)} --b {listed(numbers.b[n], form.b_type)}",
        f"--c {int(numbers.c[m, n]):x}",
    ]
    if numbers.scale_a is not None and numbers.scale_b is not None and form.vector:
        command.append(f"--scale-type {form.scale_type} --scale-vec {form.vector.scales}")
        command.append(f"--scale-a {listed(numbers.scale_a[m], '')} --scale-b {listed(numbers.scale_b[n], '')}")
    if form.saturate:
        command.append("--saturate")
    return f"{words}, the word by: " + " ".join(command)


def _upper_halves(outputs: Sequence[Outputs]) -> str:
    upper = np.concatenate([output["d"].ravel() for output in outputs]) & np.uint32(0xFFFF0000)
    return "zero" if not upper.any() else "kept" if (upper == _UPPER_MARK).all() else "neither zero nor kept"

"""``sparse-map``: which nibble of Tensor Memory selects which elements of sparse A, and what each code keeps.

In one series of passes every nibble holds one of two codes, by one bit of its own place (lane, column, nibble): which
of the two a group of A was expanded by is that bit. In the other, all nibbles hold one code, and the kept values, which
differ within every few groups, show where each of them went. Expected is ``layouts.sparse_metadata``. The 4-bit kinds
keep pairs of neighbours; of block-scaled kinds all scales are 1.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from umma_probe.errors import ConfigError, NotModelled
from umma_probe.harness.coding import decode_d
from umma_probe.harness.displacement import diagnose_shift, injected_columns
from umma_probe.harness.suite import Experiment, Input, Judgement, LaunchPlan, Output, Outputs, passed
from umma_probe.harness.wording import counted
from umma_probe.layouts.sparse_metadata import (
    RULES_BY_CLASS,
    MetadataClass,
    MetadataMap,
    MetadataRule,
    kept_values,
    metadata_map,
)
from umma_probe.layouts.tmem_accumulator import AccumulatorMap, accumulator_map
from umma_probe.record.schema import Check, Diagnosis
from umma_probe.spec.descriptors import Problem, encode_idesc, encode_smem_desc
from umma_probe.spec.encoding import decode_to_float64, encode_exact
from umma_probe.spec.formats import FORMATS
from umma_probe.spec.kinds import KINDS, ScaleVector, check_shape
from umma_probe.spec.machine import TMEM_LANES

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from umma_probe.harness.suite import Array

_TYPES = {"f16": "bf16", "tf32": "tf32", "f8f6f4": "e4m3", "i8": "s8", "mxf8f6f4": "e4m3", "mxf4": "e2m1",
          "mxf4nvf4": "e2m1"}  # fmt: skip
_CLASSES = {"f16": MetadataClass.F16, "tf32": MetadataClass.TF32, "mxf4": MetadataClass.MXF4,
            "mxf4nvf4": MetadataClass.MXF4}  # fmt: skip
_PLACE_BITS = 15
"""Of lane << 8 | column << 3 | nibble."""
_FIRST, _LAST = 0b0100, 0b1110
"""The codes that keep the first and the last half of a group; both are legal for every kind."""
_NOWHERE = -1


@dataclass(frozen=True)
class SparseCase:
    """The parameters."""

    kind: str
    m: int
    ws: bool
    selector: int
    n: int = 64

    @classmethod
    def of(cls, params: Mapping[str, Any]) -> SparseCase:
        """From the parameters."""
        case = cls(params["kind"], int(params["m"]), params["ws"], params["selector"])
        return replace(case, n=params["n"] or max(64, case.rule.k))

    @property
    def vector(self) -> ScaleVector | None:
        """Of a block-scaled kind: the one with the most scales."""
        return next(reversed(KINDS[self.kind].scale_vectors), None)

    @property
    def scale_type(self) -> str | None:
        """Of its scales."""
        return self.vector.scale_types[-1] if self.vector else None

    @property
    def type(self) -> str:
        """Of both operands."""
        return _TYPES[self.kind]

    @property
    def d_type(self) -> str:
        """Of D."""
        return KINDS[self.kind].d_types[-1]

    @property
    def metadata_class(self) -> MetadataClass:
        """What the documents group the kind with."""
        return _CLASSES.get(self.kind, MetadataClass.BITS8)

    @property
    def rule(self) -> MetadataRule:
        """Its row."""
        return RULES_BY_CLASS[self.metadata_class]

    @cached_property
    def kept(self) -> Array:
        """The kept values of a row, (K/2,): positive numbers that the type holds, different as long as there are some.

        E2M1 has seven of them: there every group of four differs from its neighbours.
        """
        if FORMATS[self.type].bits == 4:
            numbers = decode_to_float64(np.arange(1, 8), self.type)
            return np.asarray(np.resize(numbers, self.rule.k // 2))
        if FORMATS[self.type].bits == 8 and not FORMATS[self.type].is_integer:
            numbers = decode_to_float64(np.arange(128), self.type)
            return np.asarray(numbers[np.isfinite(numbers) & (numbers >= 1)][: self.rule.k // 2])
        return np.arange(1.0, self.rule.k // 2 + 1)

    @property
    def passes(self) -> list[tuple[int, int, int]]:
        """(code of a 0, code of a 1, bit of the place); the last ones have one code everywhere."""
        return [(_FIRST, _LAST, bit) for bit in range(_PLACE_BITS)] + [(code, code, 0) for code in self.rule.codes]

    @cached_property
    def accumulator(self) -> AccumulatorMap:
        """Where D lies."""
        return accumulator_map(self.m, self.n, ws=self.ws, sparse=True)

    @cached_property
    def metadata(self) -> MetadataMap | None:
        """Where the codes lie; None where no document says."""
        try:
            return metadata_map(self.metadata_class, self.m, selector=self.selector, ws=self.ws)
        except NotModelled:
            return None


def prepare(params: Mapping[str, Any], arch: str, seed: int = 0) -> Experiment:
    """One launch with all passes; nothing is random."""
    case = SparseCase.of(params)
    problems = list(_problems(case, arch))
    idesc = encode_idesc(case.kind, a_type=case.type, b_type=case.type, d_type=case.d_type, m=case.m, n=case.n,
                         sparse=True, sparsity_selector=case.selector, scale_type=case.scale_type,
                         force=True)  # fmt: skip
    a_desc, b_desc = (encode_smem_desc(start_bytes=0, lbo_bytes=16 * rows, sbo_bytes=128) for rows in (case.m, case.n))
    passes = np.array(case.passes, np.uint32)
    launch = LaunchPlan(
        entry="sparse_map",
        args=[
            Input(_row(case)),
            Input(np.ascontiguousarray(passes[:, :2])),
            Input(np.ascontiguousarray(passes[:, 2])),
            np.uint32(len(passes)),
            np.uint32(encode_exact(1.0, case.type)),
            np.uint32(encode_exact(1.0, case.scale_type) if case.scale_type else 0),
            np.uint64(a_desc),
            np.uint64(b_desc),
            np.uint32(idesc),
            Output("d", (len(passes), TMEM_LANES, case.n)),
        ],
        dynamic_smem=32 * case.m + 64 * case.n,
    )
    defines: dict[str, object] = {
        "KIND": case.kind,
        "WS": int(case.ws),
        "M": case.m,
        "N": case.n,
        "ELEMENT_BITS": KINDS[case.kind].smem_element_bits,
        "METADATA_SHIFT": injected_columns(params["inject"], "metadata-columns", ("metadata",))["metadata"],
    }
    if case.vector:
        defines["VECTOR"] = case.vector.block_name
    return Experiment(
        params={**params, "n": case.n},
        problems=problems,
        defines=defines,
        launches=[launch],
        judge=lambda outputs: judge(case, outputs),
    )


def _row(case: SparseCase) -> Array:
    """The kept values as the 32 bytes that each row of A has, (8,) words."""
    codes = encode_exact(case.kept, case.type)
    if FORMATS[case.type].bits == 4:
        codes = codes[0::2] | codes[1::2] << 4  # the low nibble first
    return np.ascontiguousarray(codes).view(np.uint32)


def _problems(case: SparseCase, arch: str) -> Iterator[Problem]:
    yield from check_shape(case.kind, m=case.m, n=case.n, a_type=case.type, b_type=case.type, d_type=case.d_type,
                           ws=case.ws, sparse=True, arch=arch)  # fmt: skip
    if case.n < case.rule.k or case.n % 8:
        rule = f"must be a multiple of 8 of at least {case.rule.k}: D shows all of K"
        raise ConfigError(f"n is {case.n}, {rule}")
    legal = KINDS[case.kind].sparsity_selectors
    if case.selector not in legal:
        message = f"selector is {case.selector}, must be {' or '.join(map(str, legal))} under kind::{case.kind}"
        yield Problem("selector", message, KINDS[case.kind].refs[0])


# ---------------------------------------------------------------------------------------------------------- judgement


def judge(case: SparseCase, outputs: Sequence[Outputs]) -> Judgement:
    """Places of the codes, and what each keeps."""
    (output,) = outputs
    words = output["d"][:, case.accumulator.lane, case.accumulator.column]
    expanded = decode_d(words, case.d_type)[..., : case.rule.k]  # (pass, M, K)
    groups = expanded.reshape(len(expanded), case.m, case.rule.groups, case.rule.group)
    found = recover(groups[:_PLACE_BITS])
    checks = [_place_check(case, found), *_code_checks(case, expanded[_PLACE_BITS:])]
    return Judgement(checks, diagnosis=_diagnosis(case, found))


def _diagnosis(case: SparseCase, found: Array) -> Diagnosis | None:
    """Whether all codes are displaced alike."""
    documented = case.metadata
    if documented is None or (found == _NOWHERE).any():
        return None
    places = {"column": found >> 3 & 31, "nibble": found & 7}
    wanted = {"column": np.broadcast_to(documented.column, found.shape),
              "nibble": np.broadcast_to(documented.nibble, found.shape)}  # fmt: skip
    return diagnose_shift("metadata", "metadata-misplaced", places, wanted)


def recover(groups: Array) -> Array:
    """Place (lane << 8 | column << 3 | nibble) of the code of each group, (M, groups); -1 for none.

    :param groups: (pass, M, groups, elements of a group), expanded.
    """
    kept = groups != 0
    half = kept.shape[-1] // 2
    first, last = (
        kept[..., :half].all(-1) & ~kept[..., half:].any(-1),
        kept[..., half:].all(-1) & ~kept[..., :half].any(-1),
    )
    place = (last.astype(np.int64) << np.arange(_PLACE_BITS)[:, None, None]).sum(axis=0)
    return np.where((first | last).all(axis=0), place, _NOWHERE)


def _place_check(case: SparseCase, found: Array) -> Check:
    documented = case.metadata
    if documented is None:
        first = "; ".join(_place(int(found[0, group])) for group in range(case.rule.groups))
        return Check("place", "undecided", "-", f"groups of row 0: {first}", "no document says where these codes lie")
    lanes = np.isin((found >> 8) - documented.lane, documented.copies)
    wrong = (found == _NOWHERE) | ~lanes
    wrong |= (found >> 3 & 31 != documented.column) | (found & 7 != documented.nibble)
    message = ""
    if wrong.any():
        at = tuple(int(index) for index in np.argwhere(wrong)[0])
        wanted = int(documented.lane[at] << 8 | documented.column[at] << 3 | documented.nibble[at])
        message = f"row {at[0]}, group {at[1]} takes {_place(int(found[at]))}, must take {_place(wanted)} (or a copy)"
    return passed("place", not wrong.any(), "as documented", counted(wrong.sum(), "group") + " elsewhere", message)


def _place(place: int) -> str:
    if place == _NOWHERE:
        return "neither code"
    return f"lane {place >> 8}, column {place >> 3 & 31}, nibble {place & 7}"


def _code_checks(case: SparseCase, expanded: Array) -> Iterator[Check]:
    """``expanded`` is (code, M, K)."""
    for code, rows in zip(case.rule.codes, expanded, strict=True):
        kept = kept_values(case.metadata_class, code)
        wanted = np.zeros((case.rule.groups, case.rule.group))
        wanted[:, kept] = case.kept.reshape(case.rule.groups, len(kept))
        wrong = (rows != wanted.ravel()).any(axis=1)
        group = rows[int(np.argmax(wrong)), : case.rule.group].tolist()
        found = "as documented" if not wrong.any() else f"a group becomes {group}"
        yield passed(f"code-{code:04b}", not wrong.any(), f"keeps {', '.join(map(str, kept))}", found,
                     f"in {counted(wrong.sum(), 'row')}; kept are {case.kept[: len(kept)].tolist()}")  # fmt: skip

"""``sf-map``: which byte of Tensor Memory scales which row and which elements along K of a block-scaled MMA.

A has a single 1 along K, B is all ones, and one of the two scale operands holds powers of two whose exponents spell, in
several passes, the place of each byte: CTA, lane, column, byte. D is then the scale that the element got. The first and
the last element of every block are looked at. Expected is ``layouts.scale_factors``, in any of the four copies.

Of sparse A every group keeps its first half, so that the metadata have no place that matters; a scale then serves the
same number of kept elements as of dense ones, and ``elements`` counts kept ones. Of a pair (``pair`` is M of both CTAs)
each CTA has the scales of its own rows of A, and those of all columns of B; with M = 128 the columns of B are split
over the lanes as D is. D itself is read where ``layouts.tmem_accumulator`` puts it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from umma_probe.errors import ConfigError
from umma_probe.harness.displacement import diagnose_shift, injected_columns
from umma_probe.harness.suite import Experiment, Input, Judgement, LaunchPlan, Output, Outputs, noted, passed
from umma_probe.harness.wording import counted
from umma_probe.layouts.scale_factors import ScaleFactorMap, ScaleOperand, scale_factor_map
from umma_probe.layouts.tmem_accumulator import AccumulatorMap, accumulator_map
from umma_probe.record.schema import Check, Diagnosis
from umma_probe.spec.descriptors import Problem, encode_idesc, encode_smem_desc
from umma_probe.spec.encoding import encode_exact
from umma_probe.spec.kinds import KINDS, ScaleVector, check_shape
from umma_probe.spec.machine import TMEM_LANES

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from umma_probe.harness.suite import Array

_CTA_ROWS = 128
_CHUNK_BYTES = 16
_TYPES = {"mxf8f6f4": "e4m3", "mxf4": "e2m1", "mxf4nvf4": "e2m1"}
_ADDRESS_BITS = 15
"""Of a scale's place: cta << 14 | lane << 7 | column << 2 | byte."""
_DIGIT_BITS = {"ue8m0": 4, "ue4m3": 3}
_PARTITION = 32
_NOWHERE = -1


@dataclass(frozen=True)
class ScaleCase:
    """The parameters, with the defaults filled in."""

    kind: str
    vector: ScaleVector
    scale_type: str
    sfa_id: int
    sfb_id: int
    n: int
    sparse: bool = False
    pair: int | None = None
    """M of a pair of CTAs."""
    k: int = 0
    """Elements of a row of A: 96 on sm_103a, else the kind's K (half of it is kept when sparse)."""

    @classmethod
    def of(cls, params: Mapping[str, Any]) -> ScaleCase:
        """Fill in the defaults.

        :raises ConfigError: a scale vector, type or K that the kind does not have.
        """
        kind = KINDS[params["kind"]]
        k = params["k"] or kind.k_dense
        if k not in (kind.k_dense, *(kind.k_extra or {})):
            raise ConfigError(f"k is {k}, must be {kind.k_dense} under kind::{kind.name}, or 96 for 4-bit kinds")
        vectors = {str(vector.scales): vector for vector in KINDS[params["kind"]].scale_vectors}
        wanted = params["scale_vec"] or max(vectors)
        if wanted not in vectors:
            raise ConfigError(f"scale-vec is {wanted}, must be {' or '.join(vectors)} under kind::{params['kind']}")
        vector = vectors[wanted]
        type_ = params["scale_type"] or vector.scale_types[-1]
        if type_ not in vector.scale_types:
            raise ConfigError(f"scale-type is {type_}, must be {' or '.join(vector.scale_types)} with {vector.name}")
        pair = None if params["pair"] == "none" else int(params["pair"])
        return cls(kind.name, vector, type_, params["sfa_id"], params["sfb_id"], params["n"], params["sparse"], pair, k)

    @property
    def scales(self) -> int:
        """Scale factors of a row."""
        return self.vector.scales_of(self.k)

    @property
    def m(self) -> int:
        """M of the instruction."""
        return self.pair or _CTA_ROWS

    @property
    def ctas(self) -> int:
        """1 or 2."""
        return 2 if self.pair else 1

    @property
    def row_bytes(self) -> int:
        """Of one row of A."""
        return self.k * KINDS[self.kind].smem_element_bits // 8

    @property
    def type(self) -> str:
        """Of both operands."""
        return _TYPES[self.kind]

    @property
    def elements(self) -> list[int]:
        """Places along a row of A that are looked at: both ends of every block."""
        block = self.vector.block_elems
        return [k for first in range(0, self.k, block) for k in (first, first + block - 1)]

    @property
    def digit_bits(self) -> int:
        """Of the place, in one pass."""
        return _DIGIT_BITS[self.scale_type]

    @property
    def passes(self) -> int:
        """For all of the place."""
        return -(-_ADDRESS_BITS // self.digit_bits)

    @property
    def powers(self) -> tuple[int, int]:
        """Code of the scale 1, and the step from a power of two to the next."""
        one, two = (int(encode_exact(power, self.scale_type)) for power in (1.0, 2.0))
        return one, two - one

    def row(self, ones_at: Sequence[int], size: int) -> Array:
        """A row of ``size`` bytes with ones there, as words."""
        one = int(encode_exact(1.0, self.type))
        value = sum(one << KINDS[self.kind].smem_element_bits * k for k in ones_at)
        return np.frombuffer(value.to_bytes(size, "little"), np.uint32)

    @cached_property
    def maps(self) -> tuple[ScaleFactorMap, ScaleFactorMap]:
        """Of A's scales and of B's."""
        return (
            scale_factor_map(self.m, self.scales, sf_id=self.sfa_id, cta_group=self.ctas),
            scale_factor_map(self.n, self.scales, sf_id=self.sfb_id, cta_group=self.ctas, operand=ScaleOperand.SFB,
                             split_n=self.pair == _CTA_ROWS),
        )  # fmt: skip

    @cached_property
    def accumulator(self) -> AccumulatorMap:
        """Where D lies."""
        return accumulator_map(self.m, self.n, cta_group=self.ctas, sparse=self.sparse)


def prepare(params: Mapping[str, Any], arch: str, seed: int = 0) -> Experiment:
    """One launch with all passes; nothing is random."""
    case = ScaleCase.of(params)
    problems = list(_problems(case, arch))
    shifts = injected_columns(params["inject"], "scale-columns", ("a", "b"))
    k = None if case.sparse else case.k
    idesc = encode_idesc(case.kind, a_type=case.type, b_type=case.type, m=case.m, n=case.n, sparse=case.sparse, k=k,
                         scale_type=case.scale_type, sfa_id=case.sfa_id, sfb_id=case.sfb_id, force=True)  # fmt: skip
    rows = case.m // case.ctas, case.n // case.ctas
    descriptors = (encode_smem_desc(start_bytes=0, lbo_bytes=16 * count, sbo_bytes=128) for count in rows)
    k_of_b, b_row_bytes = case.k * (1 + case.sparse), case.row_bytes * (1 + case.sparse)
    launch = LaunchPlan(
        entry="sf_map",
        args=[
            Input(np.stack([case.row([k], case.row_bytes) for k in case.elements])),
            Input(case.row(range(k_of_b), b_row_bytes)),
            *map(np.uint32, case.powers),
            np.uint32(len(case.elements)),
            np.uint32(case.passes),
            np.uint32(case.digit_bits),
            *map(np.uint64, descriptors),
            *map(np.uint32, (idesc, case.sfa_id, case.sfb_id, case.n)),
            Output("d", (2, case.passes, len(case.elements), case.ctas, TMEM_LANES, case.n)),
        ],
        grid=(case.ctas,),
        cluster=(case.ctas,) if case.pair else None,
        dynamic_smem=case.row_bytes * rows[0] + b_row_bytes * rows[1],
    )
    return Experiment(
        params={**params, "scale_vec": str(case.vector.scales), "scale_type": case.scale_type, "k": case.k},
        problems=problems,
        defines={
            "KIND": case.kind,
            "VECTOR": case.vector.block_name,
            "SPARSE": int(case.sparse),
            "PAIR": int(case.pair is not None),
            "ROWS": rows[0],
            "CHUNKS": case.row_bytes // _CHUNK_BYTES,
            "SFA_SHIFT": shifts["a"],
            "SFB_SHIFT": shifts["b"],
        },
        launches=[launch],
        judge=lambda outputs: judge(case, outputs),
    )


def _problems(case: ScaleCase, arch: str) -> Iterator[Problem]:
    yield from check_shape(case.kind, m=case.m, n=case.n, a_type=case.type, b_type=case.type, cta_group=case.ctas,
                           sparse=case.sparse, k=None if case.sparse else case.k, arch=arch)  # fmt: skip
    if case.sparse and case.k != KINDS[case.kind].k_dense:
        raise ConfigError(f"k is {case.k}, must be left out with sparse: there is no such MMA")
    if case.n % (8 * case.ctas):
        raise ConfigError(f"n is {case.n}, must be a multiple of {8 * case.ctas}: a CTA stages 8 rows of B at a time")
    for name, value in (("sfa-id", case.sfa_id), ("sfb-id", case.sfb_id)):
        if value not in case.vector.sf_ids_of(case.k):
            legal = ", ".join(map(str, case.vector.sf_ids_of(case.k)))
            raise ConfigError(f"{name} is {value}, must be {legal} with {case.vector.name}")


# ---------------------------------------------------------------------------------------------------------- judgement


def judge(case: ScaleCase, outputs: Sequence[Outputs]) -> Judgement:
    """The recovered place of every scale against the documents."""
    (output,) = outputs
    found = recover(case, output["d"])
    checks = [check for index, name in enumerate("ab") for check in _checks(case, name, found[index], case.maps[index])]
    causes = [_diagnosis(case, name, found[index], case.maps[index]) for index, name in enumerate("ab")]
    return Judgement(checks, diagnosis=next((cause for cause in causes if cause is not None), None))


def _diagnosis(case: ScaleCase, name: str, found: Array, documented: ScaleFactorMap) -> Diagnosis | None:
    """Whether all scales of one operand are displaced alike; ``found`` is (elements, M, N)."""
    if (found == _NOWHERE).any():
        return None
    at = _looked_at(case, name, found)
    wanted = {"column": np.broadcast_to(documented.column[at], found.shape),
              "byte": np.broadcast_to(documented.byte[at], found.shape)}  # fmt: skip
    places = {"column": found >> 2 & 31, "byte": found & 3}
    return diagnose_shift(f"scale factors of {name.upper()}", "scale-factors-misplaced", places, wanted)


def _looked_at(case: ScaleCase, name: str, found: Array) -> tuple[Array, Array]:
    """(row, scale) of each element of ``found``, to index a map with."""
    scale = np.asarray(case.elements) // case.vector.block_elems
    row = np.arange(found.shape[1])[None, :, None] if name == "a" else np.arange(found.shape[2])[None, None, :]
    return row, scale[:, None, None]


def recover(case: ScaleCase, d: Array) -> Array:
    """Place (cta << 14 | lane << 7 | column << 2 | byte) of the scale in each D, (2, elements, M, N); -1 for none."""
    lies = case.accumulator
    values = d.view(np.float32)[..., lies.cta, lies.lane, lies.column].astype(np.float64)
    with np.errstate(divide="ignore", invalid="ignore"):
        digits = np.log2(values)
        known = ((digits >= 0) & (digits < 1 << case.digit_bits) & (digits == np.floor(digits))).all(axis=1)
    whole = np.where(known[:, None], digits, 0).astype(np.int64)
    shifts = case.digit_bits * np.arange(case.passes).reshape(1, -1, 1, 1, 1)
    return np.where(known, (whole << shifts).sum(axis=1), _NOWHERE)


def _checks(case: ScaleCase, name: str, found: Array, documented: ScaleFactorMap) -> Iterator[Check]:
    """``found`` is (elements, M, N)."""
    nowhere = found == _NOWHERE
    yield passed(f"sf{name}-found", not nowhere.any(), "every element names its scale",
                 counted(nowhere.sum(), "element") + " without", "D is no power of two there")  # fmt: skip
    at = _looked_at(case, name, found)
    cta, lane, column, byte = found >> 14, found >> 7 & 127, found >> 2 & 31, found & 3
    right_cta = documented.in_both_ctas | (cta == documented.cta[at])
    right_lane = np.isin(lane - documented.lane[at], documented.copies)
    wrong = ~nowhere & ~(right_cta & right_lane & (column == documented.column[at]) & (byte == documented.byte[at]))
    yield passed(f"sf{name}-place", not wrong.any(), "as documented", counted(wrong.sum(), "element") + " elsewhere",
                 _first(case, found, wrong, documented, name))  # fmt: skip
    yield noted(f"sf{name}-copies", _copies(case, found, nowhere))


def _copies(case: ScaleCase, found: Array, nowhere: Array) -> str:
    """Whether the scale of each element of D comes from D's own partition of 32 lanes, and its own CTA."""
    lies = case.accumulator
    own_cta = (found >> 14 == lies.cta)[~nowhere].all()
    own = (found >> 7 & 127) // _PARTITION == lies.lane // _PARTITION
    words = "each partition its own" if own[~nowhere].all() else "not each partition its own"
    return words if own_cta else f"{words}, and not each CTA"


def _first(case: ScaleCase, found: Array, wrong: Array, documented: ScaleFactorMap, name: str) -> str:
    if not wrong.any():
        return ""
    element, m, n = (int(index) for index in np.argwhere(wrong)[0])
    k, place = case.elements[element], int(found[element, m, n])
    at = (m if name == "a" else n), k // case.vector.block_elems
    of_cta = [f"CTA {place >> 14}, ", f"CTA {documented.cta[at]}, "] if case.pair else ["", ""]
    return (f"element (m {m}, n {n}, k {k}) takes {of_cta[0]}lane {place >> 7 & 127}, column {place >> 2 & 31}, "
            f"byte {place & 3}, must take {of_cta[1]}lane {documented.lane[at]} (or a copy), "
            f"column {documented.column[at]}, byte {documented.byte[at]}")  # fmt: skip

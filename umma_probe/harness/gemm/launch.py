"""From a recipe to what the kernel ``probes/gemm.cu`` takes: macros, arguments, buffers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from umma_probe.harness.gemm.recipe import SMEM_BYTES, Reading, Recipe, Staged, Storing
from umma_probe.harness.suite import Input, LaunchPlan, Output
from umma_probe.spec.formats import FORMATS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from umma_probe.harness.gemm.passes import Codes, Pass

FILLS = ("sentinel", "zero", "stale")
"""``enum Fill`` of ``probes/gemm.cu``."""
_READINGS = 3
"""Dumps that the kernel takes; the third is used for a D of 16 bits only."""
HEADER_WORDS = 4
"""Before the bytes of the shared dump: its address, and room to align."""


def defines(recipe: Recipe) -> dict[str, object]:
    """``-D`` options."""
    made: dict[str, object] = {
        "KIND": recipe.kind,
        "WS": int(recipe.ws),
        "A_IN_TMEM": int(recipe.a_in_tmem),
        "A_BITS": FORMATS[recipe.a.type_].container_bits,
        "B_BITS": FORMATS[recipe.b.type_].container_bits,
        **recipe.a.placed.defines("A"),
        **recipe.b.placed.defines("B"),
    }
    for index, reading in enumerate(recipe.readings):
        made[f"LOAD_SHAPE_{index}"], made[f"REGISTERS_{index}"] = reading.readback.defines
        if reading.pack_mistaken:
            made[f"PACK_MISTAKEN_{index}"] = 1
    if recipe.left_out:
        made["LEAVE_OUT"] = recipe.left_out
    if recipe.disabled_lanes:
        made["LANE_MASK"] = 1
    if recipe.start_unit_forgotten:
        made["START_UNIT_LOG2"] = 0
    if recipe.a_storing is not Storing.PACKED:
        made["A_STORING"] = recipe.a_storing.name
    return made


def launch(recipe: Recipe, codes: Pass, before: Pass | None, label: str) -> LaunchPlan:
    """One launch with these operands.

    :param before: operands of ``recipe.before``, for ``fill`` stale.
    """
    from umma_probe.harness.gemm.predict import staged_codes

    a, b = staged_codes(codes.a_codes, recipe.a), staged_codes(codes.b_codes, recipe.b)
    nothing: Codes = np.zeros(1, a.dtype)
    absent = [Input(nothing)] * (_READINGS - len(recipe.readings))
    first = recipe.before or recipe
    return LaunchPlan(
        entry="gemm",
        args=[
            Input(a),
            Input(b),
            Input(before.a_codes if before else nothing),
            Input(before.b_codes if before else nothing),
            *(Output(f"dump_{index}", reading.readback.dump_shape) for index, reading in enumerate(recipe.readings)),
            *absent,
            Output("shared", (HEADER_WORDS + recipe.dumped_bytes // 4,)),
            np.uint32(SMEM_BYTES),
            np.uint32(recipe.dumped_bytes),
            np.uint32(FILLS.index(recipe.fill)),
            gemm_struct(first),
            gemm_struct(recipe),
            *(_reading(reading) for reading in (*recipe.readings, recipe.readings[0])[:_READINGS]),
        ],
        dynamic_smem=SMEM_BYTES,
        label=label,
    )


def gemm_struct(recipe: Recipe) -> bytes:
    """``struct Gemm`` of ``probes/gemm.cuh``."""
    words: Sequence[int] = (
        recipe.idesc, recipe.tiles, recipe.subs, recipe.d_lane << 16 | recipe.d_column, recipe.d_step, recipe.a_column,
        int(recipe.accumulate), *recipe.lane_mask, recipe.issued, *recipe.sub_mask,
    )  # fmt: skip
    staged = b"".join(_staged(operand) for operand in (recipe.a, recipe.b))
    return staged + recipe.a.read.struct() + recipe.b.read.struct() + np.array(words, "<u4").tobytes()


def _reading(reading: Reading) -> bytes:
    """``struct Reading`` of ``probes/gemm.cu``."""
    return np.array([reading.column, reading.lane_step], "<u4").tobytes()


def _staged(operand: Staged) -> bytes:
    return operand.placed.struct(operand.smem)

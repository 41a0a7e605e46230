"""The swizzles of TMA against the tables of the PTX ISA, and the places of a box."""

from __future__ import annotations

import numpy as np
import pytest
import tma_reference as reference

from umma_probe.layouts.swizzle import swizzle_address
from umma_probe.layouts.tma_box import Access, plan_box, swizzle_shared
from umma_probe.spec.smem_descriptor import Swizzle
from umma_probe.spec.tensor_map import SWIZZLES, TensorMapFields

ADDRESSES = np.arange(4096)


@pytest.mark.parametrize("name", list(reference.PATTERNS))
def test_chunks_stand_where_the_tables_say(name: str) -> None:
    places = swizzle_shared(ADDRESSES, name)
    for address in range(0, 4096, 16):
        place, flipped = reference.chunk_place(address, name)
        assert places[address] == place + 8 * flipped
        assert places[address + 8] == place + 8 * (not flipped)


@pytest.mark.parametrize("name", list(SWIZZLES))
def test_a_swizzle_is_its_own_inverse_and_repeats(name: str) -> None:
    places = swizzle_shared(ADDRESSES, name)
    np.testing.assert_array_equal(swizzle_shared(places, name), ADDRESSES)
    period = SWIZZLES[name].period_bytes
    np.testing.assert_array_equal(places[period:], places[:-period] + period)


@pytest.mark.parametrize(
    ("tma", "umma"),
    [("none", Swizzle.NONE), ("32B", Swizzle.B32), ("64B", Swizzle.B64), ("128B", Swizzle.B128),
     ("128B-atom-32B", Swizzle.B128_BASE32B)],
)  # fmt: skip
def test_the_tensor_core_reads_what_tma_wrote(tma: str, umma: Swizzle) -> None:
    np.testing.assert_array_equal(swizzle_shared(ADDRESSES, tma), swizzle_address(ADDRESSES, umma))


@pytest.mark.parametrize(("column", "unit"), [(0, 16), (8, 16), (4, 1), (-8, 16), (-1, 1)])
def test_the_unit_is_16_bytes_where_that_is_exact(column: int, unit: int) -> None:
    fields = TensorMapFields("u16", 4096, (64, 8), (128,), (16, 4), (1, 1))
    plan = plan_box(fields, Access.TILE, (column, 2))
    assert plan.unit == unit
    assert plan.tx_bytes == 4 * 32
    bytes_ = (plan.source[:, :, None] * unit + np.arange(unit)).reshape(4, 32)
    np.testing.assert_array_equal(bytes_, (np.arange(2, 6) * 128)[:, None] + 2 * column + np.arange(32))
    inside = np.repeat(plan.inside, unit, axis=1)
    np.testing.assert_array_equal(inside, np.broadcast_to(2 * column + np.arange(32) >= 0, (4, 32)))

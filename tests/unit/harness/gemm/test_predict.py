"""The host's prediction against NumPy and against bytes laid out by hand."""

import numpy as np
import pytest

from umma_probe.harness.fills import sentinel_words
from umma_probe.harness.gemm.case import GemmCase
from umma_probe.harness.gemm.passes import gemm_passes
from umma_probe.harness.gemm.predict import (
    Unpredictable,
    expected_image,
    filled_shared,
    predict,
    stage_tmem_a,
    staged_codes,
)
from umma_probe.harness.gemm.recipe import Recipe
from umma_probe.harness.inject import inject

BASE = 1024


def clean(**params: object) -> tuple[Recipe, tuple]:
    case = GemmCase.of(**{"m": 128, "n": 32, "k": 32, **params})
    recipe = case.recipe()
    types = case.a_type, case.b_type, case.d_type
    return recipe, gemm_passes(case.m, case.n, recipe.tile_k, recipe.tiles, types)


@pytest.mark.parametrize("params", [{}, {"swizzle": "none"}, {"b_major": "mn"}, {"a_source": "tmem"}, {"sub_n": 16},
                                    {"kind": "tf32"}, {"kind": "i8", "k": 64}])  # fmt: skip
def test_coded_products_equal_float64(params: dict[str, object]) -> None:
    recipe, passes = clean(**params)
    for codes in passes[:2]:
        words = predict(recipe, codes, None, expected_image(recipe, codes, BASE), "sm_100a")
        values = words[:, :32].view(np.int32 if recipe.kind == "i8" else np.float32)
        assert np.array_equal(values.astype(np.float64), codes.a @ codes.b.T)
        if not recipe.a_in_tmem:
            assert np.array_equal(words[:, 32:], sentinel_words()[:, 32:])


def test_the_historic_layout_byte_by_byte() -> None:
    """Element (n, k) of a K tile: core matrices of 8 rows by 16 bytes, LBO = N * 16, SBO = 128."""
    recipe, (row, _, _) = clean(n=64, k=16, swizzle="none")
    image = expected_image(recipe, row, BASE)
    b = recipe.b.smem
    for n in (0, 7, 8, 35, 63):
        for k in (0, 7, 8, 15):
            at = b + k // 8 * (64 * 16) + n // 8 * 128 + n % 8 * 16 + k % 8 * 2
            assert image.data[at : at + 2].view("<u2")[0] == row.b_codes[n, k]


def test_the_fill_of_shared_memory() -> None:
    data = filled_shared(BASE).data
    assert data[:16].view("<u4").tolist() == [0x40004000] * 4
    number = 2 * 4096 + 3 * 64 + 5
    words = data[16 * number : 16 * number + 16].view("<u4").tolist()
    assert words == [0x40054005, 0x40034003, 0x40024002, 0x40054005]
    assert len(np.unique(data.reshape(-1, 16), axis=0)) == 224 * 1024 // 16


def test_holes_count_rows_then_k_in_each_tile() -> None:
    recipe, (row, _, _) = clean()
    holed = inject(recipe, "operand-hole:16-18,33").b
    codes = staged_codes(row.b_codes, holed)
    assert np.argwhere(codes == 0).tolist() == [[1, 0], [1, 1], [1, 2], [1, 16], [1, 17], [1, 18], [2, 1], [2, 17]]


def test_what_leaves_shared_memory_is_not_predicted() -> None:
    recipe, (row, _, _) = clean()
    with pytest.raises(Unpredictable, match="outside of dynamic shared memory"):
        predict(inject(recipe, "wrong-stride:sbo,131072"), row, None, expected_image(recipe, row, BASE), "sm_100a")


def test_an_illegal_descriptor_is_not_predicted() -> None:
    recipe, (row, _, _) = clean()
    with pytest.raises(Unpredictable, match="M"):
        predict(inject(recipe, "wrong-idesc:m=96"), row, None, expected_image(recipe, row, BASE), "sm_100a")


def test_unpack_spreads_the_halves_of_each_register() -> None:
    """Element k of A in the low half of column 32 + k, where packed it is half of column 32 + k / 2."""
    recipe, (row, _, _) = clean(a_source="tmem")
    assert recipe.a_column == 32
    packed, spread = sentinel_words(), sentinel_words()
    stage_tmem_a(recipe, packed, row.a_codes)
    stage_tmem_a(inject(recipe, "operand-unpacked:unpack::16b"), spread, row.a_codes)
    assert np.array_equal(spread[:, 32:64], row.a_codes)
    assert np.array_equal(packed[:, 32:48], row.a_codes[:, ::2] | row.a_codes[:, 1::2].astype(np.uint32) << 16)
    assert np.array_equal(spread[:, 64:], sentinel_words()[:, 64:])


@pytest.mark.parametrize(("fault", "params"), [("sub-tile-skipped:1", {"sub_n": 8}), ("not-written:8-15", {})])
def test_columns_that_no_mma_makes_keep_the_sentinel(fault: str, params: dict[str, object]) -> None:
    recipe, (row, _, _) = clean(**params)
    words = predict(inject(recipe, fault), row, None, expected_image(recipe, row, BASE), "sm_100a")
    assert np.array_equal(words[:, 8:16], sentinel_words()[:, 8:16])
    made = [*range(8), *range(16, 32)]
    assert np.array_equal(words[:, made].view(np.float32).astype(np.float64), (row.a @ row.b.T)[:, made])

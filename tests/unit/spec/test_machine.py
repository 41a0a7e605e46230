"""Machine limits: every row is cited, and the figures that the documents state."""

import pytest

from umma_probe.errors import ConfigError
from umma_probe.spec.machine import ARCHS, arch


@pytest.mark.parametrize("row", ARCHS.values(), ids=list(ARCHS))
def test_rows_are_cited_and_within_reason(row):
    assert row.refs
    assert row.smem_per_cta_default_bytes <= row.smem_per_cta_bytes
    assert row.portable_cluster_ctas <= row.max_cluster_ctas


@pytest.mark.parametrize(
    ("name", "smem", "columns"),
    [("sm_90a", 232448, 0), ("sm_100a", 232448, 512), ("sm_110f", 232448, 512), ("sm_120a", 101376, 0)],
)
def test_figures(name, smem, columns):
    row = arch(name)
    assert (row.smem_per_cta_bytes, row.tmem_columns, row.tmem_lanes) == (smem, columns, 128 if columns else 0)
    assert (row.max_threads_per_cta, row.registers_per_cta) == (1024, 65536)


def test_an_unknown_target_is_named_with_its_neighbours():
    with pytest.raises(ConfigError, match="sm_100a"):
        arch("sm_100b")

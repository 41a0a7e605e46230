"""The special registers that PTX documents ("Special Registers"), as names only. ptxas 13.0 knows each of them."""

from __future__ import annotations

SPECIAL_VECTORS = frozenset(
    {
        "%tid",
        "%ntid",
        "%ctaid",
        "%nctaid",
        "%clusterid",
        "%nclusterid",
        "%cluster_ctaid",
        "%cluster_nctaid",
    }
)
"""Registers of four elements; an element is written ``%tid.x``."""

SPECIAL_REGISTERS = frozenset(
    {
        *SPECIAL_VECTORS,
        *(f"{vector}.{element}" for vector in SPECIAL_VECTORS for element in "xyzw"),
        "%laneid",
        "%warpid",
        "%nwarpid",
        "%smid",
        "%nsmid",
        "%gridid",
        "%is_explicit_cluster",
        "%cluster_ctarank",
        "%cluster_nctarank",
        "%lanemask_eq",
        "%lanemask_le",
        "%lanemask_lt",
        "%lanemask_ge",
        "%lanemask_gt",
        "%clock",
        "%clock_hi",
        "%clock64",
        "%globaltimer",
        "%globaltimer_lo",
        "%globaltimer_hi",
        *(f"%pm{n}" for n in range(8)),
        *(f"%pm{n}_64" for n in range(8)),
        *(f"%envreg{n}" for n in range(32)),
        "%reserved_smem_offset_begin",
        "%reserved_smem_offset_end",
        "%reserved_smem_offset_cap",
        "%reserved_smem_offset_0",
        "%reserved_smem_offset_1",
        "%total_smem_size",
        "%aggr_smem_size",
        "%dynamic_smem_size",
        "%current_graph_exec",
    }
)
"""Every name that needs no declaration."""

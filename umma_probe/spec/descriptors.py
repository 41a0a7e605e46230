"""Both descriptors of ``tcgen05.mma`` under one name: the instruction's and the shared-memory matrix's."""

from umma_probe.spec.idesc import (
    IDESC_LAYOUTS,
    MAX_SHIFTS,
    IdescFields,
    decode_idesc,
    encode_idesc,
    idesc_layout,
    idesc_problems,
)
from umma_probe.spec.problems import Problem
from umma_probe.spec.smem_descriptor import (
    SMEM_DESC,
    SmemDescriptor,
    Swizzle,
    decode_smem_desc,
    encode_smem_desc,
    smem_desc_problems,
)

__all__ = [
    "IDESC_LAYOUTS",
    "MAX_SHIFTS",
    "SMEM_DESC",
    "IdescFields",
    "Problem",
    "SmemDescriptor",
    "Swizzle",
    "decode_idesc",
    "decode_smem_desc",
    "encode_idesc",
    "encode_smem_desc",
    "idesc_layout",
    "idesc_problems",
    "smem_desc_problems",
]

"""What the assembler makes of each probe: the tensor instructions that its source asks for, and no others.

The model executes PTX, a GPU executes what the assembler made of it; here is where the two are compared. ``EMITTED`` is
derived from the sources, by counting places: the wrappers that are called with default options, once for each place
that the code is inlined at. ``SASS`` says which machine instructions stand for one PTX operation.

Some have none, with NVRTC 13.5: ``tcgen05.fence`` only keeps the assembler from moving things across it, and
``tcgen05.wait::ld`` becomes a wait of the next instruction on the load's scoreboard. Neither can be counted.
"""

import re
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

import pytest

from umma_probe.backends.target import required_arch
from umma_probe.gpu.nvrtc import compile_source
from umma_probe.harness.manifest import load_probe, probe_names
from umma_probe.harness.suite import load_suite

pytestmark = pytest.mark.slow

PACKAGE = "nvidia-cuda-nvdisasm"

# PTX operation -> how many machine instructions stand for it, and how their names start
SASS: dict[str, tuple[int, str]] = {
    "alloc": (2, "UTCATOMSWS.FIND_AND_SET|UTCATOMSWS.2CTA.FIND_AND_SET"),  # one at once, one in a loop that waits
    "dealloc": (1, "UTCATOMSWS.AND"),
    "relinquish": (1, "UVIRTCOUNT.DEALLOC.SMPOOL"),
    "st": (1, "STTM"),
    "wait::st": (1, "FENCE.VIEW.ASYNC.T"),
    "ld": (1, "LDTM"),
    "cp": (1, "UTCCP"),
    "shift": (1, "UTCSHIFT"),
    "commit": (1, "UTCBAR"),
    "mma f16/tf32": (1, "UTCHMMA"),
    "mma 8-bit": (1, "UTCQMMA"),
    "mma i8": (1, "UTCIMMA"),
    "mma 4-bit": (1, "UTCOMMA"),
    "fence.proxy.async": (1, "MEMBAR.ALL.CTA"),  # with a FENCE.VIEW.ASYNC.S, which mbarrier.init has too
    "mbarrier.init": (1, "SYNCS.EXCH"),
    "mbarrier.arrive": (1, "SYNCS.ARRIVE"),
    "mbarrier.test_wait": (1, "SYNCS.PHASECHK"),
    "mbarrier.inval": (1, "SYNCS.CCTL.IV"),
    "tensor load": (1, "UTMALDG"),
    "wgmma": (1, "HGMMA"),
    "wgmma.fence": (1, "WARPGROUP.ARRIVE"),
    "wgmma.wait_group": (1, "WARPGROUP.DEPBAR"),
}


@dataclass(frozen=True)
class AtLeast:
    """Of what stands in a loop that may be unrolled: its number of rounds is a constant."""

    count: int


Count = int | AtLeast

# frame.cuh, and the kernels that write the same out: memory is taken, handed over and given back; one barrier
FRAME: dict[str, Count] = {"alloc": 1, "dealloc": 1, "relinquish": 1, "mbarrier.init": 1, "fence.proxy.async": 2}
# spins: a loop whose first try may be split off
ONE_MMA: dict[str, Count] = {**FRAME, "fence.proxy.async": 3, "commit": 1, "mbarrier.test_wait": AtLeast(1)}
# multiply() twice: of what leaves stale values behind, and the one that is looked at. Both fills, two readbacks.
GEMM: dict[str, Count] = {
    **FRAME,
    "fence.proxy.async": 2,
    "mma f16/tf32": 2,
    "commit": 2,
    "mbarrier.test_wait": AtLeast(2),
    "st": AtLeast(2),
    "wait::st": 2,
    "ld": 2,
}
WGMMA: dict[str, Count] = {"wgmma": 1, "wgmma.fence": 1, "wgmma.wait_group": 1, "fence.proxy.async": 1}

EMITTED: dict[str, dict[str, Count]] = {
    "alloc": {
        "alloc": 11,  # alloc_order: 5 blocks, warp 1's, and again; alloc_share; alloc_misuse, and GROWING; alloc_leak
        "dealloc": 12,  # alloc_order: the same 7; alloc_share: 1; alloc_misuse: 3 cases, and at last
        "relinquish": 4,  # one in each kernel
        "st": 2,  # the marks of alloc_share; STORE
        "wait::st": 2,
        "ld": 2,  # alloc_share looks at its marks; alloc_misuse where it must not
        "cp": 1,  # COPY
        "mma f16/tf32": 2,  # DENSE_MMA, SPARSE_MMA
        "commit": 1,
        "mbarrier.init": 1,
        "mbarrier.test_wait": AtLeast(1),
        "fence.proxy.async": 3,  # hand_over twice in alloc_share, once in alloc_misuse
    },
    "cp-map": {**ONE_MMA, "cp": 1, "st": AtLeast(1), "wait::st": 1, "ld": 2},  # ld: the destination, and the dump
    "fence-order": {
        **FRAME,
        "mbarrier.init": 2,  # mma_done, all_done
        "fence.proxy.async": 3,  # take, give back, and the step PROXY
        "st": AtLeast(2),  # the sentinels, and A
        "wait::st": 2,
        "ld": 1,
        "mma f16/tf32": 1,
        "commit": 2,
        "mbarrier.test_wait": AtLeast(2),
    },
    "fmha": {  # head dimension 64, P in Tensor Memory, PV in one sub-tile
        **{key: FRAME[key] for key in ("alloc", "dealloc", "relinquish")},
        "mbarrier.init": 13,  # q_full, four stages full and empty, s_full twice, p_full, pv_done
        "mbarrier.arrive": 5,  # expect_tx for Q, the first K, K and V; p_full
        "mbarrier.test_wait": AtLeast(12),  # 3 loads; q_full; K full twice; pv_done before S; P and V full; softmax 3
        "tensor load": 4,  # Q, the first K, K and V: one panel of 64 columns each
        "mma f16/tf32": 16,  # QK: 64 / 16 for the first tile and for the next; PV: 128 / 16
        "commit": 6,  # of QK twice and of PV: the tile is free, the result is there
        "ld": 5,  # S; O in two chunks of 32 columns to rescale it, and again at the end
        "st": 3,  # O in two chunks, P
        "wait::st": 1,
    },
    "idesc-map": GEMM,
    "ldst-map": {
        **FRAME,
        "st": AtLeast(3),  # sentinels, the shape under test once or twice, coordinates
        "wait::st": 3,
        "ld": 2,  # the dump, the shape under test
    },
    "mbarrier": {
        "mbarrier.init": 1,
        "mbarrier.arrive": 7,  # arrive twice, noComplete, expect_tx with and without arrival, drop, complete_tx
        "mbarrier.test_wait": 2,  # by parity, by state
        "mbarrier.inval": 1,
    },
    "numerics": {**ONE_MMA, "mma f16/tf32": 1, "st": 3, "wait::st": 1, "ld": 1},  # st: C, scales of A and of B
    "pair-map": {
        **ONE_MMA,
        "fence.proxy.async": AtLeast(3),  # the barriers of the cluster have such fences, too
        "mma f16/tf32": 1,
        "st": AtLeast(1),  # the sentinels; metadata only if sparse
        "wait::st": 1,
        "ld": 1,
    },
    "pv-gemm": {**GEMM, "st": AtLeast(4), "wait::st": 4},  # and P, in each of the two
    "qk-gemm": GEMM,
    "scale-reuse": {
        **ONE_MMA,
        "mbarrier.init": 2,  # of the end; of each round
        "mma 8-bit": 1,
        "cp": AtLeast(2),  # scales of B; of A in each round
        "st": AtLeast(1),
        "wait::st": 1,
        "ld": 1,
    },
    "sf-map": {**ONE_MMA, "mma 8-bit": 1, "st": AtLeast(3), "wait::st": 3, "ld": 1},  # st: sentinels, both scales
    "shift-map": {  # shift_cells and shift_rows
        "alloc": 2,
        "dealloc": 2,
        "relinquish": 2,
        "mbarrier.init": 2,
        "commit": 2,
        "fence.proxy.async": 6,
        "mbarrier.test_wait": AtLeast(2),
        "shift": 1,
        "cp": 1,
        "mma f16/tf32": 1,
        "st": AtLeast(3),  # sentinels in both, A
        "wait::st": 3,
        "ld": 2,
    },
    "smem-desc-map": {**ONE_MMA, "mma f16/tf32": 1, "st": AtLeast(2), "wait::st": 2, "ld": 1},  # and the unit matrix
    "sparse-map": {**ONE_MMA, "mma f16/tf32": 1, "st": AtLeast(3), "wait::st": 3, "ld": 1},  # and scales, metadata
    "st-repeat": {**FRAME, "st": AtLeast(2), "wait::st": 3, "ld": 1},  # waits: sentinels, after each, after the last
    "tma-map": {
        "mbarrier.init": 1,
        "mbarrier.arrive": 1,
        "mbarrier.test_wait": AtLeast(1),
        "tensor load": 1,
        "fence.proxy.async": 1,
    },
    "tmem-all-lanes": GEMM,
    "tmem-layout": {
        **ONE_MMA,
        "fence.proxy.async": 1,  # before the MMA; nothing else here hands over shared memory
        "mma f16/tf32": 1,
        "st": AtLeast(1),
        "wait::st": 1,
        "ld": 2,
    },
    "tmem-zero-pv": GEMM,
    "wgmma-desc-map": WGMMA,
    "wgmma-layout": WGMMA,
    "wgmma-numerics": WGMMA,
    "ws-mask": {**ONE_MMA, "mma f16/tf32": 1, "st": AtLeast(1), "wait::st": 1, "ld": 1},
}

# a row of S (128 registers), one of P (64) and O's chunk are more than a thread's 255 registers leave room for
MAY_SPILL = {"fmha"}

# what the table accounts for: any other one of these is a surprise
COUNTED = ("UTC", "LDTM", "STTM", "UTMA", "HGMMA", "QGMMA", "IGMMA")

_INSTRUCTION = re.compile(r"^\s*/\*[0-9a-f]{4,}\*/\s+(?P<guard>@!?U?P\w+\s+)?(?P<opcode>[A-Z][\w.]*)", re.MULTILINE)


def nvdisasm() -> Path:
    """The package's binary; skips the test where there is none."""
    try:
        files = metadata.files(PACKAGE) or []
    except metadata.PackageNotFoundError:
        pytest.skip(f"{PACKAGE} is not installed: pip install 'umma-probe[sass]'")
    for file in files:
        path = Path(str(file.locate()))
        if path.stem == "nvdisasm" and path.is_file():
            return path
    pytest.skip(f"{PACKAGE} is installed without its binary")


def sass(probe: str, folder: Path) -> list[tuple[str, str]]:
    """(guard, opcode) of every instruction of the probe with its default options."""
    contract = load_probe(probe)
    arch = required_arch(contract.needs) or "sm_100a"
    experiment = load_suite(contract.name).prepare(contract.resolve({}), arch, 0)
    source = contract.path.parent / (experiment.source or contract.source)
    options = [f"-D{key}={value}" for key, value in experiment.defines.items()]
    compiled = compile_source(source.read_text(), str(source), arch=arch, kind="cubin", options=options)
    (folder / "probe.cubin").write_bytes(compiled.cubin)
    command = [str(nvdisasm()), "--print-code", str(folder / "probe.cubin")]
    text = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout
    return [((match["guard"] or "").strip(), match["opcode"]) for match in _INSTRUCTION.finditer(text)]


def wanted(probe: str) -> dict[str, Count]:
    """Machine instructions by the start of their names."""
    counts: dict[str, Count] = {}
    for operation, count in EMITTED[probe].items():
        each, opcode = SASS[operation]
        counts[opcode] = AtLeast(count.count * each) if isinstance(count, AtLeast) else count * each
    return counts


def starts_with(names: str) -> Callable[[str], bool]:
    return lambda opcode: any(opcode.startswith(name) for name in names.split("|"))


def differences(probe: str, opcodes: list[str]) -> Iterator[str]:
    counts = wanted(probe)
    for names, count in counts.items():
        actual = sum(map(starts_with(names), opcodes))
        if actual < count.count if isinstance(count, AtLeast) else actual != count:
            yield f"{names}: expected {count}, actual {actual}"
    known = starts_with("|".join(counts))
    yield from sorted(
        {f"{opcode}: expected none" for opcode in opcodes if opcode.startswith(COUNTED) and not known(opcode)}
    )


@pytest.mark.parametrize("probe", probe_names())
def test_emitted_instructions(probe: str, tmp_path: Path) -> None:
    assert probe in EMITTED, f"a new probe: count in its source what it emits, for the table of {__name__}"
    instructions = sass(probe, tmp_path)
    assert list(differences(probe, [opcode for _, opcode in instructions])) == []
    # .sync.aligned takes whole warps: a predicate of single threads has no place here
    guarded = [opcode for guard, opcode in instructions if guard.lstrip("@!").startswith("P")
               and opcode.startswith(("LDTM", "STTM"))]  # fmt: skip
    assert guarded == []
    if probe not in MAY_SPILL:
        assert [opcode for _, opcode in instructions if opcode.startswith(("LDL", "STL"))] == []

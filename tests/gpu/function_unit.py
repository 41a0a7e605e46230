"""Every f32 of whole binades through the function unit of a GPU and of the model, compared bit for bit.

    PYTHONPATH=tests/gpu python tests/gpu/function_unit.py -o reports/silicon-h200/function_unit.json

A binade has 2^23 numbers. Some show each row of a function's table, the others the way there: signs, bits that are cut
off, large and small results. Of the 16-bit functions all 65536 inputs.
"""  # fmt: skip

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from measuring import circumstances, save

import umma_probe as up

if TYPE_CHECKING:
    from umma_probe.backends.base import Device

TESTS = Path(__file__).parents[1]
sys.path.insert(0, str(TESTS / "unit" / "model" / "ops"))

from harness import kernel_text  # noqa: E402 - a neighbour, found through the line above

BINADES = {
    "ex2.approx.ftz.f32": ("1", "-1", "0.5", "-0.5", "2", "0.0625", "-16"),
    "ex2.approx.f32": ("-128", "64"),
    "lg2.approx.ftz.f32": ("1", "0.5", "2", "0.25", "32", "1e-3"),
    "rcp.approx.ftz.f32": ("1", "-8.5e37"),
    "rcp.approx.f32": ("1.8e38", "2.5e-38"),
    "rsqrt.approx.ftz.f32": ("1", "2"),
    "sqrt.approx.ftz.f32": ("1", "2"),
    "sin.approx.ftz.f32": ("1", "0.5", "-4", "0.0625", "64"),
    "cos.approx.ftz.f32": ("1", "0.5", "-4", "0.0625", "64"),
}
"""Instruction to a number of each binade."""
HALVES = ("ex2.approx.f16", "ex2.approx.ftz.bf16")
CHUNK = 1 << 20


def binade(number: str) -> Any:
    first = np.float32(number).reshape(1).view(np.uint32) & np.uint32(0xFF800000)
    return first + np.arange(1 << 23, dtype=np.uint32)


def results(device: Device, ptx: str, words: Any) -> Any:
    width = words.dtype.itemsize * 8
    text = kernel_text(f"{ptx} %d, %a;", {"a": words}, {"d": f"b{width}"}).replace("sm_100a", "sm_90a")
    kernel = device.load_ptx(text)["k"]
    found = []
    for start in range(0, len(words), CHUNK):
        part = words[start : start + CHUNK]
        out = device.array(np.zeros_like(part))
        kernel.launch(grid=len(part) // 256, block=256, args=[device.array(part), out], timeout=120)
        found.append(out.numpy())
    return np.concatenate(found)


def modelled(ptx: str, words: Any) -> Any:
    """The instruction's function, without a machine around it."""
    from umma_probe.model.ops import approximate

    opcode, ftz = ptx.split(".")[0], ".ftz" in ptx
    if ptx in HALVES:
        return results(up.device("model", arch="sm_90a"), ptx, words)
    with np.errstate(all="ignore"):
        return approximate.FUNCTION_UNIT[opcode][0 if ftz else 1](words.view(np.float32)).view(np.uint32)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-o", "--output", type=Path, required=True)
    path, device = parser.parse_args().output, up.device("cuda:0")
    sets = [(ptx, f"the binade of {number}", binade(number)) for ptx, names in BINADES.items() for number in names]
    sets += [(ptx, "all", np.arange(1 << 16, dtype=np.uint32).astype(np.uint16)) for ptx in HALVES]
    rows = []
    for ptx, inputs, words in sets:
        silicon, model = results(device, ptx, words), modelled(ptx, words)
        nan = (words & 0x7FFF) > (0x7F80 if ".bf16" in ptx else 0x7C00) if words.itemsize == 2 else np.zeros(1, bool)
        wrong = int(((silicon != model) & ~nan).sum())
        rows.append({"ptx": ptx, "inputs": inputs, "count": len(words), "mismatches": wrong})
        print(rows[-1])
    about = "The function unit (MUFU) on silicon and on the model, bit for bit. NaN inputs of 16 bits are left out."
    save(path, circumstances("python tests/gpu/function_unit.py") | {"about": about, "sets": rows})
    return int(any(row["mismatches"] for row in rows))


if __name__ == "__main__":
    sys.exit(main())

"""Runs what the recorder wrote down on the model: ``recorded_case.py FOLDER PTX POLICY``.

The buffers are ``b0``, ``b1`` ... in the order of their allocation; their contents afterwards are left in ``result``.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import yaml

from umma_probe.harness.launch_case.report import exec_case, save_outputs
from umma_probe.harness.launch_case.schema import FILLS, INTERLEAVES, MAP_DTYPES, PROMOTIONS, SWIZZLES, load_case

WORDS = {"dtype": MAP_DTYPES, "interleave": INTERLEAVES, "swizzle": SWIZZLES, "l2_promotion": PROMOTIONS,
         "oob_fill": FILLS}  # fmt: skip
"""The enumerations of cuTensorMapEncodeTiled, in their order."""


def _tensor_map(number: int, made: dict[str, Any]) -> dict[str, Any]:
    words = {key: names[made[key]] for key, names in WORDS.items()}
    return {"name": f"map{number}", **made, "buffer": f"b{made['buffer']}", **words}


def _pointers(recorded: list[list[int]]) -> list[dict[str, Any]]:
    return [{"at": at, "buffer": f"b{buffer}", "offset": offset} for at, buffer, offset in recorded]


def _buffer(number: int, recorded: dict[str, Any]) -> dict[str, Any]:
    return {"name": f"b{number}", "dtype": "u8", "shape": [recorded["size"]], "init": {"file": f"in_{number}.bin"},
            "pointers": _pointers(recorded["pointers"])}  # fmt: skip


def _argument(recorded: dict[str, Any]) -> dict[str, Any]:
    maps = [{"at": at, "tensor_map": f"map{number}"} for at, number in recorded["maps"]]
    return {"bytes": recorded["bytes"], "pointers": _pointers(recorded["pointers"]), "tensor_maps": maps}


def write_case(folder: Path, ptx: str) -> Path:
    """The launch case of a recorded launch."""
    launch = json.loads((folder / "launch.json").read_text())
    document = {
        "name": folder.name, "source": ptx, "arch": "sm_100a",
        **{key: launch[key] for key in ("entry", "grid", "block", "cluster", "dynamic_smem")},
        "buffers": [_buffer(number, recorded) for number, recorded in enumerate(launch["buffers"])],
        "tensor_maps": [_tensor_map(number, made) for number, made in enumerate(launch["maps"])],
        "args": [_argument(recorded) for recorded in launch["args"]],
    }  # fmt: skip
    path = folder / "case.yaml"
    path.write_text(yaml.safe_dump(document, sort_keys=False))
    return path


def main(folder: Path, ptx: str, policy: str) -> int:
    """0 if the kernel ran without a fault or finding."""
    path = write_case(folder, ptx)
    report, result, _ = exec_case(path, target="model", policy=policy, timeout=600)
    for check in report.checks:
        if check.verdict != "pass":
            print(check.name, check.actual, check.message, file=sys.stderr)
    if result is None or report.verdict != "pass":
        return 1
    save_outputs(folder / "result", load_case(path), result)
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), sys.argv[2], sys.argv[3]))

"""What the recorded measurements have in common: on what they were made, and where they go."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from umma_probe.gpu.info import Driver, Nvrtc, probe_environment

if TYPE_CHECKING:
    from pathlib import Path


def circumstances(command: str) -> dict[str, Any]:
    """GPU, driver, compiler and date."""
    here = probe_environment()
    gpu = here.gpus[0]
    return {
        "schema_version": 1,
        "date": datetime.now(UTC).date().isoformat(),
        "gpu": {"name": gpu.name, "arch": gpu.arch},
        "driver": here.driver.version if isinstance(here.driver, Driver) else "",
        "nvrtc": ".".join(map(str, here.nvrtc.version)) if isinstance(here.nvrtc, Nvrtc) else "none",
        "assembler": "the driver's",
        "command": command,
    }


def save(path: Path, document: dict[str, Any]) -> None:
    path.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")

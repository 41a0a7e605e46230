"""One case of a sweep, and what its outcome depends on.

A case's identity is a digest over everything that its outcome depends on: the probe, its parameters, policy, seed and
time limit, the sources of the probes, the target, and the tool itself with its own sources. A stored result is used
again only under the same identity, so that an edit anywhere makes the case run again.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import umma_probe
from umma_probe.assets import asset_dir

if TYPE_CHECKING:
    from collections.abc import Iterable

    from umma_probe.record.expectations import Expectation


@dataclass(frozen=True)
class CaseSpec:
    """What is run: all that a worker is told. Plain data, so that it travels to another process."""

    probe: str
    params: dict[str, Any]
    """All of them, by key."""
    policy: str = "eager"
    seed: int = 0
    arch: str = ""
    force: bool = False
    timeout_s: float = 60.0

    def digest(self, target: dict[str, str]) -> str:
        """The identity on a target.

        :param target: see ``TargetPlan.key``.
        """
        parts = {
            "probe": self.probe,
            "params": self.params,
            "policy": self.policy,
            "seed": self.seed,
            "arch": self.arch,
            "force": self.force,
            "timeout_s": self.timeout_s,
            "source": probes_digest(),
            "target": target,
            "tool": tool_digest(),
        }
        return hashlib.sha256(json.dumps(parts, sort_keys=True, default=str).encode()).hexdigest()


@dataclass(frozen=True)
class Answer:
    """One way in which an open question may fall."""

    when: tuple[Expectation, ...]
    says: str


@dataclass(frozen=True)
class SweepCase:
    """A case with what is expected of it."""

    spec: CaseSpec
    label: str
    """The options that its entry gives, as text: ``m=64 n=128``, with policy and seed where they are not the usual."""
    group: str
    """Name of the entry that it is from."""
    expect: tuple[Expectation, ...]
    question: str = ""
    answers: tuple[Answer, ...] = field(default=())


@lru_cache(maxsize=1)
def probes_digest() -> str:
    """Of all kernels, headers and contracts: a suite may run another probe's kernel beside its own."""
    return _digest_of(path for path in asset_dir("probes").iterdir() if path.suffix in (".cu", ".cuh", ".yaml"))


@lru_cache(maxsize=1)
def tool_digest() -> str:
    """Version, and the package's own Python sources: in a checkout an edit to the model makes old results stale."""
    sources = Path(umma_probe.__file__).parent.rglob("*.py")
    return f"{umma_probe.__version__}+{_digest_of(sources)[:16]}"


def _digest_of(files: Iterable[Path]) -> str:
    hasher = hashlib.sha256()
    for path in sorted(files):
        data = path.read_bytes()
        hasher.update(f"{path.name} {len(data)}\n".encode())
        hasher.update(data)
    return hasher.hexdigest()

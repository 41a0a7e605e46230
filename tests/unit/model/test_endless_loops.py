"""A kernel that cannot end is a hang, never a pass."""

from __future__ import annotations

import pytest

from umma_probe.errors import Deadlock
from umma_probe.model.launch import LaunchConfig
from umma_probe.model.machine import Machine
from umma_probe.model.threads import scheduler

HEAD = ".version 8.8\n.target sm_100a\n.address_size 64\n.visible .entry k()\n{\n"


@pytest.mark.parametrize(
    "body",
    [
        "again: bra again;\n",
        ".reg .b32 r;\nmov.u32 r, 0;\nagain: add.u32 r, r, 1;\nbra again;\n",
        ".reg .pred p;\nsetp.eq.u32 p, 0, 0;\nagain: @p bra again;\nret;\n",
    ],
)
def test_a_loop_without_an_end_hangs(body: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scheduler, "IDLE_TURNS_BEFORE_HANG", 500)
    machine = Machine()
    module = machine.load(HEAD + body + "}\n")
    with pytest.raises(Deadlock, match="spins"):
        machine.launch(module, "k", LaunchConfig((1, 1, 1), (64, 1, 1)), [])

"""One call in a process of its own: what it returns, raises, prints, and what happens if it dies or never ends."""

from __future__ import annotations

import os
import time

import isolated_acts as acts
import numpy as np
import pytest

from umma_probe.errors import DeviceError, DeviceTimeout, InternalError
from umma_probe.harness.isolation import call_isolated


def test_arguments_and_result_travel_and_stdout_stays_clean(capfd: pytest.CaptureFixture[str]) -> None:
    values, timeout, process = call_isolated(acts.double, np.arange(3), timeout=7.5)
    assert (values.tolist(), timeout) == ([0, 2, 4], 7.5)
    assert process != os.getpid()
    captured = capfd.readouterr()
    assert (captured.out, captured.err) == ("", "on stdout of the child\n")


def test_an_error_arrives_whole() -> None:
    with pytest.raises(DeviceError) as caught:
        call_isolated(acts.fault, timeout=5.0)
    assert caught.value.render().splitlines() == [
        "device fault: illegal address", "  at k.ptx:3", "  hint: look there", "  source: a document",
    ]  # fmt: skip


def test_a_bug_and_a_crash_are_ours() -> None:
    with pytest.raises(InternalError, match="ZeroDivisionError: by zero"):
        call_isolated(acts.bug, timeout=5.0)
    with pytest.raises(InternalError, match="died with SIGSEGV"):
        call_isolated(acts.die, timeout=5.0)


def test_what_never_ends_is_ended() -> None:
    start = time.monotonic()
    with pytest.raises(
        DeviceTimeout, match=r"not finished after 0\.2 s, and the watchdog in its process did not end it"
    ):
        call_isolated(acts.hang, timeout=0.2, grace_s=0.2)
    assert time.monotonic() - start < 30  # most of it is the start of a process


def test_each_launch_has_the_time_limit_for_itself() -> None:
    assert call_isolated(acts.three_launches, timeout=0.1, grace_s=0.5) == "done"

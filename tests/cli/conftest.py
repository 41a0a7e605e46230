"""The command line within the process of the tests."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from umma_probe.cli.main import run

Cli = Callable[..., tuple[int, str, str]]


@pytest.fixture
def cli(capsys: pytest.CaptureFixture[str]) -> Cli:
    """Run a command line: exit code, stdout, stderr."""

    def call(*arguments: object) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as leaving:
            run([*map(str, arguments)])
        captured = capsys.readouterr()
        return int(leaving.value.code or 0), captured.out, captured.err

    return call


@pytest.fixture
def cli_json(cli: Cli) -> Callable[..., tuple[int, Any]]:
    """Run a command line with ``--json``: exit code, and the one object that it prints."""

    def call(*arguments: object) -> tuple[int, Any]:
        code, out, _ = cli(*arguments, "--json")
        return code, json.loads(out)

    return call

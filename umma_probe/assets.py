"""Where ``probes/``, ``configs/`` and ``reports/findings/`` lie: the only path logic of the package.

In a wheel they are beside the package (``umma_probe/_assets``), in a checkout at its top.
"""

from __future__ import annotations

from pathlib import Path

from umma_probe.errors import ConfigError, unknown_name

_PACKAGE = Path(__file__).resolve().parent


def asset_dir(kind: str) -> Path:
    """The folder of ``kind`` ("probes", "configs", "reports", "reports/findings").

    :raises ConfigError: neither the wheel's copy nor a checkout's folder exists.
    """
    for candidate in (_PACKAGE / "_assets" / kind, _PACKAGE.parent / kind):
        if candidate.is_dir():
            return candidate
    raise ConfigError(f"{kind}: the folder is missing beside {_PACKAGE}", hint="reinstall umma-probe")


def asset_file(kind: str, name: str) -> Path:
    """One file of that folder.

    :raises ConfigError: no such file; the nearest names are given.
    """
    folder = asset_dir(kind)
    path = folder / name
    if not path.is_file():
        names = [entry.name for entry in folder.iterdir() if entry.is_file()]
        raise ConfigError(unknown_name(f"file in {kind}/", name, names))
    return path


def checkout_dir() -> Path | None:
    """The top of the checkout that this package runs from; None when it was installed from a wheel."""
    top = _PACKAGE.parent
    return top if (top / "pyproject.toml").is_file() else None

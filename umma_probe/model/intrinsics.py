"""Functions that the driver supplies to device code: ``vprintf`` and ``__assertfail``."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from umma_probe.errors import DeviceError, NotModelled, unknown_name
from umma_probe.registry import Registry

if TYPE_CHECKING:
    from collections.abc import Callable

    from umma_probe.model.decode import Executor
    from umma_probe.model.frame import Frame
    from umma_probe.model.variables import VariableLayout

Binder: TypeAlias = "Callable[[list[str], list[str], VariableLayout], Executor]"

INTRINSICS: Registry[Binder] = Registry("device function")


def intrinsic(name: str, results: list[str], arguments: list[str], layout: VariableLayout) -> Executor:
    """The executor of a call to a function that the module does not define.

    :raises NotModelled: unknown function.
    """
    binder = INTRINSICS.get(name)
    if binder is None:
        raise NotModelled(unknown_name("device function", name, INTRINSICS))
    return binder(results, arguments, layout)


def _assert_fail(results: list[str], arguments: list[str], layout: VariableLayout) -> Executor:
    def run(f: Frame) -> None:
        f.fault(DeviceError, "assertion failed in device code (__assertfail)")

    return run


INTRINSICS.add("__assertfail", _assert_fail)

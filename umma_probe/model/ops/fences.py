"""``fence`` and ``membar``.

The model's memory is sequentially consistent, so fences between threads order what is ordered already. What remains
is the fence between proxies: ``fence.proxy.async`` makes the CTA's generic-proxy writes to shared memory visible to
the tensor core and to TMA (PTX ISA, "Memory Consistency Model: Proxies"); an operand read without it is reported.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from umma_probe.model.code.decode import operation
from umma_probe.spec.sources import documented

if TYPE_CHECKING:
    from umma_probe.model.code.decode import Executor
    from umma_probe.model.code.operands import Operands
    from umma_probe.model.threads.frame import Frame

FENCE = documented("Parallel Synchronization and Communication Instructions: membar, fence")
SCOPES = ("cta", "cluster", "gpu", "sys")
RESTRICTIONS = ("sync_restrict::shared::cta", "sync_restrict::shared::cluster")


def _ordered_already(f: Frame) -> None:
    """Memory is sequentially consistent."""


@operation(
    "fence.{order?}.{restrict?}.{scope}",
    refs=(FENCE,),
    order=("sc", "acq_rel", "acquire", "release"),
    restrict=RESTRICTIONS,
    scope=SCOPES,
)
def fence(ops: Operands, order: str | None, restrict: str | None, scope: str) -> Executor:
    """``fence{.sem}.scope``."""
    ops.expect_count(0)
    return _ordered_already


@operation("fence.mbarrier_init.release.cluster", refs=(FENCE,))
def fence_mbarrier_init(ops: Operands) -> Executor:
    """``fence.mbarrier_init.release.cluster``."""
    ops.expect_count(0)
    return lambda f: f.launch.init_fences.fence_init(set(f.threads.tolist()))


@operation("membar.{level}", refs=(FENCE,), level=("cta", "gl", "sys"))
def membar(ops: Operands, level: str) -> Executor:
    """``membar.level``."""
    ops.expect_count(0)
    return _ordered_already


@operation("membar.proxy.{kind}", refs=(FENCE,), kind=("alias",))
@operation("fence.proxy.{kind}", refs=(FENCE,), kind=("alias",))
def fence_alias(ops: Operands, kind: str) -> Executor:
    """``fence.proxy.alias``: the model has one address for each byte and no caches."""
    ops.expect_count(0)
    return _ordered_already


@operation("fence.proxy.async.global", refs=(FENCE,))
def fence_async_global(ops: Operands) -> Executor:
    """``fence.proxy.async.global``: orders global memory alone."""
    ops.expect_count(0)
    return _ordered_already


@operation("fence.proxy.async.{space?}", refs=(FENCE,), space=("shared::cta", "shared::cluster"))
@operation("membar.proxy.async.{space?}", refs=(FENCE,), space=("shared::cta", "shared::cluster"))
def fence_async(ops: Operands, space: str | None) -> Executor:
    """``fence.proxy.async{.shared::{cta,cluster}}``."""
    ops.expect_count(0)
    return _fence_shared


@operation(
    "fence.proxy.async::generic.{order}.{restrict}.{scope}",
    refs=(FENCE,),
    order=("acquire", "release"),
    restrict=RESTRICTIONS,
    scope=("cluster",),
)
def fence_async_generic(ops: Operands, order: str, restrict: str, scope: str) -> Executor:
    """``fence.proxy.async::generic.{acquire,release}.sync_restrict::....cluster``."""
    ops.expect_count(0)
    return _fence_shared


def _fence_shared(f: Frame) -> None:
    launch = f.launch
    slots = set(f.cta_slots.tolist())
    launch.shared.fence(slots, launch.tick())
    for slot in slots:
        launch.init_fences.fence_proxy(slot)


@operation("fence.proxy.tensormap::generic.release.{scope}", refs=(FENCE,), scope=SCOPES)
def fence_tensormap_release(ops: Operands, scope: str) -> Executor:
    """``fence.proxy.tensormap::generic.release.scope``."""
    ops.expect_count(0)
    return _ordered_already


@operation("fence.proxy.tensormap::generic.acquire.{scope}", refs=(FENCE,), scope=SCOPES)
def fence_tensormap_acquire(ops: Operands, scope: str) -> Executor:
    """``fence.proxy.tensormap::generic.acquire.scope [addr], 128``."""
    ops.expect_count(2)
    address = ops.address(0)

    def run(f: Frame) -> None:
        for slot, target in zip(f.cta_slots.tolist(), address.resolve(f).tolist(), strict=True):
            f.launch.tensor_maps.acquire(slot, target)

    return run

"""Operations in flight: dependencies, policies, replay."""

from __future__ import annotations

import pytest

from umma_probe.errors import ConfigError
from umma_probe.model.async_engine import AsyncEngine, AsyncOp, Policy


class Log:
    """An engine that writes down what takes effect."""

    def __init__(self, policy: str) -> None:
        self.names: list[str] = []
        self.engine = AsyncEngine(Policy.parse(policy), lambda op: op.effect())

    def submit(self, name: str, kind: str, *after: AsyncOp, cta: int = 0, thread: int = 0) -> AsyncOp:
        return self.engine.submit(AsyncOp(kind, 0, cta, thread, lambda: self.names.append(name), after=after))


def test_eager_happens_at_issue():
    log = Log("eager")
    log.submit("a", "mma")
    log.submit("b", "st")
    assert log.names == ["a", "b"]
    assert len(log.engine) == 0


def test_lazy_waits_and_brings_what_it_depends_on():
    log = Log("lazy")
    a = log.submit("a", "mma")
    log.submit("b", "st")
    c = log.submit("c", "mma", a)
    d = log.submit("d", "commit", a, c)
    assert log.names == []
    assert log.engine.in_flight == {"mma": 2, "st": 1, "commit": 1}
    log.engine.require([d])
    assert log.names == ["a", "c", "d"]
    log.engine.require([d, a])
    assert log.names == ["a", "c", "d"]
    assert [op.kind for op in log.engine.pending()] == ["st"]


def test_lazy_completes_signals_before_what_nobody_asked_for():
    log = Log("lazy")
    log.submit("st", "st")
    mma = log.submit("mma", "mma")
    log.submit("commit", "commit", mma)
    log.submit("bulk", "bulk")
    while log.engine.complete_one():
        pass
    assert log.names == ["mma", "commit", "bulk", "st"]
    assert not log.engine.complete_one()


def test_random_is_replayable_and_keeps_dependencies():
    def order(seed: int) -> tuple[str, ...]:
        log = Log(f"random:{seed}")
        previous: tuple[AsyncOp, ...] = ()
        for i in range(6):
            previous = (log.submit(f"a{i}", "mma", *previous),)
            log.submit(f"b{i}", "st")
            log.engine.tick()
        while log.engine.complete_one():
            pass
        return tuple(log.names)

    orders = {order(seed) for seed in range(20)}
    assert len(orders) > 10
    assert order(3) == order(3)
    for names in orders:
        assert sorted(names) == sorted([f"{x}{i}" for x in "ab" for i in range(6)])
        assert [name for name in names if name[0] == "a"] == [f"a{i}" for i in range(6)]


def test_pending_by_kind_and_cta():
    log = Log("lazy")
    log.submit("a", "ld", cta=0, thread=40)
    log.submit("b", "ld", cta=1)
    log.submit("c", "st", cta=0)
    assert [op.warp for op in log.engine.pending(frozenset({"ld"}), cta=0)] == [1]
    assert len(log.engine.pending(frozenset({"ld"}))) == 2


def test_callbacks_run_after_the_effect():
    log = Log("lazy")
    op = log.submit("a", "bulk")
    op.on_done.append(lambda: log.names.append("done"))
    log.engine.require([op])
    assert log.names == ["a", "done"]
    assert op.done


@pytest.mark.parametrize("text", ["", "later", "random:x", "random:-1", "eager:1"])
def test_unknown_policies(text: str):
    with pytest.raises(ConfigError, match="must be eager, lazy or random:SEED"):
        Policy.parse(text)


def test_policies_by_name():
    assert [str(Policy.parse(t)) for t in ("eager", "lazy", "random", "random:7")] == [
        "eager",
        "lazy",
        "random:0",
        "random:7",
    ]

"""The engine of operations in flight: order, dependences, policies."""

from __future__ import annotations

import pytest

from umma_probe.errors import ConfigError
from umma_probe.model.asynchrony.async_engine import AsyncEngine, AsyncOp, Policy


def engine_of(policy: str) -> tuple[AsyncEngine, list[str]]:
    done: list[str] = []

    def run(op: AsyncOp) -> None:
        op.effect()

    return AsyncEngine(Policy.parse(policy), run), done


def op(name: str, done: list[str], *after: AsyncOp, cta: int = 0) -> AsyncOp:
    return AsyncOp(name, 0, cta, 0, lambda: done.append(name), after=after)


def test_eager_takes_effect_at_once():
    engine, done = engine_of("eager")
    first = engine.submit(op("a", done))
    assert (done, first.done, len(engine)) == (["a"], True, 0)


def test_lazy_waits_until_it_is_asked():
    engine, done = engine_of("lazy")
    a = engine.submit(op("a", done))
    b = engine.submit(op("b", done, a))
    engine.submit(op("c", done))
    assert done == []
    assert engine.in_flight["a"] == 1
    engine.require((b,))
    assert done == ["a", "b"]
    assert [pending.kind for pending in engine.pending()] == ["c"]
    assert engine.complete_one()
    assert not engine.complete_one()
    assert done == ["a", "b", "c"]


def test_dependences_come_first_through_many_levels():
    engine, done = engine_of("lazy")
    chain = [engine.submit(op("0", done))]
    for i in range(1, 5000):
        chain.append(engine.submit(op(str(i), done, chain[-1])))
    engine.require((chain[-1],))
    assert done == [str(i) for i in range(5000)]


def test_random_keeps_dependences_and_replays():
    orders = []
    for seed in (1, 1, 2, 3):
        engine, done = engine_of(f"random:{seed}")
        ops: list[AsyncOp] = []
        for i in range(40):
            ops.append(engine.submit(op(str(i), done, *([ops[i - 3]] if i >= 3 else []))))
            engine.tick()
        while engine.complete_one():
            pass
        orders.append(done)
        position = {name: at for at, name in enumerate(done)}
        assert all(position[str(i - 3)] < position[str(i)] for i in range(3, 40))
        assert sorted(done, key=int) == [str(i) for i in range(40)]
    assert orders[0] == orders[1]
    assert orders[0] != orders[2] != orders[3]
    assert orders[0] != [str(i) for i in range(40)]


def test_pending_by_kind_and_cta():
    engine, done = engine_of("lazy")
    for name, cta in (("mma", 0), ("ld", 0), ("mma", 1)):
        engine.submit(op(name, done, cta=cta))
    assert [(o.kind, o.cta) for o in engine.pending(frozenset({"mma"}))] == [("mma", 0), ("mma", 1)]
    assert [o.kind for o in engine.pending(cta=0)] == ["mma", "ld"]


def test_an_effect_may_submit_and_require_more():
    engine, done = engine_of("lazy")
    inner = op("inner", done)

    def effect() -> None:
        engine.submit(inner)
        engine.require((inner,))
        done.append("outer")

    engine.submit(AsyncOp("outer", 0, 0, 0, effect))
    engine.complete_one()
    assert done == ["inner", "outer"]


def test_callbacks_follow_the_effect():
    engine, done = engine_of("lazy")
    a = engine.submit(op("a", done))
    a.on_done.append(lambda: done.append("callback"))
    engine.require((a,))
    assert done == ["a", "callback"]


@pytest.mark.parametrize(
    ("text", "name", "seed"),
    [("eager", "eager", 0), ("lazy", "lazy", 0), ("random:7", "random", 7), ("random", "random", 0)],
)
def test_policy_names(text, name, seed):
    policy = Policy.parse(text)
    assert (policy.name, policy.seed) == (name, seed)
    assert str(policy) == (f"random:{seed}" if name == "random" else name)


@pytest.mark.parametrize("text", ["", "fast", "random:x", "random:", "random:-3", "random:²", "eager:1", "eager:"])
def test_wrong_policy_names(text):
    with pytest.raises(ConfigError, match=r"must be eager, lazy or random:SEED"):
        Policy.parse(text)

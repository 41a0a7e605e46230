"""Recursion and indirect calls: CUDA through NVRTC against the same functions in Python; what is no call is refused."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from kernels import ptx, run_cu, run_ptx

from umma_probe.errors import DeviceError, NotModelled, PtxSyntaxError

if TYPE_CHECKING:
    from collections.abc import Callable

POLICIES = ("eager", "random:3")
DEVICE = "__device__ __noinline__ int "
THREADS = 48


def run(functions: str, body: str, policy: str = "eager") -> list[int]:
    """``out[t] = body`` for every thread ``t``."""
    source = functions + 'extern "C" __global__ void k(int* out) { int t = threadIdx.x; out[t] = ' + body + "; }"
    return [int(word) for word in run_cu(source, np.zeros(THREADS, np.int32), block=THREADS, policy=policy).words]


def expect(function: Callable[[int], int]) -> list[int]:
    return [function(t) for t in range(THREADS)]


# ---------------------------------------------------------------------- recursion
def fib(n: int) -> int:
    return n if n < 2 else fib(n - 1) + fib(n - 2)


def ackermann(m: int, n: int) -> int:
    if m == 0:
        return n + 1
    return ackermann(m - 1, 1) if n == 0 else ackermann(m - 1, ackermann(m, n - 1))


@pytest.mark.parametrize("policy", POLICIES)
def test_two_calls_of_itself_keep_what_lies_between(policy: str) -> None:
    source = DEVICE + "fib(int n) { return n < 2 ? n : fib(n - 1) + fib(n - 2); }\n"
    assert run(source, "fib(t % 11)", policy) == expect(lambda t: fib(t % 11))


@pytest.mark.parametrize("policy", POLICIES)
def test_threads_of_a_warp_at_different_depths(policy: str) -> None:
    source = (
        DEVICE
        + """ack(int m, int n) {
        if (m == 0) return n + 1;
        return n == 0 ? ack(m - 1, 1) : ack(m - 1, ack(m, n - 1)); }\n"""
    )
    assert run(source, "ack(t % 3, t % 5)", policy) == expect(lambda t: ackermann(t % 3, t % 5))


def test_functions_that_call_each_other() -> None:
    source = "__device__ int odd(int n);" + DEVICE + "even(int n) { return n == 0 ? 1 : odd(n - 1) * 3; }\n"
    source += DEVICE + "odd(int n) { return n == 0 ? 7 : even(n - 1) + n; }\n"

    def even(n: int) -> int:
        return 1 if n == 0 else odd(n - 1) * 3

    def odd(n: int) -> int:
        return 7 if n == 0 else even(n - 1) + n

    assert run(source, "even(t % 9)") == expect(lambda t: even(t % 9))


def test_every_activation_has_its_own_array() -> None:
    """Each reads and changes the array of the one before through a pointer."""
    source = (
        DEVICE
        + """deep(int n, int* p) {
        int a[4];
        for (int i = 0; i < 4; i++) a[i] = n + i + (p ? p[i] : 0);
        if (n > 0) deep(n - 1, a);
        if (p) p[n & 3] += a[1];
        return a[0] + 100 * a[1] + 10000 * a[2]; }\n"""
    )

    def deep(n: int, p: list[int] | None) -> int:
        a = [n + i + (p[i] if p else 0) for i in range(4)]
        if n > 0:
            deep(n - 1, a)
        if p:
            p[n & 3] += a[1]
        return a[0] + 100 * a[1] + 10000 * a[2]

    assert run(source, "deep(t % 5, 0)") == expect(lambda t: deep(t % 5, None))


def test_a_warp_is_whole_again_behind_the_calls() -> None:
    source = DEVICE + "down(int n) { return n == 0 ? 0 : 1 + down(n - 1); }\n"
    body = "down(t % 7) + (int)__reduce_add_sync(0xffffffffu >> (t < 32 ? 0 : 16), down(t % 4))"
    sums = [sum(t % 4 for t in range(32)), sum(t % 4 for t in range(32, 48))]
    assert run(source, body) == expect(lambda t: t % 7 + sums[t // 32])


def test_lanes_that_end_within_a_call_are_not_waited_for() -> None:
    source = """__device__ __noinline__ void leave(unsigned t) { if (t % 3 == 0) asm volatile("exit;"); }
    extern "C" __global__ void k(unsigned* out) {
        unsigned t = threadIdx.x;
        if (t < 16) { leave(t); out[32 + t] = 5; }
        out[t] = __activemask(); }"""
    out = run_cu(source, np.zeros(64, np.uint32))
    alive = sum(1 << t for t in range(32) if t >= 16 or t % 3)
    assert out.words[:32].tolist() == [alive if t >= 16 or t % 3 else 0 for t in range(32)]
    assert not out.launch.reviews


def test_recursion_without_end_is_a_fault_with_its_place() -> None:
    source = DEVICE + "down(int n) { return n + down(n + 1) * 2; }\n"
    with pytest.raises(DeviceError, match="call of _Z4downi: the stack of a thread is full") as caught:
        run(source, "down(t)")
    assert caught.value.where is not None
    assert "call" in caught.value.where.source_line


# ---------------------------------------------------------------------- indirect calls
OPERATORS = "".join(
    f"{DEVICE}{name}(int a, int b) {{ return a {operator} b; }}\n"
    for name, operator in (("add", "+"), ("mul", "*"), ("sub", "-"))
)


@pytest.mark.parametrize("policy", POLICIES)
def test_a_table_of_functions(policy: str) -> None:
    source = OPERATORS + "typedef int (*F)(int, int);\n__device__ F table[3] = {add, mul, sub};\n"
    assert run(source, "table[(t * 7) % 3](t, 5)", policy) == expect(lambda t: [t + 5, t * 5, t - 5][t * 7 % 3])


def test_the_same_function_for_all_and_a_guard() -> None:
    source = OPERATORS + "typedef int (*F)(int, int);\n__device__ F table[3] = {add, mul, sub};\n"
    assert run(source, "t < 20 ? table[blockIdx.x + 1](t, 3) : -1") == expect(lambda t: t * 3 if t < 20 else -1)


def test_virtual_functions() -> None:
    source = """
    struct A { int x; __device__ A(int x) : x(x) {} __device__ virtual int f(int y) { return x + y; } };
    struct B : A { __device__ B(int x) : A(x) {} __device__ int f(int y) override { return x * y; } };
    __device__ __noinline__ int call(A* p, int y) { return p->f(y) + 1; }
    __device__ int both(int t) { A a(t); B b(t + 1); A* p = (t & 1) ? &a : (A*)&b; return call(p, 10); }
    """
    assert run(source, "both(t)") == expect(lambda t: (t + 10 if t & 1 else (t + 1) * 10) + 1)


def test_functions_that_recur_through_a_pointer() -> None:
    source = """
    typedef int (*F)(int);
    extern __device__ F step[2];
    __device__ __noinline__ int half(int n) { return n < 2 ? n : step[n & 1](n / 2) + 1; }
    __device__ __noinline__ int less(int n) { return n < 2 ? n : step[n & 1](n - 1) * 2; }
    __device__ F step[2] = {half, less};
    """

    def half(n: int) -> int:
        return n if n < 2 else (less if n & 1 else half)(n // 2) + 1

    def less(n: int) -> int:
        return n if n < 2 else (less if n & 1 else half)(n - 1) * 2

    assert run(source, "step[t & 1](t)") == expect(lambda t: (less if t & 1 else half)(t))


FUNCTIONS = """
.func (.param .b32 r) one(.param .b32 p)
{ .reg .b32 a; ld.param.b32 a, [p]; add.s32 a, a, 1; st.param.b32 [r], a; ret; }
.func (.param .b32 r) two(.param .b32 p)
{ .reg .b32 a; ld.param.b32 a, [p]; add.s32 a, a, 2; st.param.b32 [r], a; ret; }
.func other(.param .b64 p) { ret; }
"""
CALL = """{{ .param .b32 p; .param .b32 r; st.param.b32 [p], %tid; {what} ld.param.b32 %x, [r]; }}
st.global.u32 [%mine], %x;"""
CHOICE = "mov.b64 %f0, one; mov.b64 %f1, two; setp.lt.u32 %q, %tid, 9; selp.b64 %f2, %f0, %f1, %q;"
REGISTERS = ".reg .pred %q; .reg .b64 %f<4>; .reg .b32 %x;"


def indirect(what: str, choice: str = CHOICE) -> list[int]:
    text = ptx(choice + CALL.format(what=what), REGISTERS, FUNCTIONS)
    return [int(word) for word in run_ptx(text, np.zeros(32, np.uint32)).words]


@pytest.mark.parametrize(
    "declared", ["P: .callprototype (.param .b32 _) _ (.param .b32 _);", "P: .calltargets one, two;"]
)
def test_prototypes_and_lists_of_targets(declared: str) -> None:
    assert indirect(declared + " call (r), %f2, (p), P;") == [t + (1 if t < 9 else 2) for t in range(32)]


@pytest.mark.parametrize(
    ("what", "choice", "error", "says"),
    [
        ("P: .callprototype (.param .b32 _) _ (.param .b32 _); call (r), %f2, (p), P;", "mov.b64 %f2, other;",
         DeviceError, "no function with this prototype"),
        ("P: .callprototype (.param .b32 _) _ (.param .b32 _); call (r), %f2, (p), P;", "mov.b64 %f2, 64;",
         DeviceError, "the address is 0x40"),
        ("P: .calltargets one; call (r), %f2, (p), P;", CHOICE, DeviceError, "functions with it: one"),
        ("call (r), %f2, (p);", CHOICE, PtxSyntaxError, "without .callprototype or .calltargets"),
        ("call (r), unknown, (p);", CHOICE, PtxSyntaxError, "unknown"),
    ],
)  # fmt: skip
def test_what_is_no_call(what: str, choice: str, error: type[Exception], says: str) -> None:
    with pytest.raises(error, match=says) as caught:
        indirect(what, choice)
    assert caught.value.where is not None  # type: ignore[attr-defined]
    assert caught.value.where.line > 0  # type: ignore[attr-defined]


def test_a_function_of_the_driver_that_the_model_lacks() -> None:
    text = ptx("call cudaSomething, ();", "", ".extern .func cudaSomething ();")
    with pytest.raises(NotModelled, match="cudaSomething") as caught:
        run_ptx(text, np.zeros(32, np.uint32))
    assert caught.value.where is not None
    assert caught.value.where.line > 0

"""What a command costs before it does anything: ``python benchmarks/bench_startup.py``.

Processor time of whole processes, the best of a few: on a busy machine wall time says more about the others. The help
must cost no more than LIMIT times an import of click, which it cannot do without; a line says whether it does. The main
command is run with an empty compilation cache (cold) and again (warm). Last, the packages and modules that its imports
spend most on: processor time again, which ``python -X importtime`` does not give.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
import time

LIMIT = 2.5
ROUNDS = 5
SHOWN = 15
MAIN = ("run", "tmem-layout", "--m", "128", "--n", "64", "--target", "model")
CLICK = ("-c", "import click")
VERB = ("-m", "umma_probe")

# runs in the process that is looked at: times what each import executes, without what that imports in turn
PROFILE = """
import sys, time
import _frozen_importlib
load, inner, spent = _frozen_importlib._load_unlocked, [0.0], {}
def timed(spec):
    inner.append(0.0)
    start = time.process_time()
    try:
        return load(spec)
    finally:
        took = time.process_time() - start
        spent[spec.name] = took - inner.pop()
        inner[-1] += took
_frozen_importlib._load_unlocked = timed
from umma_probe.cli.main import run
try:
    run(sys.argv[1:])
finally:
    for name, seconds in spent.items():
        print(name, seconds, file=sys.stderr)
"""


def cost(*arguments: str, cache: str) -> tuple[float, float]:
    """(processor, wall) seconds of one Python process and its children."""
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run([sys.executable, *arguments], env=environment(cache), stdout=subprocess.DEVNULL, check=True)
    after, wall = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter() - start
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, wall


def best(*arguments: str, cache: str) -> tuple[float, float]:
    return min(cost(*arguments, cache=cache) for _ in range(ROUNDS))


def environment(cache: str) -> dict[str, str]:
    return {**os.environ, "UMMA_PROBE_CACHE": cache}


def import_profile(cache: str) -> dict[str, float]:
    command = [sys.executable, "-c", PROFILE, *MAIN]
    run = subprocess.run(command, env=environment(cache), capture_output=True, text=True, check=True)
    lines = [line.split() for line in run.stderr.splitlines()]
    return {line[0]: float(line[1]) for line in lines if len(line) == 2 and line[1][:1].isdigit()}


def main() -> None:
    with tempfile.TemporaryDirectory() as cache:
        click, help_ = best(*CLICK, cache=cache), best(*VERB, "--help", cache=cache)
        ratio = help_[0] / click[0]
        numpy = best("-c", "import numpy", cache=cache)
        runs = {"cold": cost(*VERB, *MAIN, cache=cache), "warm": best(*VERB, *MAIN, cache=cache)}
        spent = import_profile(cache)

    print(f"{'process':36}{'cpu ms':>9}{'wall ms':>9}{'x click':>9}")
    lines = {"import click": click, "--help": help_, "import numpy": numpy}
    for label, (cpu, wall) in {**lines, **{f"{' '.join(MAIN[:2])}, {how}": run for how, run in runs.items()}}.items():
        print(f"{label:36}{cpu * 1e3:9.0f}{wall * 1e3:9.0f}{cpu / click[0]:9.2f}")
    print(f"--help is {'within' if ratio <= LIMIT else 'OVER'} {LIMIT} times click")
    if sys.dont_write_bytecode:
        print("bytecode is not kept here (PYTHONDONTWRITEBYTECODE): every run compiles umma_probe again")

    packages: dict[str, float] = {}
    for module, seconds in spent.items():
        packages[module.split(".")[0]] = packages.get(module.split(".")[0], 0.0) + seconds
    total = sum(spent.values())
    print(f"\n{len(spent)} modules, {total * 1e3:.0f} ms of imports: {total / runs['warm'][0]:.0%} of the warm command")
    for title, table in (("package", packages), ("module", spent)):
        print(f"{title:52}{'cpu ms':>9}{'share':>8}")
        for name, seconds in sorted(table.items(), key=lambda item: -item[1])[:SHOWN]:
            print(f"{name:52}{seconds * 1e3:9.1f}{seconds / total:8.1%}")


if __name__ == "__main__":
    main()

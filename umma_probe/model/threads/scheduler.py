"""Runs strands: how a cohort executes, branches and parts, and what happens when none can go on.

A turn ends at a backward branch, when it blocks, or when its strands part; the strand with the fewest turns goes first
(``ReadyStrands``). So loops are fair (a spinning warp cannot starve the one it waits for) and warps that run the same
code fall into step.

Reconvergence is at the immediate post-dominator. That is where ptxas puts it, and ``.sync.aligned`` instructions
after a divergent branch depend on it. Parts of a warp still run independently before they join.

When no strand is ready, or all that are ready spin: complete an operation in flight; else let time-limited waits
answer false; else let lanes that wait to reconverge go on without those that spin; else it is a deadlock, and the
error names for every strand what it waits for.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import numpy as np

from umma_probe.errors import DeviceError, UmmaProbeError, UndefinedBehavior
from umma_probe.model.asynchrony.waits import Resume, Wait
from umma_probe.model.code.decode import Control, InStep
from umma_probe.model.threads.call_frames import CallFrames
from umma_probe.model.threads.deadlock import deadlock
from umma_probe.model.threads.frame import Frame
from umma_probe.model.threads.ready import ReadyStrands
from umma_probe.model.threads.spin_watch import SpinWatch
from umma_probe.model.threads.strands import Strand, Token, mask_of

if TYPE_CHECKING:
    from umma_probe.errors import Deadlock
    from umma_probe.model.code.program import CallTarget, Run, Step
    from umma_probe.model.launch import Launch
    from umma_probe.model.numbers.values import Array
    from umma_probe.model.threads.strands import Cohort

IDLE_TURNS_BEFORE_HANG = 1_000_000
"""Turns without progress after which a loop is a hang although its registers change (it reads the clock, say)."""
TIMEOUT_ROUNDS = 4
"""How often time-limited waits are let through without any progress before it is a deadlock."""


class Scheduler:
    """All strands of a launch."""

    def __init__(self, launch: Launch) -> None:
        self.launch = launch
        self.program = launch.program
        self.frame = Frame(launch, launch.regs, slice(0, 0))
        self.parked: dict[Strand, Wait] = {}
        self._ready = ReadyStrands(random.Random(launch.engine.policy.seed) if launch.engine.random else None)
        self._place = self._ready.place
        self._turn_floor = 0
        self._watch = SpinWatch(launch)
        self._frames = CallFrames(launch)
        self._rounds = 0
        self._round_progress = launch.progress
        self._suspected: Deadlock | None = None
        """What a hang looked like before lanes were let go; None once the waiting has ended."""

    @property
    def idle_turns(self) -> int:
        """Turns since something was stored, signalled or completed."""
        return self._watch.idle_turns

    # ------------------------------------------------------------------ ready strands
    def add(self, strand: Strand) -> None:
        """A new strand enters."""
        strand.turn = max(strand.turn, self._turn_floor)
        self._place(strand)

    def wake(self, strand: Strand, expected: Wait | None = None) -> None:
        """What the strand waited for has happened.

        :param expected: wake it only from this wait; a strand whose wait timed out may wait for something else by now.
        """
        wait = self.parked.get(strand)
        if wait is None or (expected is not None and wait is not expected):
            return
        del self.parked[strand]
        if not strand.timed_out:
            self._suspected = None
        if wait.resume is Resume.NEXT:
            strand.pc += 1
        self._place(strand)

    def park(self, strand: Strand, wait: Wait) -> None:
        """Suspend a strand."""
        self.parked[strand] = wait

    # ------------------------------------------------------------------ main loop
    def run(self) -> None:
        """Until every thread has exited.

        :raises Deadlock: nobody can go on, or nobody makes progress.
        """
        try:
            while self._ready or self.parked or self._ready.joining or len(self.launch.engine):
                self._step()
        except UmmaProbeError as error:
            # lanes let go although others waited may do what they should not: the hang came first
            if self._suspected is not None:
                raise self._suspected from error
            raise

    def _step(self) -> None:
        engine, watch = self.launch.engine, self._watch
        engine.tick()
        if not self._ready:
            # with every thread gone, the tick may have completed the last operation in flight
            if self.parked or self._ready.joining or len(engine):
                self._unblock(spinning=False)
            return
        self._turn(self._ready.choose())
        if watch.idle() and not engine.complete_one():
            if watch.all_spin(self._ready):
                self._unblock(spinning=True)
            elif watch.idle_turns > IDLE_TURNS_BEFORE_HANG:
                raise self._deadlock(spinning=True)

    def _unblock(self, *, spinning: bool) -> None:
        """Nobody can go on: let something happen that may happen now.

        :raises Deadlock: there is nothing left.
        """
        launch = self.launch
        if launch.engine.complete_one():
            return
        self._rounds = self._rounds + 1 if launch.progress == self._round_progress else 1
        self._round_progress = launch.progress
        self._watch.forget()
        timed = [strand for strand, wait in self.parked.items() if wait.has_time_limit]
        if timed and self._rounds <= TIMEOUT_ROUNDS:
            self._time_out(timed)
        elif self._ready.joining and (timed or spinning):
            if timed and self._suspected is None:
                self._suspected = self._deadlock(spinning)
            self._release_join()
        else:
            raise self._deadlock(spinning)

    def _release_join(self) -> None:
        """Lanes that wait to reconverge go on without those that wait for something else, as independent thread
        scheduling guarantees (CUDA C++ Programming Guide, "Independent Thread Scheduling"). An H200 does it, whatever
        the others wait for: a word of memory, an atomic, a barrier (``reports/silicon-h200/reconvergence.json``).
        """
        released, others = self._ready.part_join()
        self._rounds = 0
        self.launch.pc = released.pc
        self.launch.review(
            "split-join",
            f"lanes {released.lanes:#010x} go on without lanes {others:#010x}, which spin",
            int(released.threads[0]),
        )
        self._place(released)

    def _time_out(self, strands: list[Strand]) -> None:
        """Let time-limited waits answer false."""
        for strand in strands:
            strand.timed_out = True
            self.wake(strand)

    # ------------------------------------------------------------------ one turn
    def _turn(self, cohort: Cohort) -> None:
        frame = self.frame
        self._turn_floor = min(s.turn for s in cohort.strands)
        pc = cohort.pc
        joins = any(s.stack for s in cohort.strands)
        while True:
            frame.select(cohort.sel)
            run = self.program.run_at(pc)
            self._execute(run)
            step = run.terminator
            if step is None:
                following: int | None = run.stop
            elif step.control is Control.SYNC:
                self._sync(cohort, step)
                return
            else:
                following = self._branch(cohort, step)
            if following is None:
                return
            backward = step is not None and following <= step.pc
            if backward or joins or following in self._ready.by_pc:
                for strand in cohort.strands:
                    strand.pc = following
                    strand.turn += backward
                    self._place(strand)
                return
            pc = following

    def _execute(self, run: Run) -> None:
        launch, frame = self.launch, self.frame
        pc = run.start
        try:
            for execute in run.body:
                launch.pc = pc
                execute(frame)
                pc += 1
        except UmmaProbeError as error:
            raise self._located(error, pc) from error.__cause__

    def _located(self, error: UmmaProbeError, pc: int) -> UmmaProbeError:
        if error.where is None or not error.where.line:
            actor = error.where.actor if error.where else self.launch.thread_name(int(self.frame.threads[0]))
            error.where = self.program.where(pc, actor)
        return error

    # ------------------------------------------------------------------ sync instructions
    def _sync(self, cohort: Cohort, step: Step) -> None:
        frame = self.frame
        self.launch.pc = step.pc
        try:
            if self._in_step(cohort, step):
                return
            for strand in cohort.strands:
                strand.pc = step.pc
                frame.select(strand.sel)
                if step.guard is not None and not self._guard_holds(strand, step):
                    continue
                wait = step.execute(frame, strand)  # type: ignore[call-arg]
                strand.timed_out = False
                if wait is not None:
                    self.park(strand, wait)
                else:
                    strand.pc = step.pc + 1
                    self._place(strand)
        except UmmaProbeError as error:
            raise self._located(error, step.pc) from error.__cause__

    def _in_step(self, cohort: Cohort, step: Step) -> bool:
        """Whether the strands did it all at once; they are placed behind it then."""
        execute, strands = step.execute, cohort.strands
        if not isinstance(execute, InStep) or step.guard is not None or len(strands) == 1:
            return False
        if not execute.together(self.frame, strands):
            return False
        self._suspected = None
        for strand in strands:
            strand.timed_out = False
            strand.pc = step.pc + 1
            self._place(strand)
        return True

    def _guard_holds(self, strand: Strand, step: Step) -> bool:
        """Whether the strand executes the guarded instruction now; otherwise it is placed behind it, or split."""
        taken = self._guard(step)
        if taken.all():
            return True
        if not taken.any():
            strand.pc = step.pc + 1
            self._place(strand)
        else:
            self._split(strand, taken, step.pc, step.pc + 1, step.pc + 1)
        return False

    def _guard(self, step: Step) -> Array:
        assert step.guard is not None
        slot, negated = step.guard
        taken = self.frame.regs[slot][self.frame.sel]
        return ~taken if negated else taken

    # ------------------------------------------------------------------ control
    def _branch(self, cohort: Cohort, step: Step) -> int | None:
        """The next program counter if all strands go there together; None if they were placed one by one."""
        opcode = step.instruction.opcode
        self.launch.pc = step.pc
        if opcode == "brx":
            self._indexed_branch(cohort, step)
            return None
        if step.guard is not None:
            taken = self._guard(step)
            if not taken.any():
                return step.pc + 1
            if not taken.all():
                self._diverge(cohort, step, taken)
                return None
        # a function's last ret targets itself: it is where its returns meet
        if opcode == "bra" or (opcode == "ret" and step.targets and step.targets[0] != step.pc):
            return step.targets[0]
        if opcode == "call":
            return self._call(cohort, step)
        if opcode == "ret" and cohort.strands[0].calls:
            return self._return(cohort)
        for strand in cohort.strands:
            self._exit(strand)
        return None

    def _diverge(self, cohort: Cohort, step: Step, taken: Array) -> None:
        leaves = not step.targets
        target = -1 if leaves else step.targets[0]
        join = self.program.reconvergence[step.pc]
        if step.instruction.opcode == "call":
            # the taken part executes the call as its own strand, unguarded for it
            target, join = step.pc, step.pc + 1
        offset = 0
        for strand in cohort.strands:
            strand.pc = step.pc
            part = taken[offset : offset + len(strand.threads)]
            offset += len(part)
            if part.all() or not part.any():
                self._go(strand, target if part[0] else step.pc + 1)
            elif leaves:
                self._exit(Strand(strand.warp, mask_of(strand.threads[part] & 31), step.pc, strand.stack))
                strand.set_lanes(mask_of(strand.threads[~part] & 31))
                self._go(strand, step.pc + 1)
            else:
                self._split(strand, part, target, step.pc + 1, join)

    def _go(self, strand: Strand, pc: int) -> None:
        if pc < 0:
            self._exit(strand)
            return
        strand.turn += pc <= strand.pc
        strand.pc = pc
        self._place(strand)

    def _split(self, strand: Strand, taken: Array, target: int, other: int, join: int | None) -> None:
        """Part a strand; both parts meet again at ``join``."""
        part = _part_off(strand, taken, target, join)
        strand.pc = other
        self._place(strand)
        self._place(part)

    def _indexed_branch(self, cohort: Cohort, step: Step) -> None:
        index = self.frame.regs[step.selector][self.frame.sel]
        if (index >= len(step.targets)).any():
            raise self._located(
                UndefinedBehavior(
                    f"brx.idx: index {int(index.max())} is outside the list of {len(step.targets)} targets"
                ),
                step.pc,
            )
        join = self.program.reconvergence[step.pc]
        offset = 0
        for strand in cohort.strands:
            strand.pc = step.pc
            part = index[offset : offset + len(strand.threads)]
            offset += len(part)
            for value in np.unique(part)[:-1]:
                chosen = part == value
                # the remaining lanes stay in ``strand`` at the branch, then split again
                self._place(_part_off(strand, chosen, step.targets[int(value)], join))
                part = part[~chosen]
            self._go(strand, step.targets[int(part[0])])

    def _call(self, cohort: Cohort, step: Step) -> int | None:
        if step.selector < 0:
            (target,) = step.callees.values()
            return self._enter_function(cohort.strands, step, target)
        for strand in cohort.strands:
            strand.pc = step.pc
            self._call_through(strand, step)
        return None

    def _enter_function(self, strands: list[Strand], step: Step, target: CallTarget) -> int:
        """The running threads, those of ``strands``, call; where they go on."""
        calls = strands[0].calls
        try:
            record = self._frames.enter(self.frame, calls, target, step.pc + 1)
        except UmmaProbeError as error:
            raise self._located(error, step.pc) from error.__cause__
        for strand in strands:
            strand.calls = (*calls, record)
        return target.pc

    def _call_through(self, strand: Strand, step: Step) -> None:
        """An indirect call: lanes with different functions part, and meet again behind it."""
        self.frame.select(strand.sel)
        addresses = self.frame.regs[step.selector][strand.sel].astype(np.int64)
        parts = np.unique(addresses).tolist()
        for address in parts:
            if address not in step.callees:
                names = ", ".join(target.function for target in step.callees.values()) or "none in this module"
                raise self._located(
                    DeviceError(
                        f"{step.instruction.text}: the address is {address:#x}, no function with this prototype",
                        hint=f"functions with it: {names}",
                    ),
                    step.pc,
                )
        stack = strand.stack if len(parts) == 1 else _joining_at(strand, step.pc + 1)
        for address in parts:
            lanes = mask_of(strand.threads[addresses == address] & 31)
            part = Strand(strand.warp, lanes, step.pc, stack, strand.calls, strand.turn)
            self.frame.select(part.sel)
            part.pc = self._enter_function([part], step, step.callees[address])
            self._place(part)

    def _return(self, cohort: Cohort) -> int:
        calls = cohort.strands[0].calls
        self._frames.leave(self.frame, calls)
        for strand in cohort.strands:
            strand.calls = calls[:-1]
        return calls[-1].return_pc

    def _exit(self, strand: Strand) -> None:
        self._ready.without(strand)
        self.launch.exit_lanes(strand.warp, strand.lanes)

    def _deadlock(self, spinning: bool = False) -> Deadlock:
        ready = self._ready
        return deadlock(self.launch, self.parked, ready.joining, ready, spinning=spinning)


def _part_off(strand: Strand, taken: Array, target: int, join: int | None) -> Strand:
    """The lanes ``taken`` as a strand at ``target``; they and the rest (``strand``) meet again at ``join``."""
    stack = _joining_at(strand, join)
    lanes = mask_of(strand.threads[taken] & 31)
    part = Strand(strand.warp, lanes, target, stack, strand.calls, strand.turn + (target <= strand.pc))
    strand.stack = stack
    strand.set_lanes(strand.lanes & ~lanes)
    return part


def _joining_at(strand: Strand, join: int | None) -> tuple[Token, ...]:
    """The tokens of the parts of a strand that meet again at ``join``."""
    stack, depth = strand.stack, len(strand.calls)
    if join is None or (stack and stack[-1].pc == join and stack[-1].depth == depth):
        return stack
    return (*stack, Token(join, strand.lanes, stack, depth))

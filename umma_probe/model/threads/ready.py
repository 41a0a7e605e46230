"""Strands that can go on, in the order in which they do, and lanes that wait where others of their warp join them.

Order. The strand with the fewest turns goes first, among equals the one with the lowest program counter; with it go
the strands of other warps at the same place. Under ``random:SEED`` the place is drawn, and cohorts are split by chance.

A strand that reaches the program counter of its innermost token waits there until all lanes of the token that still
live have arrived, or until those that have are let go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from umma_probe.model.threads.strands import FULL_WARP, Cohort, Strand

if TYPE_CHECKING:
    import random
    from collections.abc import Iterator

    from umma_probe.model.threads.strands import Token


class ReadyStrands:
    """What the scheduler chooses from.

    :param draw: of the ``random`` policy; None for the fixed order.
    """

    def __init__(self, draw: random.Random | None) -> None:
        self.by_pc: dict[int, list[Strand]] = {}
        self.joining: dict[Token, Strand] = {}
        """Tokens at which lanes wait for others, with the strand that came last."""
        self._draw = draw

    def __bool__(self) -> bool:
        return bool(self.by_pc)

    def __iter__(self) -> Iterator[Strand]:
        for strands in self.by_pc.values():
            yield from strands

    def place(self, strand: Strand) -> None:
        """Put a strand at its program counter, joining it with others where a token says so."""
        joined: Strand | None = strand
        if strand.stack:
            joined = self._arrive(strand)
        if joined is not None:
            self._enter(self.by_pc.setdefault(joined.pc, []), joined)

    def _enter(self, ready: list[Strand], strand: Strand) -> None:
        """Make a strand ready. Parts of a warp that meet by chance go on together: a branch whose paths part for good
        (one returns, say) has no post-dominator, yet what follows may want the whole warp.
        """
        if strand.lanes != FULL_WARP and not strand.timed_out:
            for other in ready:
                if other.warp == strand.warp and other.stack == strand.stack and other.calls == strand.calls:
                    other.set_lanes(other.lanes | strand.lanes)
                    other.turn = max(other.turn, strand.turn)
                    return
        ready.append(strand)

    def _arrive(self, strand: Strand) -> Strand | None:
        while strand.stack and strand.stack[-1].pc == strand.pc and strand.stack[-1].depth == len(strand.calls):
            token = strand.stack[-1]
            token.arrived |= strand.lanes
            if token.arrived != token.pending:
                self.joining[token] = strand
                return None
            self.joining.pop(token, None)
            if strand.lanes != token.pending:
                strand.set_lanes(token.pending)
            strand.stack = token.outer
        return strand

    def part_join(self) -> tuple[Strand, int]:
        """Let the lanes go that have waited longest to join others, and return them with the mask of the others, which
        will meet without them.
        """
        token, strand = next(iter(self.joining.items()))
        del self.joining[token]
        lanes, token.arrived = token.arrived, 0
        token.pending &= ~lanes
        return Strand(strand.warp, lanes, token.pc, token.outer, strand.calls, strand.turn), token.pending

    def without(self, strand: Strand) -> None:
        """The strand's lanes end; whoever only waited for them goes on."""
        for token in strand.stack:
            token.pending &= ~strand.lanes
        for token in reversed(strand.stack):
            if token.pending:
                if token.arrived == token.pending:
                    self.joining.pop(token, None)
                    self.place(Strand(strand.warp, token.pending, token.pc, token.outer, strand.calls, strand.turn))
                break
            self.joining.pop(token, None)

    def choose(self) -> Cohort:
        """Take out the strands that execute next."""
        if self._draw is not None:
            pc = self._draw.choice(sorted(self.by_pc))
            strands = self.by_pc.pop(pc)
            if len(strands) > 1 and self._draw.random() < 0.3:
                keep = self._draw.randrange(1, len(strands))
                self.by_pc[pc] = strands[keep:]
                strands = strands[:keep]
        else:
            pc = min(self.by_pc, key=lambda at: (min(s.turn for s in self.by_pc[at]), at))
            strands = self.by_pc.pop(pc)
        return self._cohort(strands, pc)

    def _cohort(self, strands: list[Strand], pc: int) -> Cohort:
        """One strand of each warp with the same call stack; the others stay ready."""
        if len(strands) == 1:
            return Cohort(strands, pc)
        first = strands[0]
        chosen: dict[int, Strand] = {}
        rest: list[Strand] = []
        for strand in strands:
            if strand.warp in chosen or strand.calls != first.calls:
                rest.append(strand)
            else:
                chosen[strand.warp] = strand
        if rest:
            self.by_pc.setdefault(pc, []).extend(rest)
        return Cohort(list(chosen.values()), pc)

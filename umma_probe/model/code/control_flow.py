"""Where diverged threads meet again: the immediate post-dominator of each branch.

NVIDIA's compilers place reconvergence there, and ``.sync.aligned`` instructions rely on it: after
``if (elect) {...}`` the whole warp is together. Post-dominators are computed with the iterative algorithm of
Cooper, Harvey and Kennedy on the reversed graph.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


def immediate_post_dominators(
    successors: Sequence[Sequence[int]], aborts: frozenset[int] = frozenset()
) -> list[int | None]:
    """For each node the nearest node that every path to the exit passes through.

    :param successors: node -> successor nodes; a node with none leaves the graph.
    :param aborts: nodes that end the whole kernel (``trap``): who goes there meets nobody, so it does not count.
    :return: None where that node is the exit itself, or where no path leads out (an endless loop).
    """
    count = len(successors)
    exit_node = count
    predecessors: list[list[int]] = [[] for _ in range(count + 1)]
    forward: list[list[int]] = [
        list(s) if s else ([] if node in aborts else [exit_node]) for node, s in enumerate(successors)
    ]
    for node, targets in enumerate(forward):
        for target in targets:
            predecessors[target].append(node)
    order = _post_order(exit_node, predecessors)
    rank = {node: i for i, node in enumerate(order)}
    idom: dict[int, int] = {exit_node: exit_node}
    changed = True
    while changed:
        changed = False
        for node in reversed(order[:-1]):
            known = [t for t in forward[node] if t in idom]
            if not known:
                continue
            best = known[0]
            for other in known[1:]:
                best = _meet(best, other, idom, rank)
            if idom.get(node) != best:
                idom[node] = best
                changed = True
    return [None if idom.get(n, exit_node) == exit_node else idom[n] for n in range(count)]


def _post_order(root: int, edges: Sequence[Sequence[int]]) -> list[int]:
    """Post-order of a depth-first walk; the root comes last."""
    order: list[int] = []
    seen = {root}
    stack: list[tuple[int, int]] = [(root, 0)]
    while stack:
        node, position = stack.pop()
        if position < len(edges[node]):
            stack.append((node, position + 1))
            target = edges[node][position]
            if target not in seen:
                seen.add(target)
                stack.append((target, 0))
        else:
            order.append(node)
    return order


def _meet(a: int, b: int, idom: dict[int, int], rank: dict[int, int]) -> int:
    while a != b:
        while rank[a] < rank[b]:
            a = idom[a]
        while rank[b] < rank[a]:
            b = idom[b]
    return a

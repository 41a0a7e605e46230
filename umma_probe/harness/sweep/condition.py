"""``where`` of a sweep entry: a condition over the options of a case, such as ``m == 64 or n % 16 == 0``.

A small, closed language: option names (``_`` for ``-``), numbers, texts, lists, arithmetic, comparison, ``in``,
``and``, ``or``, ``not``. Nothing else is evaluated, so a config cannot run code.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Any

from umma_probe.errors import ConfigError, unknown_name

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

_NODES = (
    ast.Expression, ast.BoolOp, ast.And, ast.Or, ast.UnaryOp, ast.Not, ast.USub, ast.BinOp, ast.Add, ast.Sub, ast.Mult,
    ast.FloorDiv, ast.Mod, ast.Compare, ast.Eq, ast.NotEq, ast.Lt, ast.LtE, ast.Gt, ast.GtE, ast.In, ast.NotIn, ast.Is,
    ast.IsNot, ast.Name, ast.Load, ast.Constant, ast.List, ast.Tuple,
)  # fmt: skip


class Condition:
    """A checked condition.

    :param names: what it may speak of.
    :raises ConfigError: no condition of this language, or an unknown name.
    """

    def __init__(self, text: str, names: Iterable[str]) -> None:
        self.text = text
        try:
            tree = ast.parse(text.strip(), mode="eval")
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            raise ConfigError(f"'{text}' is no condition ({getattr(error, 'msg', None) or error})") from None
        known = sorted(names)
        for node in ast.walk(tree):
            if not isinstance(node, _NODES):
                raise ConfigError(f"'{text}': {type(node).__name__} is not allowed, must be a comparison of options")
            if isinstance(node, ast.Name) and node.id not in known:
                raise ConfigError(f"'{text}': {unknown_name('option', node.id, known)}")
        self._code = compile(tree, "<where>", "eval")

    def holds(self, params: Mapping[str, Any]) -> bool:
        """Whether a case is to run.

        :raises ConfigError: the options' types do not fit the condition.
        """
        try:
            # the tree holds nothing but the nodes above
            return bool(eval(self._code, {"__builtins__": {}}, dict(params)))
        except (TypeError, ZeroDivisionError) as error:
            raise ConfigError(f"'{self.text}' cannot be answered: {error}") from None

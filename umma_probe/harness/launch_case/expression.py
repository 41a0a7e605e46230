"""Expected values as NumPy expressions over the input buffers, such as ``A @ B.T``.

A small, closed language: names of buffers, numbers, arithmetic, indexing, ``.T``, array methods and ``np.``
functions of the lists below. Nothing else is evaluated, so a case file cannot run code.
"""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING, Any

import numpy as np

from umma_probe.errors import ConfigError, unknown_name

if TYPE_CHECKING:
    from collections.abc import Container, Mapping

_FUNCTIONS = """
    abs add arange clip concatenate cos cumsum divide dot einsum exp exp2 expand_dims eye floor full log log2 log1p
    logaddexp matmul max maximum mean min minimum multiply negative ones outer power prod repeat reshape rint round
    sign sin sqrt square stack subtract sum swapaxes tanh tile transpose tril triu trunc where zeros
"""
_METHODS = "astype clip cumsum dot max mean min prod ravel repeat reshape round squeeze sum swapaxes transpose"
FUNCTIONS = frozenset(_FUNCTIONS.split())
METHODS = frozenset(_METHODS.split())
ATTRIBUTES = frozenset({"T", "shape", "size", "ndim"})
CONSTANTS = {
    "inf": np.inf,
    "nan": np.nan,
    "pi": np.pi,
    "e": np.e,
    "newaxis": None,
    "float32": np.float32,
    "float64": np.float64,
}
MAX_LENGTH = 4000
MAX_EXPONENT = 1024

_NODES = (
    ast.Expression, ast.BinOp, ast.UnaryOp, ast.Compare, ast.Name, ast.Constant, ast.Attribute, ast.Call, ast.Subscript,
    ast.Slice, ast.Tuple, ast.List, ast.keyword, ast.Load, ast.IfExp, ast.operator, ast.unaryop, ast.cmpop,
)  # fmt: skip


def evaluate(expression: str, values: Mapping[str, Any]) -> np.ndarray[Any, Any]:
    """The array that an expression gives.

    :raises ConfigError: it is not of the language, or NumPy refuses it.
    """
    tree = check(expression, values)
    try:
        code = compile(tree, "<expect.value>", "eval")
        with np.errstate(all="ignore"):
            # the tree holds nothing but what _check allows
            result = eval(code, {"__builtins__": {}, "np": np}, dict(values))
    except (ValueError, TypeError, IndexError, MemoryError, RecursionError, ArithmeticError) as error:
        raise ConfigError(f"expression '{expression}': {error}") from error
    return np.asarray(result)


def check(expression: str, names: Container[str]) -> ast.Expression:
    """The syntax tree of an expression that is of the language.

    :raises ConfigError: it is not.
    """
    if len(expression) > MAX_LENGTH:
        raise ConfigError(f"expression has {len(expression)} characters, must have at most {MAX_LENGTH}")
    try:
        tree = ast.parse(expression, mode="eval")
    except (SyntaxError, ValueError, MemoryError, RecursionError) as error:
        raise ConfigError(f"expression '{expression}': {error}") from error
    _check(tree, names)
    return tree


def _check(tree: ast.AST, values: Any) -> None:
    for node in ast.walk(tree):
        if not isinstance(node, _NODES):
            raise ConfigError(f"expression: {type(node).__name__} is not allowed",
                              hint="names of buffers, numbers, operators, indexing, np functions")  # fmt: skip
        if isinstance(node, ast.Name) and node.id not in values and node.id != "np":
            raise ConfigError("expression: " + unknown_name("buffer", node.id, values))
        if isinstance(node, ast.Attribute):
            _check_attribute(node)
        if isinstance(node, ast.Call) and not isinstance(node.func, ast.Attribute):
            raise ConfigError("expression: only np functions and array methods can be called")
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Pow | ast.LShift):
            _check_power(node)
        if isinstance(node, ast.Constant) and not isinstance(node.value, int | float | str | type(None)):
            raise ConfigError(f"expression: constant {node.value!r} is not allowed")


def _check_power(node: ast.BinOp) -> None:
    """Python computes a power of integers to its last digit, however long that takes; an array's has a width."""
    if any(isinstance(part, ast.Name) for part in ast.walk(node)):
        return
    exponent = node.right.value if isinstance(node.right, ast.Constant) else MAX_EXPONENT + 1
    if not isinstance(node.left, ast.Constant) or not isinstance(exponent, int | float) or exponent > MAX_EXPONENT:
        raise ConfigError(f"expression: the exponent of a power of numbers must be a number up to {MAX_EXPONENT}")


def _check_attribute(node: ast.Attribute) -> None:
    of_numpy = isinstance(node.value, ast.Name) and node.value.id == "np"
    known = FUNCTIONS | set(CONSTANTS) if of_numpy else METHODS | ATTRIBUTES
    if node.attr not in known:
        raise ConfigError(
            "expression: " + unknown_name("np function" if of_numpy else "array method", node.attr, known)
        )

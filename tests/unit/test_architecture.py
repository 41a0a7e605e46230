"""The layers hold: imports go downwards, packages of one layer never import each other, heavy imports have one home."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parents[2] / "umma_probe"

LAYERS: dict[str, int] = {
    "errors": 0, "bits": 0, "registry": 0, "assets": 0, "launch_values": 0,
    "spec": 1,
    "layouts": 2, "ptx": 2, "record": 2,
    "model": 3, "gpu": 3,
    "backends": 4,
    "api": 5, "harness": 5, "findings": 5, "report": 5,
    "cli": 6,
}  # fmt: skip
BASE = {"errors", "bits", "registry", "assets", "launch_values"}
FILES = sorted(PACKAGE.rglob("*.py"))
ROOMS = ("numbers", "sanitizer", "asynchrony", "code", "threads", "state", "arith", "mma", "tma", "ops")
"""Of the model, lowest first: what runs may name a lower room or its own; types may come from anywhere."""


def _home(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def _imports(path: Path) -> list[str]:
    names: list[str] = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            names.append(node.module)
            if node.module == "umma_probe":
                names += [f"umma_probe.{alias.name}" for alias in node.names]
    return names


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(PACKAGE)))
def test_imports_go_downwards(path: Path) -> None:
    home = _home(path)
    if home in ("__init__", "__main__"):
        return
    assert home in LAYERS, f"{home} has no layer"
    for name in _imports(path):
        parts = name.split(".")
        if parts[0] != "umma_probe" or len(parts) < 2 or parts[1] not in LAYERS:
            continue
        target = parts[1]
        if target == home or (home in BASE and target in BASE):
            continue
        same_layer_of_readers = LAYERS[target] == LAYERS[home] == 5
        assert LAYERS[target] < LAYERS[home] or same_layer_of_readers, f"{path.name} ({home}) imports {target}"


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(PACKAGE)))
def test_heavy_imports_have_one_home(path: Path) -> None:
    relative = path.relative_to(PACKAGE).as_posix()
    for name in _imports(path):
        top = name.split(".")[0]
        if top == "cuda":
            assert _home(path) == "gpu", f"{relative} imports cuda"
        if top in ("rich", "click"):
            assert _home(path) == "cli" or relative.startswith("report/formats/"), f"{relative} imports {top}"


def test_the_model_and_the_documents_are_two_witnesses() -> None:
    """The machine's data path must not be derived from the layouts that it is compared with."""
    judged = {"tmem_accumulator", "tmem_operand", "tmem_ldst", "tmem_cp", "scale_factors", "sparse_metadata"}
    for path in (PACKAGE / "model").rglob("*.py"):
        for name in _imports(path):
            if name.startswith("umma_probe.layouts."):
                assert name.split(".")[2] not in judged, f"{path.name} imports {name}"


def test_the_rooms_of_the_model_rest_on_each_other_in_one_direction() -> None:
    model = PACKAGE / "model"
    for path in (p for p in model.rglob("*.py") if p.parent != model):
        home = ROOMS.index(path.relative_to(model).parts[0])
        for name in _imports_at_run_time(path):
            if name.startswith("umma_probe.model."):
                target = name.split(".")[2]
                assert target in ROOMS[: home + 1], f"{path.relative_to(model)} imports {name}"


def _imports_at_run_time(path: Path) -> list[str]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    guarded = {
        inner
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
        for inner in ast.walk(node)
    }
    return [node.module for node in ast.walk(tree)
            if isinstance(node, ast.ImportFrom) and node.module and node not in guarded]  # fmt: skip


def test_no_function_is_longer_than_a_hundred_lines() -> None:
    for path in FILES:
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                length = (node.end_lineno or node.lineno) - node.lineno + 1
                assert length <= 100, f"{path.relative_to(PACKAGE)}: {node.name} has {length} lines"

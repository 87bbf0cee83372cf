"""Mutation testing: changes one expression of a module at a time, and runs the tests that matter.

    python tools/mutants.py            all modules of TESTS
    python tools/mutants.py store/lock.py --most 20 --seed 1

Prints a line for each mutant, `killed by TEST` or `SURVIVED`; the exit code is the number of those
that survived. A mutant runs in a copy of this process, which has pytest and NumPy imported: most
take less than a second.
"""

from __future__ import annotations

import argparse
import ast
import copy
import importlib.abc
import importlib.machinery
import os
import random
import signal
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import hypothesis  # noqa: F401 - these before the fork, since every mutant's tests need them
import numpy  # noqa: F401
import pytest
import torch  # noqa: F401

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "python" / "robocache"
SECONDS = 100  # of a mutant's tests; one that hangs is killed by that

_STORE = ["store/test_hostile.py", "store/test_commits.py", "store/test_write.py"]
TESTS: dict[str, list[str]] = {
    "conversion/pools.py": ["conversion/test_pools.py"],
    "conversion/run.py": ["conversion/test_pools.py"],
    "loader/sampling/sampler.py": ["loader/test_order.py"],
    "store/files.py": ["store/test_hostile.py", "store/test_power_loss.py"],
    "store/lock.py": ["store/test_hostile.py"],
    "store/manifest.py": ["store/test_hostile.py", "store/test_write.py", "store/test_commits.py"],
    "store/merge.py": ["store/test_merge.py", "store/test_hostile.py"],
    "store/shard.py": _STORE,
    "store/shard_header.py": ["store/test_hostile.py"],
    "store/source_state.py": ["store/test_hostile.py"],
    "store/spool.py": ["store/test_commits.py", "store/test_write.py"],
    "store/streams.py": ["store/test_write.py", "store/test_commits.py", "store/test_merge.py"],
    "store/verification.py": ["store/test_read_errors.py"],
    "store/writer.py": [*_STORE, "store/test_power_loss.py"],
}
"""The tests of each module, those that fail first before the others."""
SLOW = "larger_than_memory or shard_header_of_hostile"
"""Tests that take many seconds, and are left out."""

COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq, ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In,
}  # fmt: skip
ARITHMETIC: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.FloorDiv, ast.FloorDiv: ast.Mult,
    ast.LShift: ast.RShift, ast.BitOr: ast.BitAnd, ast.BitAnd: ast.BitOr,
}  # fmt: skip


# ---- mutants -------------------------------------------------------------------------------------


def mutated(node: ast.AST) -> ast.AST | None:
    """The node with one thing changed; None where there is nothing to change."""
    node = copy.copy(node)
    if isinstance(node, ast.Compare) and len(node.ops) == 1:
        node.ops = [COMPARISONS[type(node.ops[0])]()]
    elif isinstance(node, ast.BoolOp):
        node.op = ast.Or() if isinstance(node.op, ast.And) else ast.And()
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        return node.operand
    elif isinstance(node, ast.BinOp) and type(node.op) in ARITHMETIC and not _is_type(node):
        node.op = ARITHMETIC[type(node.op)]()
    elif isinstance(node, ast.Constant) and isinstance(node.value, bool):
        node.value = not node.value
    elif isinstance(node, ast.Constant) and isinstance(node.value, int):
        node.value += 1
    elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
        return ast.copy_location(ast.Pass(), node)  # a call that is left out
    elif isinstance(node, ast.If):
        node.test = ast.copy_location(ast.UnaryOp(ast.Not(), node.test), node.test)
    else:
        return None
    return node


def _is_type(node: ast.BinOp) -> bool:
    """Whether it is a union of types, which is not evaluated."""
    return isinstance(node.op, ast.BitOr) and any(
        isinstance(side, ast.Constant) and side.value is None for side in (node.left, node.right)
    )


class _Replace(ast.NodeTransformer):
    """Replaces the nth node of a tree that can be changed, outside of annotations and docs."""

    def __init__(self, number: int) -> None:
        self.left = number
        self.line = 0
        self.before = self.after = ""

    def visit(self, node: ast.AST) -> ast.AST:
        changed = mutated(node)
        if changed is not None:
            if self.left == 0:
                self.line = getattr(node, "lineno", 0)
                self.before, self.after = _text(node), _text(changed)
                self.left -= 1
                return changed
            self.left -= 1
        if isinstance(node, ast.AnnAssign):  # its value alone
            if node.value is not None:
                node.value = self.visit(node.value)  # type: ignore[assignment]
            return node
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            node.body = [self.visit(each) for each in node.body]  # type: ignore[misc]
            return node
        return self.generic_visit(node)


def _text(node: ast.AST) -> str:
    text = ast.unparse(ast.fix_missing_locations(copy.deepcopy(node))).splitlines()[0]
    return text if len(text) <= 60 else f"{text[:59]}…"


def mutants(source: str) -> Iterator[tuple[int, str, str, ast.Module]]:
    """Line, text before and after, and the whole module, of each mutant of a module."""
    number = 0
    while True:
        replace = _Replace(number)
        tree = replace.visit(ast.parse(source))
        if replace.left >= 0:
            return
        yield replace.line, replace.before, replace.after, ast.fix_missing_locations(tree)
        number += 1


# ---- runs ----------------------------------------------------------------------------------------


class _Loader(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Imports one module of the package from a tree, in place of its file."""

    def __init__(self, name: str, path: Path, tree: ast.Module) -> None:
        self._name, self._path, self._tree = name, path, tree

    def find_spec(
        self, name: str, path: object, target: object = None
    ) -> importlib.machinery.ModuleSpec | None:
        if name != self._name:
            return None
        return importlib.machinery.ModuleSpec(name, self, origin=str(self._path))

    def exec_module(self, module: ModuleType) -> None:
        module.__file__ = str(self._path)
        exec(compile(self._tree, self._path, "exec"), module.__dict__)


class _First:
    """Notes the first test that fails."""

    def __init__(self, file: Path) -> None:
        self._file = file

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed and not self._file.exists():
            self._file.write_text(report.nodeid.removeprefix("tests/python/"))


def killer(module: str, tree: ast.Module, tests: list[str]) -> str:
    """The test that fails with a mutant; "" if none does."""
    with tempfile.TemporaryDirectory() as folder:
        note = Path(folder) / "first"
        child = os.fork()
        if child == 0:
            _run(module, tree, tests, note, Path(folder))
        _, status = os.waitpid(child, 0)
        if note.exists():
            return note.read_text()
        if os.WIFSIGNALED(status):
            return f"no test, it took more than {SECONDS} s or crashed"
        return "" if os.WEXITSTATUS(status) == 0 else "collection"


def _run(module: str, tree: ast.Module, tests: list[str], note: Path, folder: Path) -> None:
    """Runs tests with a mutant, and ends this process."""
    signal.alarm(SECONDS)
    null = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(null, stream)
    name = "robocache." + module.removesuffix(".py").replace("/", ".")
    sys.meta_path.insert(0, _Loader(name, PACKAGE / module, tree))
    paths = [str(ROOT / "tests" / "python" / test) for test in tests]
    options = ["-x", "-q", "-p", "no:cacheprovider", "--basetemp", str(folder / "t")]
    code = 1
    try:
        code = int(pytest.main([*paths, *options, "-k", f"not ({SLOW})"], [_First(note)]))
    finally:
        os._exit(code)


def main() -> int:
    parser = argparse.ArgumentParser(description="Mutation testing of RoboCache's Python.")
    parser.add_argument("modules", nargs="*", default=list(TESTS), metavar="MODULE")
    parser.add_argument("--most", type=int, default=10, help="mutants of each module")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    os.chdir(ROOT)
    survived = 0
    for module in given.modules:
        found = list(mutants((PACKAGE / module).read_text()))
        chosen = random.Random(given.seed).sample(found, min(given.most, len(found)))
        for line, before, after, tree in sorted(chosen, key=lambda mutant: mutant[:3]):
            name = killer(module, tree, TESTS[module])
            survived += not name
            verdict = f"killed by {name}" if name else "SURVIVED"
            print(f"{module}:{line}: {before}  ->  {after}: {verdict}", flush=True)
    print(f"{survived} survived")
    return min(survived, 100)


if __name__ == "__main__":
    sys.exit(main())

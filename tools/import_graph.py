"""Computes the import graph of the Python package from its sources, and its circles.

Every import counts: at the top of a module, within a function, and under ``TYPE_CHECKING``. The
names of ``robocache/__init__.py`` are a table of strings, repeated under ``TYPE_CHECKING`` for type
checkers; a module that uses ``robocache.<name>`` depends on the module that the table gives for it.

    python tools/import_graph.py              # packages: levels and circles
    python tools/import_graph.py --modules    # modules
    python tools/import_graph.py --edges      # packages, with each import between two of them
"""

from __future__ import annotations

import argparse
import ast
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

PACKAGE = "robocache"
SOURCES = Path(__file__).resolve().parent.parent / "python" / PACKAGE

DELEGATES = frozenset(
    {
        ("robocache.loader.loader", "robocache.datasets"),  # Loader.from_lerobot and so on
        ("robocache.store.rows", "robocache.timeline.align"),  # Episode.align
    }
)
"""Methods that call a function of a higher package by its public name, in one statement.

They look the name up when they are called: importing their module loads nothing of that package.
"""


class Import(NamedTuple):
    """A dependency of one module on another."""

    module: str
    target: str
    line: int
    is_lazy: bool  # within a function or under TYPE_CHECKING

    def __str__(self) -> str:
        return f"{self.module}:{self.line}{' (lazy)' * self.is_lazy} -> {self.target}"


Graph = Mapping[str, Mapping[str, list[Import]]]  # the imports of each edge


def module_graph(sources: Path = SOURCES) -> Graph:
    """The imports between the modules of a package, its table of public names left out."""
    modules = dict(_modules(sources))
    root = modules[PACKAGE]
    table = _public_names(ast.parse(root.read_text("utf-8")))
    graph: dict[str, dict[str, list[Import]]] = {module: {} for module in modules}
    for module, path in modules.items():
        tree = ast.parse(path.read_text("utf-8"))
        for found in _imports(module, tree, modules, table):
            is_table = module == PACKAGE and _is_type_checking(tree, found.line)
            if found.target != module and not is_table:
                graph[module].setdefault(found.target, []).append(found)
    return graph


def package_graph(modules: Graph) -> Graph:
    """The imports between the packages of modules."""
    graph: dict[str, dict[str, list[Import]]] = {_package(module): {} for module in modules}
    for module, targets in modules.items():
        for target, imports in targets.items():
            a, b = _package(module), _package(target)
            if a != b:
                graph[a].setdefault(b, []).extend(imports)
    return graph


def circles(graph: Graph) -> list[list[str]]:
    """Sets of nodes that import each other, directly or through others: Tarjan's algorithm."""
    number: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    found: list[list[str]] = []

    def visit(node: str) -> None:
        number[node] = low[node] = len(number)
        stack.append(node)
        for target in graph[node]:
            if target not in number:
                visit(target)
                low[node] = min(low[node], low[target])
            elif target in stack:
                low[node] = min(low[node], number[target])
        if low[node] == number[node]:
            begin = stack.index(node)
            if len(stack) - begin > 1:
                found.append(sorted(stack[begin:]))
            del stack[begin:]

    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(limit + 10 * len(graph))
    try:
        for node in graph:
            if node not in number:
                visit(node)
    finally:
        sys.setrecursionlimit(limit)
    return found


def edges_of(graph: Graph, nodes: Iterable[str]) -> list[Import]:
    """The imports between some nodes."""
    inside = set(nodes)
    return sorted(
        found
        for node in inside
        for target, imports in graph[node].items()
        if target in inside
        for found in imports
    )


def levels(graph: Graph) -> list[list[str]]:
    """Nodes of a graph without circles, by the longest chain of imports below each."""
    depth: dict[str, int] = {}

    def visit(node: str) -> int:
        if node not in depth:
            depth[node] = 1 + max(map(visit, graph[node]), default=-1)
        return depth[node]

    by_level: dict[int, list[str]] = defaultdict(list)
    for node in sorted(graph):
        by_level[visit(node)].append(node)
    return [by_level[level] for level in sorted(by_level)]


# ---- sources -------------------------------------------------------------------------------------


def _modules(sources: Path) -> Iterator[tuple[str, Path]]:
    for path in sorted(sources.rglob("*.py")):
        parts = (PACKAGE, *path.relative_to(sources).with_suffix("").parts)
        yield ".".join(parts[:-1] if parts[-1] == "__init__" else parts), path


def _package(module: str) -> str:
    return ".".join(module.split(".")[:2])


def _public_names(root: ast.Module) -> dict[str, str]:
    """The module of each public name: the table ``_HOME`` of the package."""
    for node in root.body:
        if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "_HOME":
            table: dict[str, str] = ast.literal_eval(node.value)
            return table
    return {}


def _is_type_checking(tree: ast.Module, line: int) -> bool:
    return any(
        isinstance(node, ast.If)
        and getattr(node.test, "id", "") == "TYPE_CHECKING"
        and node.lineno <= line <= (node.end_lineno or line)
        for node in tree.body
    )


def _imports(
    module: str, tree: ast.Module, modules: Mapping[str, Path], table: Mapping[str, str]
) -> Iterator[Import]:
    top = {id(node) for node in tree.body}
    aliases: set[str] = set()  # names of the package itself
    for node in ast.walk(tree):
        is_lazy = id(node) not in top
        if isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name == PACKAGE:
                    aliases.add(alias.asname or PACKAGE)
                elif alias.name in modules:
                    yield Import(module, alias.name, node.lineno, is_lazy)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{module}:{node.lineno}: expected absolute imports"
            for alias in node.names if (node.module or "").split(".")[0] == PACKAGE else ():
                target = f"{node.module}.{alias.name}"
                if target not in modules:
                    is_public = node.module == PACKAGE
                    target = table.get(alias.name, PACKAGE) if is_public else node.module or ""
                yield Import(module, target, node.lineno, is_lazy)
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and getattr(node.value, "id", "") in aliases:
            target = table.get(node.attr, PACKAGE)
            if (module, target) not in DELEGATES:
                yield Import(module, target, node.lineno, True)


# ---- command line --------------------------------------------------------------------------------


def main(arguments: list[str]) -> int:
    """Prints levels and circles; returns 1 if a circle exists."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--modules", action="store_true", help="modules in place of packages")
    parser.add_argument("--edges", action="store_true", help="print each import")
    parser.add_argument("sources", nargs="?", type=Path, default=SOURCES)
    options = parser.parse_args(arguments)
    graph = module_graph(options.sources)
    if not options.modules:
        graph = package_graph(graph)
    if options.edges:
        print(*edges_of(graph, graph), sep="\n")
    count = sum(map(len, graph.values()))
    found = circles(graph)
    print(f"{len(graph)} {'modules' if options.modules else 'packages'}, {count} edges")
    for circle in found:
        print(f"circle of {len(circle)}: {', '.join(circle)}")
        print(*(f"  {edge}" for edge in edges_of(graph, circle)), sep="\n")
    if not found:
        for number, nodes in enumerate(levels(graph)):
            print(f"level {number}: {', '.join(nodes)}")
    return bool(found)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""Mutation testing: changes one expression of a module at a time, and runs the tests that matter.

    python tools/mutants.py                                all modules of TESTS
    python tools/mutants.py store/lock.py --most 20 --seed 1
    python tools/mutants.py --write                        updates tests/mutants.csv

Prints a line for each mutant: the test that kills it, the reason why no test can, or SURVIVED; the
exit code is the number of those that survived. A reason is written by hand into the last column of
tests/mutants.csv, as "equivalent: <reason>"; later runs keep it and do not run that mutant.

The sample depends on the seed and on the text of each mutant, not on the rest of the module. Only
bodies of functions are changed: a mutant runs in a copy of this process, which has imported the
package and the tests, and replaces the code of one function there. Most take less than a second.
One that survives runs again in a new process, since functions such as decorators act during the
import.
"""

from __future__ import annotations

import argparse
import ast
import copy
import gc
import hashlib
import importlib
import os
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from types import CodeType, FunctionType

from mutant_runs import ROOT, Key, collect, exit_code, judge, killer, read_record, write_record

PACKAGE = ROOT / "python" / "robocache"

_COMMITS = ["store/test_commits.py", "store/test_write.py"]
_JPEG = ["store/test_jpeg.py", "conversion/test_image_encoding.py"]
_LOADER = ["loader/test_loader.py", "loader/test_windows.py", "loader/test_errors.py"]
TESTS: dict[str, list[str]] = {
    "conversion/disk_space.py": ["conversion/test_convert.py"],
    "conversion/image_sizes.py": ["conversion/test_image_sizes.py", _JPEG[1]],
    "conversion/one_episode.py": ["conversion/test_one_episode.py"],
    "conversion/pools.py": ["conversion/test_pools.py", "conversion/test_killed.py"],
    "conversion/run.py": ["conversion/test_pools.py", "conversion/test_convert.py"],
    "conversion/sources.py": ["conversion/test_convert.py", "conversion/test_one_episode.py"],
    "conversion/worker.py": [
        "conversion/test_convert.py",
        "conversion/test_one_episode.py",
        _JPEG[1],
    ],
    "jpeg/encoded.py": [_JPEG[1], "core/test_display.py"],
    "jpeg/frames.py": [*_JPEG, "core/test_display.py"],
    "jpeg/library.py": _JPEG,
    "loader/batch_source.py": ["loader/test_batch_source.py", *_LOADER, "loader/test_order.py"],
    "loader/compute_stats.py": ["loader/test_compute_stats.py"],
    "loader/contents.py": _LOADER,
    "loader/dataset.py": _LOADER,
    "loader/device.py": _LOADER,
    "loader/engine.py": [*_LOADER, "loader/test_tiers.py", "loader/test_prefetch.py"],
    "loader/foreign_options.py": ["loader/test_foreign_options.py"],
    "loader/frames/conversion.py": ["loader/test_frames.py"],
    "loader/frames/decoder.py": ["loader/test_frames.py"],
    "loader/frames/library.py": ["loader/test_frames.py"],
    "loader/frames/resident.py": ["loader/test_frames.py"],
    "loader/frames/sources.py": ["loader/test_frames.py", "store/test_jpeg.py"],
    "loader/indices.py": _LOADER,
    "loader/jax_batch.py": ["loader/test_jax.py"],
    "loader/loader.py": _LOADER,
    "loader/make_policy_spec.py": ["live/test_policy_spec.py", "live/test_replay.py"],
    "loader/memory/disk_windows.py": ["loader/test_tiers.py", "loader/test_prefetch.py"],
    "loader/memory/file_rows.py": [
        "loader/test_tiers.py",
        "loader/test_held_observations.py",
        "loader/test_padding.py",
    ],
    "loader/memory/prefetch.py": ["loader/test_prefetch.py", "loader/test_tiers.py"],
    "loader/memory/resident_streams.py": ["loader/test_tiers.py", "loader/test_loader.py"],
    "loader/memory/row_checks.py": ["loader/test_row_errors.py"],
    "loader/memory/tiers.py": ["loader/test_tiers.py"],
    "loader/metrics.py": ["core/test_metrics.py", *_LOADER],
    "loader/mixture/join_parts.py": ["loader/test_mixture.py", "loader/test_frames.py"],
    "loader/mixture/mixture.py": ["loader/test_mixture.py", "loader/test_mixture_errors.py"],
    "loader/mixture/parts.py": ["loader/test_mixture.py", "loader/test_mixture_errors.py"],
    "loader/outputs.py": _LOADER,
    "loader/padding.py": ["loader/test_padding.py"],
    "loader/padding_samples.py": ["loader/test_padding.py"],
    "loader/parsing.py": [*_LOADER, "loader/test_window_options.py", "live/test_policy_spec.py"],
    "loader/plan.py": [*_LOADER, "loader/test_window_spec.py", "loader/test_window_options.py"],
    "loader/plan_inputs.py": [*_LOADER, "loader/test_tiers.py"],
    "loader/policy_spec.py": [
        "loader/test_window_spec.py",
        "live/test_policy_spec.py",
        "core/test_display.py",
    ],
    "loader/prometheus.py": ["core/test_prometheus.py"],
    "loader/recipe.py": ["loader/test_processes.py", *_LOADER],
    "loader/relative.py": ["loader/test_relative.py"],
    "loader/sampling/anchors.py": ["loader/test_anchors.py"],
    "loader/sampling/episodes.py": ["loader/test_anchors.py", "loader/test_errors.py"],
    "loader/sampling/identity.py": ["loader/test_states.py", "loader/test_order.py"],
    "loader/sampling/rank_sharding.py": ["loader/test_rank_sharding.py"],
    "loader/sampling/sampler.py": [
        "loader/test_order.py",
        "loader/test_mixture_order.py",
        "loader/test_errors.py",
    ],
    "loader/sampling/sampler_state.py": ["loader/test_order.py", "loader/test_errors.py"],
    "loader/stats.py": ["loader/test_stats.py"],
    "loader/stream_normalization.py": [
        "loader/test_stats.py",
        "loader/test_modes.py",
        "loader/test_loader.py",
        "normalization/test_normalizer.py",
    ],
    "loader/summary.py": ["core/test_display.py", *_LOADER, "loader/test_padding.py"],
    "loader/window.py": ["loader/test_window_options.py", "loader/test_window_spec.py"],
    "loader/window_spec.py": ["loader/test_window_spec.py", *_LOADER, "live/test_replay.py"],
    "loader/windows.py": [*_LOADER, "loader/test_window_options.py"],
    "store/dtypes.py": ["store/test_write.py", "store/test_marks.py"],
    "store/episode.py": _COMMITS,
    "store/episode_store.py": ["store/test_read_errors.py", "core/test_display.py"],
    "store/files.py": ["store/test_hostile.py", "store/test_power_loss.py"],
    "store/history.py": ["store/test_marks.py"],
    "store/library.py": ["store/test_read.py", "loader/test_window_spec.py"],
    "store/lock.py": ["store/test_hostile.py", "store/test_crash.py"],
    "store/manifest.py": ["store/test_hostile.py", *_COMMITS],
    "store/manifest_update.py": [*_COMMITS, "store/test_merge.py"],
    "store/marks.py": ["store/test_marks.py"],
    "store/merge.py": ["store/test_merge.py", "store/test_hostile.py"],
    "store/rewrite.py": ["store/test_marks.py", "store/test_power_loss.py"],
    "store/rows.py": ["store/test_read.py", "store/test_write.py"],
    "store/shard.py": [*_COMMITS, "store/test_hostile.py"],
    "store/shard_header.py": ["store/test_hostile.py"],
    "store/shard_values.py": ["store/test_write.py", "store/test_ragged.py", "store/test_jpeg.py"],
    "store/source_state.py": ["store/test_source_state.py"],
    "store/spool.py": _COMMITS,
    "store/statistics.py": ["statistics/test_statistics.py", *_COMMITS],
    "store/stream_info.py": ["store/test_read.py", "core/test_display.py"],
    "store/streams.py": [*_COMMITS, "store/test_merge.py"],
    "store/value_columns.py": ["store/test_write.py", "store/test_ragged.py", "store/test_jpeg.py"],
    "store/verification.py": ["store/test_read_errors.py"],
    "store/writer.py": [*_COMMITS, "store/test_hostile.py", "store/test_power_loss.py"],
}
"""The tests of each module, those that fail first before the others."""

COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq, ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In,
}  # fmt: skip
ARITHMETIC: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.FloorDiv, ast.FloorDiv: ast.Mult,
    ast.LShift: ast.RShift, ast.BitOr: ast.BitAnd, ast.BitAnd: ast.BitOr,
}  # fmt: skip


# ---- mutants -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Mutant:
    """One change of a module.

    Attributes:
        number: Position among the module's mutants.
        line: Line of the change.
        key: The change, as the record names it.
    """

    number: int
    line: int
    key: Key


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
    """Whether it is a union of types, which nobody evaluates."""
    return isinstance(node.op, ast.BitOr) and any(
        isinstance(side, ast.Constant) and side.value is None for side in (node.left, node.right)
    )


class _Mutate(ast.NodeTransformer):
    """Lists the nodes of functions that can be changed, and changes one of them.

    Annotations, decorators and default values of arguments stay as they are.

    Attributes:
        mutants: The possible changes.
        changed: The outermost function of the change, once it is done.
    """

    def __init__(self, module: str, number: int = -1) -> None:
        self.mutants: list[Mutant] = []
        self.changed: ast.FunctionDef | ast.AsyncFunctionDef | None = None
        self._module = module
        self._number = number
        self._scopes: list[ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef] = []
        self._seen: Counter[tuple[str, str, str]] = Counter()

    def visit(self, node: ast.AST) -> ast.AST:
        functions = [each for each in self._scopes if not isinstance(each, ast.ClassDef)]
        changed = mutated(node) if functions else None
        if changed is not None:
            number = len(self.mutants)
            line = getattr(node, "lineno", 0)
            self.mutants.append(Mutant(number, line, self._key(node, changed)))
            if number == self._number:
                self.changed = functions[0]
                return changed
        if isinstance(node, ast.AnnAssign):  # its value alone
            if node.value is not None:
                node.value = self.visit(node.value)  # type: ignore[assignment]
            return node
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            self._scopes.append(node)
            node.body = [self.visit(each) for each in node.body]  # type: ignore[misc]
            self._scopes.pop()
            return node
        return self.generic_visit(node)

    def _key(self, node: ast.AST, changed: ast.AST) -> Key:
        function, before = ".".join(scope.name for scope in self._scopes), _text(node)
        after = "(left out)" if isinstance(changed, ast.Pass) else _text(changed)
        self._seen[function, before, after] += 1
        if (count := self._seen[function, before, after]) > 1:
            before += f" [{count}]"  # the same text once more
        return self._module, function, before, after


def _text(node: ast.AST) -> str:
    text = ast.unparse(ast.fix_missing_locations(copy.deepcopy(node))).splitlines()[0]
    return text if len(text) <= 60 else f"{text[:59]}…"


def sample(module: str, most: int, seed: int) -> list[Mutant]:
    """Chooses mutants of a module by a hash of their text, in the order of lines."""
    listing = _Mutate(module)
    listing.visit(ast.parse((PACKAGE / module).read_text()))

    def rank(mutant: Mutant) -> bytes:
        return hashlib.sha256(f"{seed} {mutant.key}".encode()).digest()

    return sorted(sorted(listing.mutants, key=rank)[:most], key=lambda mutant: mutant.number)


class Changed:
    """A module with one change.

    Attributes:
        name: The module's name.
        source: The module's text.
    """

    def __init__(self, module: str, mutant: Mutant) -> None:
        self.name = name_of(module)
        mutate = _Mutate(module, mutant.number)
        tree = ast.fix_missing_locations(mutate.visit(ast.parse((PACKAGE / module).read_text())))
        function = mutate.changed
        assert isinstance(tree, ast.Module) and function is not None
        self.source = ast.unparse(tree)
        first = min([function.lineno, *(each.lineno for each in function.decorator_list)])
        self._place = (function.name, first)
        self._code = next(
            code
            for code in _codes(compile(tree, module, "exec"))
            if (code.co_name, code.co_firstlineno) == self._place
        )

    def apply(self) -> None:
        """Replaces the code of the function in this process."""
        file = sys.modules[self.name].__file__
        changed = 0
        for each in gc.get_objects():
            if isinstance(each, FunctionType):
                code = each.__code__
                if (code.co_filename, code.co_name, code.co_firstlineno) == (file, *self._place):
                    each.__code__ = self._code
                    changed += 1
        assert changed, f"no function {self._place} in {file}"


def _codes(code: CodeType) -> Iterator[CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _codes(constant)


def name_of(module: str) -> str:
    return "robocache." + module.removesuffix(".py").replace("/", ".")


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("modules", nargs="*", default=list(TESTS), metavar="MODULE")
    parser.add_argument("--most", type=int, default=2, help="mutants of each module")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--write", action="store_true", help="update tests/mutants.csv")
    given = parser.parse_args()
    if unknown := [module for module in given.modules if module not in TESTS]:
        parser.error(f"expected modules of TESTS, got {', '.join(unknown)}")
    os.chdir(ROOT)
    collect(dict.fromkeys(test for module in given.modules for test in TESTS[module]))
    for module in given.modules:
        importlib.import_module(name_of(module))
    verdicts: list[str] = []
    for module in given.modules:
        known = read_record()
        of_module = {
            mutant.key: judge(
                f"{module}:{mutant.line}", mutant.key, known, partial(killer_of, module, mutant)
            )
            for mutant in sample(module, given.most, given.seed)
        }
        verdicts += of_module.values()
        if given.write:
            others = {key: verdict for key, verdict in known.items() if key[0] != module}
            write_record(others | of_module)
    return exit_code(verdicts)


def killer_of(module: str, mutant: Mutant) -> str:
    """The test that fails with a mutant; "" if none does."""
    changed, tests = Changed(module, mutant), TESTS[module]
    return killer(changed, tests) or killer(changed, tests, is_new=True)


if __name__ == "__main__":
    sys.exit(main())

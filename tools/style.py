"""Checks the rules of the style that a program can check, in the files that git tracks.

- Lines have at most 100 columns in code and comments, and 120 in Markdown. Tables and code blocks
  in Markdown, lines without a place to break, such as a URL, and pragmas may be longer.
- Spelling is American.
- Docstrings and comments begin with what the object is or does, not with "Of", "The same", "What",
  "Whatever", "Such" or "Those".

    python tools/style.py              # all files; exit status 1 if one is reported
    python tools/style.py FILE...      # these files
"""

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

CODE = {".cmake", ".cpp", ".cu", ".cuh", ".h", ".py", ".pyi", ".sh"}
COLUMNS = {".md": 120} | dict.fromkeys(CODE, 100)
BY_NAME = {"CMakeLists.txt": 100, "run": 100}  # .ci/run is a shell script

# Data, whose text is not ours; licenses; and this list of words with its test.
SPELLED_ELSEWHERE = re.compile(
    r"^tests/golden/.*\.json$|^benchmarks/results/|\.svg$|(^|/)LICENSE"
    r"|^tools/style\.py$|/test_style\.py$"
)
# A field of policy specs of version 1.
FOREIGN_NAMES = re.compile(r"\bcolours_first\b")

IZE = (
    "author|capital|categor|character|custom|discret|emphas|equal|factor|final|general|harmon"
    "|hypothes|initial|item|linear|local|maxim|memor|minim|modern|modular|neutral|normal|optim"
    "|organ|parallel|parametr|penal|polar|prior|prioriti|quant|random|real|recogn|regular|serial"
    "|special|stabil|standard|summar|symbol|synchron|token|util|vector|visual"
)
BRITISH = {  # a pattern of words, and what of them American English spells otherwise
    rf"(?:{IZE})is(?:e|ed|er|es|ers|ing|able|ations?)$": ("is", "iz"),
    r"(?:behavi|col|fav|flav|harb|hon|hum|lab|neighb|rum|vap)our": ("our", "or"),
    r"(?:^|centi|kilo|milli|micro)metres?$": ("metre", "meter"),
    r"^centres?$": ("centre", "center"),
    r"^centr(?:ed|ing)$": ("centr", "center"),
    r"^(?:calib|fib|lit|theat)res?$": ("re", "er"),
    r"^(?:defen|licen|offen)ce": ("ce", "se"),
    r"^analys(?:e|ed|ing)$": ("ys", "yz"),
    r"artefact": ("arte", "arti"),
    r"grey": ("grey", "gray"),
    r"(?:acknowledge|judge)ment": ("ement", "ment"),
    r"(?:label|model|signal|total|travel)l(?:ed|ing)$": ("ll", "l"),
    r"^catalogue$": ("gue", "g"),
    r"^ageing$": ("ei", "i"),
    r"^(?:among|amid)st$": ("st", ""),
    r"^whilst$": ("lst", "le"),
}
SPELLINGS = [(re.compile(pattern, re.I), *change) for pattern, change in BRITISH.items()]
WORD = re.compile("[A-Z]+(?![a-z])|[A-Z]?[a-z]+")  # kMaxColors has three

INLINE_CODE = re.compile("`[^`]*`")
PRAGMA = re.compile(r"\s*# (?:type: ignore|noqa|fmt:).*")
OPENING = re.compile(r"(?:Of|The same|What|Whatever|Such|Those)\b")
COMMENT = re.compile(r"(?P<code>^|.*?\s)(?:#|///?<?)(?:\s+(?P<text>.*)|$)")


def long_lines(path: Path, content: str) -> Iterator[tuple[int, str]]:
    """Lines with more columns than their kind of file may have."""
    limit = COLUMNS.get(path.suffix) or BY_NAME.get(path.name)
    if limit is None:
        return
    is_markdown, is_code = path.suffix == ".md", False
    for number, line in enumerate(content.splitlines(), 1):
        stripped = line.strip()
        if is_markdown and stripped.startswith("```"):
            is_code = not is_code
        if len(line) <= limit or (is_markdown and (is_code or stripped.startswith("|"))):
            continue
        text = re.sub(r"^(?:#|//+<?|\*|-)\s*", "", stripped)
        if path.suffix == ".py" and len(PRAGMA.sub("", line)) <= limit:
            continue
        if " " not in (INLINE_CODE.sub("", text) if is_markdown else text):
            continue
        yield number, f"expected at most {limit} columns, got {len(line)}"


def british(text: str) -> Iterator[tuple[int, str]]:
    """Words that American English spells otherwise."""
    for number, line in enumerate(text.splitlines(), 1):
        for found in WORD.finditer(FOREIGN_NAMES.sub("", line)):
            word = found[0]
            for pattern, old, new in SPELLINGS:
                if pattern.search(word):
                    head, _, tail = word.lower().rpartition(old)
                    expected = like(word, head + new + tail)
                    yield number, f"expected {expected!r}, got {word!r}"


def like(example: str, word: str) -> str:
    """The word in the case of the example."""
    if example.isupper():
        return word.upper()
    return word.capitalize() if example[0].isupper() else word


def docstrings(text: str) -> Iterator[tuple[int, str]]:
    """Docstrings whose first words say nothing of the object."""
    for node in ast.walk(ast.parse(text)):
        body = getattr(node, "body", None)
        if not isinstance(body, list):
            continue
        for statement in body:  # a string after an attribute documents it
            value = statement.value if isinstance(statement, ast.Expr) else None
            if isinstance(value, ast.Constant) and isinstance(value.value, str):
                opening = OPENING.match(value.value)
                if opening:
                    message = "expected a docstring that names the object or action first"
                    yield statement.lineno, f"{message}, got {opening[0]!r}"


def comments(text: str) -> Iterator[tuple[int, str]]:
    """Comments whose first words say nothing of what follows them."""
    previous = None
    for number, line in enumerate(text.splitlines(), 1):
        comment = COMMENT.match(line)
        if comment and (comment["code"].strip() or not previous):
            opening = OPENING.match(comment["text"] or "")
            if opening:
                message = "expected a comment that names the object or action first"
                yield number, f"{message}, got {opening[0]!r}"
        previous = comment


def check(name: str, text: str) -> list[tuple[int, str]]:
    """All findings of a file, by line."""
    path = Path(name)
    found = list(long_lines(path, text))
    if not SPELLED_ELSEWHERE.search(name):
        found += british(text)
    if path.suffix in CODE or path.name in BY_NAME:
        found += comments(text)
    if path.suffix == ".py":
        found += docstrings(text)
    return sorted(found)


def main(names: list[str]) -> int:
    """Prints each finding; returns the exit status."""
    if not names:
        command = ["git", "-C", str(ROOT), "ls-files", "--cached", "--others", "--exclude-standard"]
        names = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()
    failed = 0
    for name in names:
        path = ROOT / name
        if not path.is_file() or path.is_symlink():
            continue
        try:
            text = path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue  # binary
        shown = path.relative_to(ROOT).as_posix() if path.is_relative_to(ROOT) else name
        for line, message in check(shown, text):
            failed = 1
            print(f"{name}:{line}: {message}")
    return failed


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

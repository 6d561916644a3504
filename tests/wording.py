"""Words that must not come back in what people read: documentation, deployment texts, messages and docstrings.

docs/style-guide.md shows the same list to writers. `tests/wording_exceptions.txt` names the words that a file or
package still has. It can only shrink: an exception that is no longer needed is a finding; `make generate` removes it.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

EXCEPTIONS = "tests/wording_exceptions.txt"
LISTS_THE_WORDS = "docs/style-guide.md"

KEY = r"(?:labels?|keys?|taints?|annotations?|resources?|files?|objects?|it|they)"
DIRECTION = (
    "after|along|as|back|before|below|beyond|by|down|first|for|from|in|into|last|on|out|over|past|round|through|to|up"
    "|where|with|without|wrong"
)
GOES = (
    r"(?<!where\s)(?<!where\sthe\s)(?<!where\sits\s)(?<!far\sas\s)"
    rf"{KEY}(?: (?:then|must|may|can|would|will))? go(?:es)?(?! (?:{DIRECTION})\b)"
)
"""The verb for a removal: not "where labels go", "as far as they go", nor with a direction, as in "goes to"."""


@dataclass(frozen=True)
class Word:
    """What is not written, what is written instead, and patterns that find it; a blank also matches a line end."""

    name: str
    better: str
    patterns: tuple[str, ...]

    def lines(self, text: str) -> list[int]:
        """The lines, from 1, on which it begins."""
        patterns = (pattern.replace(" ", r"\s+") for pattern in self.patterns)
        found = {match.start() for one in patterns for match in re.finditer(rf"\b(?:{one})\b", text, re.I)}
        return sorted({text.count("\n", 0, start) + 1 for start in found})


WORDS = (
    Word("is told, tells of", "is reported, is logged, says", ("told", "tells (?:of|whether|why|which|how|when|that)")),
    Word("of ours, ours to write", "managed by nfd, of this product", ("of ours", "ours to write")),
    Word("goes (for a label or file)", "is removed", (GOES,)),
    Word("makes no sense", "is invalid", ("makes? no sense",)),
    Word("mishap, hiccup, trouble", "error, failure, outage", ("mishaps?", r"hiccup\w*", "troubles?")),
    Word("one right more", "one additional permission", ("rights? more",)),
    Word("beat", "heartbeat", ("beats?",)),
    Word("reckoned", "calculated, estimated", ("reckons?", "reckoned")),
    Word("is no news", "is not a change", ("no news",)),
    Word("needs a look", "needs attention", ("needs? a look",)),
    Word("in vain", "without success", ("in vain",)),
    Word("what came of it", "the result, what it created", ("what (?:came|comes) of",)),
    Word("passed over", "skipped, ignored", ("passed over(?! (?:gRPC|HTTP|TLS))",)),
    Word("heard, spoke", "received, reported", ("heard", "spoke", "spoken")),
    Word("looked after", "renewed, kept up to date", ("looked after",)),
    Word("trying on", "trying again", ("trying on",)),
    Word("stands there", "is listed, exists", ("stands there",)),
    Word("laid over", "merged over, added to", ("laid over",)),
    Word("of late", "recently", ("of late",)),
    Word("unforeseen", "unexpected", ("unforeseen",)),
    Word("under way", "in progress", ("under way",)),
    Word("judge, verdict", "evaluate, result", ("judged", "verdicts?")),
    Word("is away", "is unavailable, is not running", ("(?:is|are|be|been|was|were) away",)),
)


@dataclass(frozen=True)
class Finding:
    path: str
    line: int
    word: Word

    def __str__(self) -> str:
        return f'{self.path}:{self.line}: "{self.word.name}": write "{self.word.better}" (docs/style-guide.md)'


def wording(root: Path) -> Iterator[str]:
    """`FILE:LINE: ...` for each word without an exception, and each exception without a word."""
    found = list(findings(root))
    listed = exceptions(root)
    yield from (str(one) for one in found if not any(_covers(rule, one) for rule in listed))
    for path, name in unneeded(found, listed):
        yield f'{EXCEPTIONS}: {path} no longer has "{name}": remove the line, or run `make generate`'


def shrunk(root: Path) -> str:
    """The file of exceptions without those that are no longer needed."""
    listed = exceptions(root)
    old = unneeded(list(findings(root)), listed)
    head = [line for line in (root / EXCEPTIONS).read_text().splitlines() if line.startswith("#")]
    return "\n".join([*head, *(f"{path}: {name}" for path, name in listed if (path, name) not in old)]) + "\n"


def unneeded(found: list[Finding], listed: list[tuple[str, str]]) -> list[tuple[str, str]]:
    return [rule for rule in listed if not any(_covers(rule, one) for one in found)]


def exceptions(root: Path) -> list[tuple[str, str]]:
    """Pairs of a file or folder and the name of a word. Raises ValueError for a name that is not in `WORDS`."""
    lines = (root / EXCEPTIONS).read_text().splitlines()
    pairs = [line.partition(": ")[::2] for line in lines if line and not line.startswith("#")]
    if wrong := {name for _, name in pairs} - {word.name for word in WORDS}:
        raise ValueError(f"{EXCEPTIONS}: not words of the list: {sorted(wrong)}")
    return pairs


def _covers(rule: tuple[str, str], one: Finding) -> bool:
    path, name = rule
    return name == one.word.name and (one.path == path or one.path.startswith(f"{path}/"))


def findings(root: Path) -> Iterator[Finding]:
    for path, start, text in texts(root):
        for word in WORDS:
            yield from (Finding(path, start + line - 1, word) for line in word.lines(text))


def texts(root: Path) -> Iterator[tuple[str, int, str]]:
    """What people read: file, the line on which the text begins, and the text."""
    for path in _pages(root):
        yield str(path.relative_to(root)), 1, prose(path.read_text())
    changelog = (root / "CHANGELOG.md").read_text()
    yield "CHANGELOG.md", 1, prose(unreleased(changelog))
    for path in sorted((root / "deploy").rglob("*")):
        if path.is_file() and path.suffix in {".yaml", ".tpl", ".txt", ".json", ".conf", ".md"}:
            yield str(path.relative_to(root)), 1, path.read_text()
    for package in ("nfd", "gfd"):
        for path in sorted((root / package).rglob("*.py")):
            if not path.stem.endswith("_pb2"):
                yield from ((str(path.relative_to(root)), *one) for one in strings(path.read_text()))


def _pages(root: Path) -> list[Path]:
    pages = [root / name for name in ("README.md", "CONTRIBUTING.md", "SECURITY.md", "ARCHITECTURE.md")]
    pages += [path for path in sorted((root / "docs").rglob("*.md")) if path.parent.name != "reference"]
    return [path for path in pages if path.exists() and path != root / LISTS_THE_WORDS]


def prose(page: str) -> str:
    """A page without code and without what is generated, whose source is checked instead; lines keep their numbers."""
    for pattern in (r"^ *```.*?^ *```$", r"<!-- ([\w-]+) -->.*?<!-- end of \1 -->", r"``?(?:[^`\n]|\n(?!\s*\n))+``?"):
        page = re.sub(pattern, lambda found: "_" + "\n" * found[0].count("\n") + "_", page, flags=re.M | re.S)
    return page


def unreleased(changelog: str) -> str:
    """The beginning up to the first release."""
    return re.split(r"^## \[\d", changelog, maxsplit=1, flags=re.M)[0]


def strings(module: str) -> Iterator[tuple[int, str]]:
    """Messages and docstrings: the strings with more than one word, each with the line on which it begins."""
    for node in ast.walk(ast.parse(module)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and re.search(r"\S\s+\S", node.value):
            yield node.lineno, prose(node.value)

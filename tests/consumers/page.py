"""The tables of docs/consumers.md, from the data that the scheduling tests run on: `python -m tests.checks --write`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from tests.consumers.fleet import FLEET
from tests.consumers.table import CONSUMERS, DEPLOY, PCI, Consumer, F, Term

NAME = "docs/consumers.md"
PRESENT = PCI[0]
READ_BY_OPERATORS = {
    DEPLOY + "mig-manager": (PRESENT, "nvidia.com/mig.capable", "nvidia.com/vgpu.host-driver-version"),
    "network.nvidia.com/operator.mofed.wait": (F + "pci-15b3.present",),
}
"""Label that an operator writes → ours that it decides by; for all other deploy labels that is a PCI label."""


def page(text: str) -> str:
    """The page with its tables as they must be."""
    for name, lines in (("consumers", consumers()), ("nodes", nodes())):
        begin, end = f"<!-- {name} -->\n", f"<!-- end of {name} -->"
        table = "\n".join(lines)
        text = re.sub(f"{begin}.*?{end}", lambda _, inside=f"{begin}{table}\n{end}": inside, text, flags=re.DOTALL)  # type: ignore[misc]
    return text


def consumers() -> Iterable[str]:
    yield from head("consumer", "selects nodes by", "depends on the labels", "its pods are on", "upstream")
    for one in CONSUMERS:
        behind = ours(one)
        same = "the same" if behind == one.keys else codes(behind)
        yield row(f"{one.project}: {one.part}", selector(one), same, names(one), one.source)


def nodes() -> Iterable[str]:
    yield from head("node", "machine", "recording", "GPU case")
    for name, member in FLEET.items():
        yield row(name, member.about, code(member.recording), code(member.gpus))


def head(*cells: str) -> Sequence[str]:
    return (row(*cells), row(*("---" for _ in cells)))


def row(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"


def names(consumer: Consumer) -> str:
    return ", ".join(name for name in FLEET if name in consumer.nodes)


def selector(consumer: Consumer) -> str:
    """The node selector, and the alternatives of the affinity."""
    given = [code(f"{key}={value}") for key, value in consumer.selector.items()]
    alternatives = " or ".join(term(one) for one in consumer.terms)
    return ", ".join([*given, *([alternatives] if alternatives else [])])


def term(expressions: Term) -> str:
    return " and ".join(code(" ".join([key, operator, *values])) for key, operator, values in expressions)


def ours(consumer: Consumer) -> list[str]:
    """The labels of ours that decide, those which an operator in between reads included."""
    found: list[str] = []
    for key in consumer.keys:
        found += READ_BY_OPERATORS.get(key, (PRESENT,) if key.startswith(DEPLOY) else (key,))
    return list(dict.fromkeys(found))


def codes(words: Iterable[str]) -> str:
    return ", ".join(code(word) for word in words)


def code(word: str) -> str:
    """Keys of NFD's own namespace without it."""
    return f"`{word.removeprefix(F)}`" if word else ""

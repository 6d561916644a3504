"""Names of kernel modules in rules: `-` and `_` are the same (Linux, kernel/module/main.c)."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

from nfd.rules.operators import Matcher

FEATURES = frozenset({"kernel.loadedmodule", "kernel.enabledmodule"})
"""Lower-case names of the features whose elements are modules."""


def spell(name: str) -> str:
    """As the kernel does."""
    return name.replace("-", "_")


def has(names: frozenset[str], name: str) -> bool:
    """Whether a module of that name is among them."""
    return name in names or spell(name) in _spelled(names)


@lru_cache(64)
def _spelled(names: frozenset[str]) -> frozenset[str]:
    return frozenset(map(spell, names))


def test_of(matcher: Matcher) -> Callable[[str], bool]:
    """Whether a matcher holds for the name of a module; what is returned raises RuleError for values without sense."""
    if matcher.op in ("In", "NotIn") and matcher.test is not None:
        values, wanted = frozenset(map(spell, matcher.values)), matcher.op == "In"
        return lambda name: (spell(name) in values) == wanted

    def test(name: str) -> bool:
        forms = dict.fromkeys((name, spell(name), name.replace("_", "-")))
        return any([matcher.holds(form) for form in forms])  # noqa: C419  # a mistake comes up whatever the order

    return test

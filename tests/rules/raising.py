"""Rules whose evaluation raises what nobody foresaw, built of the engine's own parts."""

from __future__ import annotations

from typing import Any

from nfd.features import Features
from nfd.rules.compile import CompiledRule
from nfd.rules.match_features import Term
from nfd.rules.operators import Matcher

UNFORESEEN = (
    RecursionError("too deep"),
    MemoryError(),
    KeyError("x"),
    OSError(5, "Input/output error"),
    ZeroDivisionError(),
)
HERE = Features(attributes={"a.b": {"x": "1"}})


def raising(error: Exception, name: str = "raising", **gives: Any) -> CompiledRule:
    """A rule that raises this wherever feature `a.b` has an element `x`."""

    def test(_text: str) -> bool:
        raise type(error)(*error.args)

    matcher = Matcher("In", ("1",), test, None, False, False, "never")
    return CompiledRule(name, (Term("a.b", (("x", matcher),), None),), **gives)


class Unreadable(dict[str, Any]):
    """What no JSON gives: a mapping, or a part of a rule, that cannot be read."""

    def __init__(self, error: Exception) -> None:
        super().__init__(name="unreadable", labels={})
        self._error = error

    def items(self) -> Any:
        raise type(self._error)(*self._error.args)

    @property
    def feature(self) -> Any:
        raise type(self._error)(*self._error.args)

    match_expressions = match_name = feature

"""Problems of rules in the log, where no status can tell of them."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from nfd import log

MOST = 100
"""Problems of one object that are logged as long as its specification stays the same."""

_log = log.get("master")


class LoggedProblems:
    """Each problem is logged once for each specification of the object that it is in."""

    def __init__(self) -> None:
        self._said: dict[str, tuple[object, set[tuple[str, str]]]] = {}

    def tell(self, name: str, version: object, status: Mapping[str, Any], only: Collection[str] | None = None) -> None:
        """Log what is new in a status; with `only` no other messages than these. `version` is of the specification."""
        before, said = self._said.get(name, (None, set[tuple[str, str]]()))
        if before != version:
            said = set()
        self._said[name] = version, said
        for rule, problem in _problems(status):
            key = rule, str(problem["message"])
            if key in said or len(said) == MOST or (only is not None and key[1] not in only):
                continue
            said.add(key)
            nodes = {"nodes": problem["nodes"]} if "nodes" in problem else {}
            _log.warning("problem of a rule", rule=f"{name}/{rule}" if rule else name, error=key[1], **nodes)

    def keep(self, names: Collection[str]) -> None:
        """Forget objects that are gone."""
        self._said = {name: said for name, said in self._said.items() if name in names}


def _problems(status: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """The name of the rule, "" for the object as a whole, and each problem."""
    yield from (("", problem) for problem in _listed(status.get("problems")))
    for rule in _listed(status.get("rules")):
        yield from ((str(rule["name"]), problem) for problem in _listed(rule.get("problems")))


def _listed(value: Any) -> list[Mapping[str, Any]]:
    """The problems of a NodeFeatureGroup are a list, those of a NodeFeatureRule their number."""
    return value if isinstance(value, list) else []

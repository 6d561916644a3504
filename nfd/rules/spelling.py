"""Keys of the worker's rules, which NFD takes in capital and small letters alike."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from nfd.rules.model import CustomAlternative, CustomExpression, CustomRule, CustomTerm, Part

Spell = Callable[[Any], Any]


def spelled(rule: Any) -> Any:
    """The rule with its keys as documented; names of labels and elements stay as they are."""
    return _RULE(rule)


def _keys(model: type[Part], inside: Mapping[str, Spell], data: Any) -> Any:
    """Of two spellings of one key the documented one counts, the other is a key nobody knows."""
    if not isinstance(data, dict):
        return data
    known = {str(field.alias).lower(): str(field.alias) for field in model.model_fields.values()}
    found: dict[Any, Any] = {}
    for written, value in data.items():
        key: Any = known.get(str(written).lower(), written)
        key = written if key in data else key
        found[key] = inside[key](value) if key in inside else value
    return found


def _each(spell: Spell, data: Any) -> Any:
    return [spell(one) for one in data] if isinstance(data, list | tuple) else data


def _values(spell: Spell, data: Any) -> Any:
    return {key: spell(one) for key, one in data.items()} if isinstance(data, dict) else data


_EXPRESSION: Spell = partial(_keys, CustomExpression, {})
_TERM: Spell = partial(_keys, CustomTerm, {"matchExpressions": partial(_values, _EXPRESSION), "matchName": _EXPRESSION})
_ALTERNATIVE: Spell = partial(_keys, CustomAlternative, {"matchFeatures": partial(_each, _TERM)})
_RULE: Spell = partial(
    _keys, CustomRule, {"matchFeatures": partial(_each, _TERM), "matchAny": partial(_each, _ALTERNATIVE)}
)

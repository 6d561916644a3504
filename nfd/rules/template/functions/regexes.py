"""Regular expressions in templates, with Go's rules about empty matches; upstream: Sprig regex.go, Go regexp."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

from nfd.rules.regexp import Pattern, PatternError, TooMuchWork, compile_pattern, decode, encode
from nfd.rules.template.function_calls import Runtime, function
from nfd.rules.template.values import GoList, TemplateError

_META = re.compile(r"[\\.+*?()|\[\]{}^$]")
_REFERENCE = re.compile(r"\$(?:(\$)|\{(\w+)\}|(\w+))")
Match = Any


class BadPattern(TemplateError):
    """A pattern that does not compile."""


def _compile(runtime: Runtime, pattern: str) -> Pattern:
    runtime.budget.spend(4 + (len(pattern) >> 4))
    try:
        return compile_pattern(pattern)
    except PatternError as error:
        raise BadPattern(str(error)) from error
    finally:
        runtime.budget.look()  # a short pattern, too, may take long


def _search(runtime: Runtime, pattern: Pattern, data: bytes, pos: int = 0) -> Match | None:
    size = len(data) - pos
    try:
        pattern.check(size)
    except TooMuchWork as error:
        raise TemplateError(str(error)) from error
    runtime.budget.spend(pattern.steps(size))
    return pattern.search(data, pos)


def _width(data: bytes, pos: int) -> int:
    """Bytes of the letter at a place, 1 at the end."""
    end = pos + 1
    while end < len(data) and end - pos < 4 and data[end] & 0xC0 == 0x80:
        end += 1
    return end - pos


def _find_all(runtime: Runtime, pattern: str, data: bytes, limit: int) -> Iterator[Match]:
    """Matches one after another; an empty one right after another does not count."""
    compiled = _compile(runtime, pattern)
    pos, last_end, found = 0, -1, 0
    while pos <= len(data) and (limit < 0 or found < limit):
        match = _search(runtime, compiled, data, pos)
        if match is None:
            return
        start, end = match.span()
        accepted = end != pos or start != last_end
        pos = pos + _width(data, pos) if end == pos else end
        last_end = end
        if accepted:
            found += 1
            yield match


@function("regexMatch", "string", "string", runtime=True)
def regex_match(runtime: Runtime, pattern: str, text: str) -> bool:
    """A broken pattern matches nothing."""
    try:
        return must_regex_match(runtime, pattern, text)
    except BadPattern:
        return False


@function("mustRegexMatch", "string", "string", runtime=True)
def must_regex_match(runtime: Runtime, pattern: str, text: str) -> bool:
    return _search(runtime, _compile(runtime, pattern), encode(text)) is not None


@function("regexFind mustRegexFind", "string", "string", runtime=True)
def regex_find(runtime: Runtime, pattern: str, text: str) -> str:
    match = _search(runtime, _compile(runtime, pattern), encode(text))
    return "" if match is None else decode(match.group())


@function("regexFindAll mustRegexFindAll", "string", "string", "int", runtime=True)
def regex_find_all(runtime: Runtime, pattern: str, text: str, limit: int) -> GoList:
    _compile(runtime, pattern)
    found = [decode(match.group()) for match in _find_all(runtime, pattern, encode(text), limit)]
    return GoList(found, "string", is_nil=not found)


@function("regexSplit mustRegexSplit", "string", "string", "int", runtime=True)
def regex_split(runtime: Runtime, pattern: str, text: str, limit: int) -> GoList:
    _compile(runtime, pattern)
    if not limit:
        return GoList((), "string", is_nil=True)
    data = encode(text)
    if pattern and not data:
        return GoList(("",), "string")
    parts: list[str] = []
    begin = end = 0
    for match in _find_all(runtime, pattern, data, limit):
        if len(parts) == limit - 1:
            break
        end = match.start()
        if match.end():
            parts.append(decode(data[begin:end]))
        begin = match.end()
    if end != len(data):
        parts.append(decode(data[begin:]))
    return GoList(parts, "string")


@function("regexReplaceAll mustRegexReplaceAll", "string", "string", "string", runtime=True)
def regex_replace_all(runtime: Runtime, pattern: str, text: str, replacement: str) -> str:
    """`$1`, `${name}` and `$$` in the replacement stand for groups and the sign itself."""
    if "$" not in replacement:
        return regex_replace_all_literal(runtime, pattern, text, replacement)

    references = len(_REFERENCE.findall(replacement))

    def expand(match: Match) -> bytes:
        runtime.budget.spend(references)
        runtime.budget.reserve(len(replacement) + references * (match.end() - match.start()))
        return encode(_REFERENCE.sub(lambda one: _group(one, match), replacement))

    return _replace(runtime, pattern, text, expand)


@function("regexReplaceAllLiteral mustRegexReplaceAllLiteral", "string", "string", "string", runtime=True)
def regex_replace_all_literal(runtime: Runtime, pattern: str, text: str, replacement: str) -> str:
    return _replace(runtime, pattern, text, lambda _match: encode(replacement))


def _group(reference: re.Match[str], match: Match) -> str:
    if reference[1]:
        return "$"
    name = reference[2] or reference[3]
    groups: dict[str, int] = match.re.groupindex
    if name.isascii() and name.isdigit() and not (name[0] == "0" and len(name) > 1):
        index = int(name) if len(name) < 9 else 1 << 30
    else:
        index = groups.get(name, 1 << 30)
    return decode(match.group(index) or b"") if index <= match.re.groups else ""


def _replace(runtime: Runtime, pattern: str, text: str, replacement: Callable[[Match], bytes]) -> str:
    compiled, data = _compile(runtime, pattern), encode(text)
    parts: list[bytes] = []
    size = pos = last_end = 0
    while pos <= len(data):
        match = _search(runtime, compiled, data, pos)
        if match is None:
            break
        start, end = match.span()
        piece = data[last_end:start]
        if end > last_end or not start:
            piece += replacement(match)
        size += len(piece)
        runtime.budget.reserve(size if size > 1 << 16 else len(piece))
        parts.append(piece)
        last_end = end
        pos = max(pos + _width(data, pos), end) if pos < len(data) else max(pos + 1, end)
    return decode(b"".join((*parts, data[last_end:])))


@function("regexQuoteMeta", "string", letters=32)
def regex_quote_meta(text: str) -> str:
    return _META.sub(r"\\\g<0>", text)

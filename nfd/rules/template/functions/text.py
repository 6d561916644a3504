"""Functions on texts; upstream: Sprig strings.go, Masterminds/goutils."""

from __future__ import annotations

from typing import Any

from nfd.rules.regexp import decode, encode
from nfd.rules.scalars import SPACE
from nfd.rules.template.function_calls import Runtime, function
from nfd.rules.template.printf import join as join_texts
from nfd.rules.template.printf import sprint
from nfd.rules.template.printf_verbs import PLAIN, show
from nfd.rules.template.quoting import quote as quoted
from nfd.rules.template.values import GoList, GoMap, TemplateError, byte_length, cut

_SPACE_BYTES = frozenset(ord(char) for char in SPACE if ord(char) < 256)


@function("toString", "any", runtime=True)
def strval(runtime: Runtime, value: Any) -> str:
    """A value as text."""
    return value if isinstance(value, str) else show(value, "v", PLAIN, runtime.budget)


@function("toStrings", "any", runtime=True, letters=4)
def strslice(runtime: Runtime, value: Any) -> GoList:
    """A list of texts; nothing gives an empty list, nil entries are left out, a single value becomes a list of one."""
    if isinstance(value, GoList):
        if value.elem == "string":
            return value
        return GoList((strval(runtime, one) for one in value if one is not None), "string")
    return GoList(() if value is None else (strval(runtime, value),), "string")


@function("hello")
def hello() -> str:
    return "Hello!"


@function("trim", "string")
def trim(text: str) -> str:
    return text.strip(SPACE)


@function("trimall trimAll", "string", "string", runtime=True, letters=32)
def trim_all(runtime: Runtime, letters: str, text: str) -> str:
    """Each letter at the ends is looked for among those given."""
    if len(letters) > 32:
        letters = "".join(set(letters))
        runtime.budget.spend(len(letters) * len(text) >> 13)
    return text.strip(letters)


@function("trimSuffix", "string", "string")
def trim_suffix(suffix: str, text: str) -> str:
    return text.removesuffix(suffix)


@function("trimPrefix", "string", "string")
def trim_prefix(prefix: str, text: str) -> str:
    return text.removeprefix(prefix)


@function("contains", "string", "string")
def contains(part: str, text: str) -> bool:
    return part in text


@function("hasPrefix", "string", "string")
def has_prefix(prefix: str, text: str) -> bool:
    return text.startswith(prefix)


@function("hasSuffix", "string", "string")
def has_suffix(suffix: str, text: str) -> bool:
    return text.endswith(suffix)


@function("replace", "string", "string", "string", runtime=True)
def replace(runtime: Runtime, old: str, new: str, text: str) -> str:
    runtime.budget.reserve(len(text) + text.count(old) * max(len(new) - len(old), 0))
    return text.replace(old, new)


@function("repeat", "int", "string", runtime=True)
def repeat(runtime: Runtime, count: int, text: str) -> str:
    if count < 0:
        raise TemplateError("negative count")
    runtime.budget.reserve(count * len(text))
    return text * count


@function("trunc", "int", "string", letters=64)
def trunc(count: int, text: str) -> str:
    """The first bytes, or the last ones if the count is negative."""
    size = byte_length(text)
    if count < 0 and size + count > 0:
        return cut(text, size + count, None)
    return cut(text, None, count) if 0 <= count < size else text


@function("substr", "int", "int", "string", letters=64)
def substr(start: int, end: int, text: str) -> str:
    """Bytes from start to end; a negative start is the beginning, a negative end the end."""
    size = byte_length(text)
    if start < 0:
        start = 0
    elif end < 0 or end > size:
        end = size
    if not 0 <= start <= end <= size:
        raise TemplateError("slice bounds out of range")
    return cut(text, start, end)


@function("abbrev", "int", "string", letters=64)
def abbrev(width: int, text: str) -> str:
    return text if width < 4 else _abbreviate(text, 0, width)


@function("abbrevboth", "int", "int", "string", letters=64)
def abbrevboth(left: int, right: int, text: str) -> str:
    return text if right < 4 or (left > 0 and right < 7) else _abbreviate(text, left, right)


def _abbreviate(text: str, offset: int, width: int) -> str:
    size = byte_length(text)
    if size <= width:
        return text
    kept = width - 3
    offset = min(offset, size)
    if size - offset < kept:
        offset = size - kept
    if offset <= 4:
        return cut(text, 0, kept) + "..."
    if width < 7:
        return ""
    if offset + kept < size:
        return f"...{_abbreviate(cut(text, offset, None), 0, kept)}" if kept >= 4 else "..."
    return f"...{cut(text, size - kept, None)}"


@function("nospace", "string", letters=32)
def nospace(text: str) -> str:
    """Without blanks. Letters beyond ASCII come out as their bytes if there was a blank; so does upstream."""
    data = encode(text)
    kept = bytes(byte for byte in data if byte not in _SPACE_BYTES)
    return text if len(kept) == len(data) else kept.decode("latin-1")


@function("initials", "string", letters=16)
def initials(text: str) -> str:
    data = encode(text)
    return "".join(
        chr(byte)
        for index, byte in enumerate(data)
        if byte not in _SPACE_BYTES and (not index or data[index - 1] in _SPACE_BYTES)
    )


@function("plural", "string", "string", "int")
def plural(one: str, many: str, count: int) -> str:
    return one if count == 1 else many


@function("indent", "int", "string", runtime=True)
def indent(runtime: Runtime, spaces: int, text: str) -> str:
    if spaces < 0:
        raise TemplateError("negative count")
    runtime.budget.reserve(len(text) + spaces * (text.count("\n") + 1))
    pad = " " * spaces
    return pad + text.replace("\n", f"\n{pad}")


@function("nindent", "int", "string", runtime=True)
def nindent(runtime: Runtime, spaces: int, text: str) -> str:
    return f"\n{indent(runtime, spaces, text)}"


@function("quote", "*any", runtime=True, letters=8)
def quote(runtime: Runtime, *values: Any) -> str:
    texts = [strval(runtime, value) for value in values if value is not None]
    runtime.budget.spend(sum(map(len, texts)) >> 3)
    parts = [quoted(text) for text in texts]
    return join_texts(parts, runtime.budget, " ")


@function("squote", "*any", runtime=True, letters=64)
def squote(runtime: Runtime, *values: Any) -> str:
    parts = [f"'{strval(runtime, value)}'" for value in values if value is not None]
    return join_texts(parts, runtime.budget, " ")


@function("cat", "*any", runtime=True, letters=64)
def cat(runtime: Runtime, *values: Any) -> str:
    parts = [sprint([value], runtime.budget) for value in values if value is not None]
    return join_texts(parts, runtime.budget, " ")


@function("join", "string", "any", runtime=True, letters=16)
def join(runtime: Runtime, separator: str, value: Any) -> str:
    return join_texts(strslice(runtime, value), runtime.budget, separator)


@function("sortAlpha", "any", runtime=True, letters=1)
def sort_alpha(runtime: Runtime, value: Any) -> GoList:
    """Sorted by bytes; a list of texts is sorted in place, as upstream does."""
    if not isinstance(value, GoList):
        return GoList((strval(runtime, value),), "string")
    texts = strslice(runtime, value)
    runtime.budget.reserve(sum(map(len, texts)))
    texts.sort(key=encode)
    return texts


def split_text(separator: str, text: str, limit: int = -1) -> list[str]:
    """Go's strings.SplitN: an empty separator splits letters, a limit below zero is none."""
    if not limit:
        return []
    if not separator:
        letters = list(text)
        return letters if limit < 0 or len(letters) <= limit else [*letters[: limit - 1], "".join(letters[limit - 1 :])]
    return text.split(separator, limit - 1 if limit > 0 else -1)


@function("splitList", "string", "string", letters=16)
def split_list(separator: str, text: str) -> GoList:
    return GoList(split_text(separator, text), "string")


@function("split", "string", "string", letters=2)
def split(separator: str, text: str) -> GoMap:
    return _numbered(split_text(separator, text))


@function("splitn", "string", "int", "string", letters=2)
def splitn(separator: str, limit: int, text: str) -> GoMap:
    return _numbered(split_text(separator, text, limit))


def _numbered(parts: list[str]) -> GoMap:
    return GoMap({f"_{index}": part for index, part in enumerate(parts)}, "string")


@function("wrap", "int", "string", letters=16)
def wrap(width: int, text: str) -> str:
    return _wrap(text, width, "\n", cut_words=False)


@function("wrapWith", "int", "string", "string", runtime=True, letters=4)
def wrap_with(runtime: Runtime, width: int, separator: str, text: str) -> str:
    runtime.budget.reserve(len(text) + len(separator) * (len(text) // max(width, 1) + 1))
    return _wrap(text, width, separator or "\n", cut_words=True)


def _wrap(text: str, width: int, separator: str, *, cut_words: bool) -> str:
    data, line_end = encode(text), encode(separator)
    width = max(width, 1)
    lines: list[bytes] = []
    offset = 0
    while len(data) - offset > width:
        if data[offset] == 0x20:
            offset += 1
            continue
        space = data.rfind(b" ", offset, offset + width + 1)
        if space < 0 and cut_words:
            lines.append(data[offset : offset + width])
            offset += width
            continue
        space = data.find(b" ", offset + width) if space < 0 else space
        if space < 0:
            lines.append(data[offset:])
            return decode(line_end.join(lines))
        lines.append(data[offset:space])
        offset = space + 1
    return decode(line_end.join((*lines, data[offset:])))

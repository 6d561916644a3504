"""Encodings, check sums and JSON; upstream: Sprig strings.go, crypto.go and defaults.go, Go encoding/json."""

from __future__ import annotations

import base64
import hashlib
import json
import math
import re
import zlib
from functools import partial
from typing import Any

from nfd.rules.regexp import decode, encode
from nfd.rules.template.function_calls import Runtime, function
from nfd.rules.template.quoting import format_float
from nfd.rules.template.values import MAX_NESTING, GoList, GoMap, GoObject, TemplateError, legible, type_name

_BASE64 = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/")
_BROKEN = re.compile("[\ud800-\udfff]")
_BASE32 = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567")


@function("b64enc", "string", letters=64)
def b64enc(text: str) -> str:
    return base64.b64encode(encode(text)).decode()


@function("b32enc", "string", letters=16)
def b32enc(text: str) -> str:
    return base64.b32encode(encode(text)).decode()


@function("b64dec", "string", letters=8)
def b64dec(text: str) -> str:
    """Broken input gives the mistake as text, as upstream does."""
    data = encode(text)
    bad = _base64_mistake(data)
    if bad is not None:
        return f"illegal base64 data at input byte {bad}"
    return decode(base64.b64decode(data.translate(None, b"\r\n")))


def _base64_mistake(data: bytes) -> int | None:
    """Where the first mistake is, as Go counts."""
    letters = [(index, byte) for index, byte in enumerate(data) if byte not in b"\r\n"]
    place = next((place for place, (_, byte) in enumerate(letters) if byte not in _BASE64), len(letters))
    if place == len(letters):
        return len(data) - place % 4 if place % 4 else None
    index, byte = letters[place]
    if byte != ord("=") or place % 4 < 2:
        return index
    if place % 4 == 2:
        place += 1
        if place == len(letters):
            return len(data)
        if letters[place][1] != ord("="):
            return letters[place][0] - 1
    return letters[place + 1][0] if place + 1 < len(letters) else None


@function("b32dec", "string", letters=8)
def b32dec(text: str) -> str:
    """Broken input gives the mistake as text, as upstream does."""
    data = encode(text).translate(None, b"\r\n")
    end, bad = _base32_end(data)
    if bad is not None:
        return f"illegal base32 data at input byte {bad}"
    return decode(base64.b32decode(data[:end] + b"=" * (-end % 8)))


def _base32_end(data: bytes) -> tuple[int, int | None]:
    """Where the letters end, and where Go finds the first mistake; what follows the padding is not looked at."""
    for start in range(0, len(data), 8):
        for place in range(8):
            at = start + place
            if at == len(data):
                return at, start
            if data[at] == ord("=") and place >= 2 and len(data) - at <= 8:
                return at, _padding_mistake(data, at, place)
            if data[at] not in _BASE32:
                return at, at
    return len(data), None


def _padding_mistake(data: bytes, at: int, place: int) -> int | None:
    if len(data) - at < 8 - place:
        return len(data)
    wrong = next((index for index in range(at + 1, at + 8 - place) if data[index] != ord("=")), None)
    if wrong is not None:
        return wrong - 1
    return at if place in (3, 6) else None


def _hexdigest(algorithm: str, text: str) -> str:
    return hashlib.new(algorithm, encode(text), usedforsecurity=False).hexdigest()


function("sha1sum", "string")(partial(_hexdigest, "sha1"))
function("sha256sum", "string")(partial(_hexdigest, "sha256"))
function("sha512sum", "string")(partial(_hexdigest, "sha512"))


@function("adler32sum", "string")
def adler32sum(text: str) -> str:
    return str(zlib.adler32(encode(text)))


@function("fromJson", "string", letters=4)
def from_json(text: str) -> Any:
    """Broken JSON gives nothing, a number out of range in it is nothing."""
    try:
        return _as_go(_parsed(text))
    except TemplateError:
        return None


@function("mustFromJson", "string", letters=4)
def must_from_json(text: str) -> Any:
    return _as_go(_parsed(text), strict=True)


def _parsed(text: str) -> Any:
    try:
        return json.loads(legible(text), parse_int=float, parse_constant=_refuse)
    except (ValueError, RecursionError) as error:
        raise TemplateError(f"not JSON: {type(error).__name__}") from error


def _refuse(name: str) -> Any:
    raise ValueError(name)


def _as_go(value: Any, depth: int = 0, *, strict: bool = False) -> Any:
    if depth > MAX_NESTING:
        raise TemplateError("value is nested too deeply")
    if isinstance(value, dict):
        return GoMap({_sound(key): _as_go(one, depth + 1, strict=strict) for key, one in value.items()})
    if isinstance(value, list):
        return GoList(_as_go(one, depth + 1, strict=strict) for one in value)
    if isinstance(value, float) and math.isinf(value):
        if strict:
            raise TemplateError("number out of range")
        return None
    return _sound(value) if isinstance(value, str) else value


def _sound(text: str) -> str:
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


@function("mustToJson", "any", runtime=True)
def must_to_json(runtime: Runtime, value: Any, *, indent: bool = False) -> str:
    return _json(runtime, value, indent=indent).replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")


@function("toJson", "any", runtime=True, letters=32)
def to_json(runtime: Runtime, value: Any, *, indent: bool = False) -> str:
    """Nothing for what has no JSON form."""
    try:
        return must_to_json(runtime, value, indent=indent)
    except ValueError:
        return ""


function("mustToPrettyJson", "any", runtime=True)(partial(must_to_json, indent=True))
function("toPrettyJson", "any", runtime=True)(partial(to_json, indent=True))


@function("toRawJson mustToRawJson", "any", runtime=True)
def _json(runtime: Runtime, value: Any, *, indent: bool = False, depth: int = 0) -> str:
    """JSON with sorted keys. Raises: ValueError for what has no JSON form."""
    runtime.budget.spend()
    if depth > MAX_NESTING:
        raise TemplateError("value is nested too deeply")
    if isinstance(value, GoList | GoMap) and value.is_nil:
        return "null"
    if isinstance(value, GoMap):
        colon = ": " if indent else ":"
        parts = [
            _quote(key) + colon + _json(runtime, value[key], indent=indent, depth=depth + 1) for key in sorted(value)
        ]
        return _wrapped(runtime, parts, "{}", indent, depth)
    if isinstance(value, GoList):
        parts = [_json(runtime, one, indent=indent, depth=depth + 1) for one in value]
        return _wrapped(runtime, parts, "[]", indent, depth)
    text = _json_scalar(value)
    runtime.budget.check(text)
    return text


def _wrapped(runtime: Runtime, parts: list[str], brackets: str, indent: bool, depth: int) -> str:
    runtime.budget.reserve(sum(map(len, parts)) + 2 * len(parts) * (depth + 2))
    if not indent or not parts:
        return f"{brackets[0]}{','.join(parts)}{brackets[1]}"
    pad = "\n" + "  " * (depth + 1)
    return f"{brackets[0]}{pad}{(',' + pad).join(parts)}{pad[:-2]}{brackets[1]}"


def _json_scalar(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(int(value))
    if isinstance(value, float) and math.isfinite(value):
        return _json_float(value)
    if isinstance(value, str):
        return _quote(value)
    if isinstance(value, GoObject):
        return _quote(value.json_text())
    raise ValueError(f"no JSON form of a {type_name(value)}")


def _json_float(value: float) -> str:
    if value and not 1e-6 <= abs(value) < 1e21:
        text = format_float(value, "e")
        return text[:-2] + text[-1] if text[-4:-1] == "e-0" else text
    return format_float(value, "f")


def _quote(text: str) -> str:
    quoted = json.dumps(decode(encode(text)), ensure_ascii=False)
    quoted = quoted if quoted.isascii() else _BROKEN.sub(r"\\ufffd", quoted)
    return quoted.replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")

"""Taking URLs apart and putting them together; upstream: Sprig url.go, Go net/url."""

from __future__ import annotations

import re
from urllib.parse import quote, unquote_to_bytes

from nfd.rules.regexp import decode, encode
from nfd.rules.template.function_calls import Library
from nfd.rules.template.values import GoMap, TemplateError, kind_of

LIBRARY = Library()
function = LIBRARY.function

_SCHEME = re.compile(r"([a-zA-Z][a-zA-Z0-9+.-]*):", re.ASCII)
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_BAD_ESCAPE = re.compile(r"%(?![0-9a-fA-F]{2})", re.ASCII)
_PORT = re.compile(r"(?::[0-9]*)?", re.ASCII)
_HOST_SAFE = "!$&'()*+,;=:[]<>\"~"
_PATH_SAFE = "$&+,/:;=@!'()*~"


@function("urlParse", "string", letters=16)
def url_parse(text: str) -> GoMap:
    rest, hash_sign, fragment = text.partition("#")
    if _CONTROL.search(text):
        raise TemplateError("invalid control character in URL")
    scheme, rest = _scheme(rest)
    rest, _, query = rest.partition("?")
    parts = dict.fromkeys(("scheme", "host", "hostname", "path", "query", "opaque", "fragment", "userinfo"), "")
    parts |= {"scheme": scheme.lower(), "query": query, "fragment": _unescape(fragment) if hash_sign else ""}
    if scheme and rest and not rest.startswith("/"):
        return GoMap(parts | {"opaque": rest})
    if not rest.startswith("/") and ":" in rest.partition("/")[0]:
        raise TemplateError("first path segment in URL cannot contain colon")
    if rest.startswith("//") and (scheme or not rest.startswith("///")):
        authority, slash, path = rest[2:].partition("/")
        parts |= _authority(authority)
        rest = slash + path
    return GoMap(parts | {"path": _unescape(rest)})


def _scheme(text: str) -> tuple[str, str]:
    match = _SCHEME.match(text)
    if match:
        return match[1], text[match.end() :]
    if text.startswith(":"):
        raise TemplateError("missing protocol scheme")
    return "", text


def _authority(text: str) -> dict[str, str]:
    userinfo, _, host = text.rpartition("@")
    _, colon, port = host.rpartition("]") if host.startswith("[") else ("", "", host)
    name, _, _ = (host[1:].partition("]")) if colon else host.partition(":")
    if not _PORT.fullmatch(port if colon else host[len(name) :]):
        raise TemplateError("invalid port after host")
    if re.search(r"[ <>\"\\^`{|}]", host):
        raise TemplateError("invalid character in host name")
    return {"host": _unescape(host), "hostname": _unescape(name), "userinfo": _user(userinfo)}


def _unescape(text: str) -> str:
    if _BAD_ESCAPE.search(text):
        raise TemplateError("invalid URL escape")
    return decode(unquote_to_bytes(encode(text)))


def _user(text: str) -> str:
    """Name and password, each escaped anew."""
    name, colon, password = text.partition(":")
    return colon.join(quote(encode(_unescape(one)), safe="$&+,;=~") for one in (name, password)[: 1 + len(colon)])


@function("urlJoin", "dict", letters=16)
def url_join(parts: GoMap) -> str:
    def part(key: str) -> str:
        value = parts.get(key, "")
        if not isinstance(value, str):
            raise TemplateError(f"{key} must be of type string, but {kind_of(value)} found")
        return value

    scheme, host, userinfo = part("scheme"), part("host"), part("userinfo")
    userinfo = _user(userinfo)
    text = f"{scheme}:" if scheme else ""
    if opaque := part("opaque"):
        text += opaque
    else:
        path = quote(encode(part("path")), safe=_PATH_SAFE)
        if host or userinfo or (scheme and path):
            text += f"//{userinfo}{'@' if userinfo else ''}{quote(encode(host), safe=_HOST_SAFE)}"
        if path and not path.startswith("/") and host:
            path = f"/{path}"
        if not text and ":" in path.partition("/")[0]:
            path = f"./{path}"
        text += path
    text += f"?{query}" if (query := part("query")) else ""
    return text + (f"#{quote(encode(fragment), safe=_PATH_SAFE)}" if (fragment := part("fragment")) else "")

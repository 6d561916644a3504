"""Taking URLs apart and putting them together; upstream: Sprig url.go, Go net/url."""

from __future__ import annotations

import re
import string
from ipaddress import IPv6Address
from urllib.parse import quote, unquote_to_bytes

from nfd.rules.regexp import decode, encode
from nfd.rules.template.function_calls import function
from nfd.rules.template.values import GoMap, TemplateError, kind_of

_SCHEME = re.compile(r"([a-zA-Z][a-zA-Z0-9+.-]*):", re.ASCII)
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_BAD_ESCAPE = re.compile(r"%(?![0-9a-fA-F]{2})", re.ASCII)
_PORT = re.compile(r"(?::[0-9]*)?", re.ASCII)
_USERINFO = re.compile(r"[a-zA-Z0-9._:~!$&'()*+,;=%@-]*")
_HOST_SAFE = "!$&'()*+,;=:[]<>\"~"
_HOST_LETTERS = f"{string.ascii_letters}{string.digits}-_.{_HOST_SAFE}"
_WITHOUT_HOST_LETTERS = str.maketrans("", "", _HOST_LETTERS)
_HOST_ESCAPES = re.compile(r"%(?:25|[89a-fA-F][0-9a-fA-F])")
_ZONE_ESCAPES = re.compile("%(?:25|20|" + "|".join(f"{ord(one):02x}" for one in _HOST_LETTERS) + ")", re.IGNORECASE)
_PATH_SAFE = "$&+,/:;=@~"
_FRAGMENT_SAFE = _PATH_SAFE + "?!()*"


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
        parts |= _authority(scheme, authority)
        rest = slash + path
    return GoMap(parts | {"path": _unescape(rest)})


def _scheme(text: str) -> tuple[str, str]:
    match = _SCHEME.match(text)
    if match:
        return match[1], text[match.end() :]
    if text.startswith(":"):
        raise TemplateError("missing protocol scheme")
    return "", text


def _authority(scheme: str, text: str) -> dict[str, str]:
    userinfo, _, host = text.rpartition("@")
    if not _USERINFO.fullmatch(userinfo):
        raise TemplateError("invalid userinfo")
    host = _host(scheme, host)
    name, colon, port = host.rpartition(":")
    name = name if colon and _PORT.fullmatch(colon + port) else host
    if name.startswith("[") and name.endswith("]"):
        name = name[1:-1]
    return {"host": host, "hostname": name, "userinfo": _user(userinfo)}


def _host(scheme: str, text: str) -> str:
    """Host and port, unescaped. Only an IPv6 address has brackets, and only http and https allow no second colon."""
    if "[" in text[1:]:
        raise TemplateError("invalid IP-literal")
    if not text.startswith("["):
        name, colon, port = text.partition(":") if scheme.lower() in ("http", "https") else text.rpartition(":")
        if not _PORT.fullmatch(colon + port if colon else ""):
            raise TemplateError("invalid port after host")
        return _unescape_host(text, _HOST_ESCAPES)
    name, bracket, port = text[1:].rpartition("]")
    if not bracket:
        raise TemplateError("missing ']' in host")
    if not _PORT.fullmatch(port):
        raise TemplateError("invalid port after host")
    address, percent, zone = name.partition("%25")
    address = _unescape_host(address, _HOST_ESCAPES) + _unescape_host(percent + zone, _ZONE_ESCAPES)
    number, percent, zone = address.partition("%")
    try:
        IPv6Address(number)
    except ValueError as error:
        raise TemplateError("invalid host") from error
    if percent and not zone:
        raise TemplateError("invalid host")
    return f"[{address}]{port}"


def _unescape_host(text: str, escapes: re.Pattern[str]) -> str:
    """`escapes` are what may be escaped there."""
    bare = escapes.sub("", text)
    if re.search(r"[^%\x80-\U0010ffff]", bare.translate(_WITHOUT_HOST_LETTERS)):
        raise TemplateError("invalid character in host name")
    if "%" in bare:
        raise TemplateError("invalid URL escape")
    return _unescape(text)


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
    userinfo = url_parse(f"x://{userinfo}@x").get("userinfo", "") if userinfo else ""
    text = f"{scheme}:" if scheme else ""
    if opaque := part("opaque"):
        text += opaque
    else:
        path = part("path")
        path = path if path == "*" else quote(encode(path), safe=_PATH_SAFE)
        if host or userinfo or (scheme and path):
            text += f"//{userinfo}{'@' if userinfo else ''}{quote(encode(host), safe=_HOST_SAFE)}"
        if path and not path.startswith("/") and host:
            path = f"/{path}"
        if not text and ":" in path.partition("/")[0]:
            path = f"./{path}"
        text += path
    text += f"?{query}" if (query := part("query")) else ""
    return text + (f"#{quote(encode(fragment), safe=_FRAGMENT_SAFE)}" if (fragment := part("fragment")) else "")

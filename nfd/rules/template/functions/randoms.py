"""Functions whose result is another one every time, and those that make keys and passwords, which we refuse.

A label that changes with every evaluation is rewritten on every pass; upstream offers them all the same.
"""

from __future__ import annotations

import base64
import string
from random import SystemRandom
from typing import Any

from nfd.rules.template.calls import Library, Runtime
from nfd.rules.template.values import TemplateError

LIBRARY = Library()
function = LIBRARY.function
_RANDOM = SystemRandom()

SECRETS = (
    "bcrypt htpasswd genPrivateKey derivePassword buildCustomCert genCA genCAWithKey genSelfSignedCert "
    "genSelfSignedCertWithKey genSignedCert genSignedCertWithKey encryptAES decryptAES"
)


@function(SECRETS, "*any")
def refuse(*_arguments: Any) -> str:
    """Known, so that a template parses, but never run: slow on purpose, and no node attribute is a place for keys."""
    raise TemplateError("keys and passwords are not made in rules")


def _letters(runtime: Runtime, count: int, alphabet: str) -> str:
    if count < 0:
        return ""
    runtime.budget.reserve(count)
    return "".join(_RANDOM.choices(alphabet, k=count))


@function("randAlphaNum", "int", runtime=True)
def rand_alpha_num(runtime: Runtime, count: int) -> str:
    return _letters(runtime, count, string.ascii_letters + string.digits)


@function("randAlpha", "int", runtime=True)
def rand_alpha(runtime: Runtime, count: int) -> str:
    return _letters(runtime, count, string.ascii_letters)


@function("randNumeric", "int", runtime=True)
def rand_numeric(runtime: Runtime, count: int) -> str:
    return _letters(runtime, count, string.digits)


@function("randAscii", "int", runtime=True)
def rand_ascii(runtime: Runtime, count: int) -> str:
    return _letters(runtime, count, "".join(map(chr, range(32, 127))))


@function("randBytes", "int", runtime=True)
def rand_bytes(runtime: Runtime, count: int) -> str:
    if count < 0:
        raise TemplateError("negative count")
    runtime.budget.reserve(count * 2)
    return base64.b64encode(_RANDOM.randbytes(count)).decode()


@function("randInt", "int", "int")
def rand_int(low: int, high: int) -> int:
    if high <= low:
        raise TemplateError("empty range")
    return _RANDOM.randrange(low, high)


@function("shuffle", "string")
def shuffle(text: str) -> str:
    return "".join(_RANDOM.sample(text, len(text)))


@function("uuidv4")
def uuidv4() -> str:
    digits = f"{_RANDOM.getrandbits(128):032x}"
    variant = "89ab"[int(digits[16], 16) & 3]
    return f"{digits[:8]}-{digits[8:12]}-4{digits[13:16]}-{variant}{digits[17:20]}-{digits[20:]}"

"""How device and machine names become the value of a label, and how long ones are shortened."""

from __future__ import annotations

import re

from nfd import names

CUT = ".."
"""Stands where a model's name was shortened."""

_REMOVED = re.compile(r"[^A-Za-z0-9_. -]", re.ASCII)
_TAIL = re.compile(r"-MIG-|-SHARED$")


def sanitize(text: str) -> str:
    """Only letters, digits, `-`, `_`, `.`; runs of blanks become one dash, everything else vanishes."""
    return "-".join(_REMOVED.sub("", text).split())


def product(*parts: str) -> str:
    """The parts of a product name joined by dashes; one that was empty from the start is left out."""
    return "-".join(sanitize(part) for part in parts if part)


def compose(model: str, profile: str = "", suffix: str = "") -> str:
    """The product of a model with a MIG profile, or the suffix of a shared one.

    What tells such products apart stands at the end, so where the whole is longer than a label's value the model is
    shortened in its middle: `NVIDIA-RTX-PRO-6000-Bla..orkstation-Edition-MIG-1g.24gb.gfx`. A model alone is not.
    """
    tail = product(model, "MIG", profile)[len(sanitize(model)) :] + suffix if profile else suffix
    name = sanitize(model)
    return shorten(name, names.MAX_NAME - len(tail)) + tail if tail else name


def shorten(name: str, limit: int) -> str:
    """Both ends of a name that is longer than `limit` characters."""
    if len(name) <= limit:
        return name
    kept = max(limit - len(CUT), 0)
    return name[: kept - kept // 2] + CUT + name[len(name) - kept // 2 :]


def is_product_of(value: str, model: str) -> bool:
    """Whether a product's label is about that model, whatever its profile, and whether it is shared."""
    name = sanitize(model)
    if value == names.clean(name) or value.startswith(f"{name}-"):
        return True
    head, cut, rest = value.partition(CUT)
    return bool(cut) and name.startswith(head) and name.endswith(_TAIL.split(rest)[0])

"""The kernel's release, as `uname -r` prints it."""

from __future__ import annotations

import re

from nfd.host import Host
from nfd.host.blanks_and_numbers import BLANK

RELEASE_FILE = "proc/sys/kernel/osrelease"

_PARTS = re.compile(r"([0-9]+)(?:\.([0-9]+))?(?:\.([0-9]+))?(?:-.*)?", re.ASCII | re.DOTALL)
_ILLEGAL = re.compile(r"[^A-Za-z0-9_.-]", re.ASCII)


def read_release(host: Host) -> str | None:
    """The release; None if there is none."""
    text = host.text(RELEASE_FILE)
    return None if text is None else text.strip(BLANK)


def parse(release: str) -> dict[str, str]:
    """`full`, the release with `_` for each character that a label value cannot have and without signs at its ends.

    `major`, `minor` and `revision` where the whole of it is up to three numbers, then nothing or `-` and anything; a
    number that is not there has no entry. Leading zeros stay, the length is not limited.
    """
    full = _ILLEGAL.sub("_", release).strip("-_.")
    match = _PARTS.fullmatch(full)
    parts = zip(("major", "minor", "revision"), match.groups() if match else (), strict=False)
    return {"full": full, **{name: part for name, part in parts if part is not None}}

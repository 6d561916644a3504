"""Writes a version wherever the files say theirs: `python -m release.version VERSION`, called by `make version`."""

from __future__ import annotations

import sys
from pathlib import Path

from release.errors import ReleaseError
from release.source import write_version

if __name__ == "__main__":
    try:
        write_version(" ".join(sys.argv[1:]), Path(__file__).parents[1])
    except ReleaseError as error:
        raise SystemExit(f"error: {error}") from None

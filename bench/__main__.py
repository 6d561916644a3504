"""Runs every benchmark of this folder, each in a process of its own: `python -m bench [NAME…] [OPTION…]`."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

FOLDER = Path(__file__).parent


def main() -> int:
    first = next((at for at, word in enumerate(sys.argv) if word.startswith("-")), len(sys.argv))
    options = sys.argv[first:]
    failed = 0
    for name in sys.argv[1:first] or benchmarks():
        print(f"\n{name}", flush=True)
        failed |= subprocess.run([sys.executable, "-m", f"bench.{name}", *options], check=False).returncode
    return failed


def benchmarks() -> list[str]:
    """Modules, and packages that can be run; what begins with an underscore is for the others."""
    found = [*FOLDER.glob("*.py"), *(path.parent for path in FOLDER.glob("*/__main__.py"))]
    return sorted(path.stem for path in found if not path.name.startswith("_"))


if __name__ == "__main__":
    raise SystemExit(main())

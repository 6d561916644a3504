"""Runs every benchmark of this folder, each in a process of its own: `python -m bench [NAME…]`."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path


def main() -> int:
    names = sys.argv[1:] or sorted(
        path.stem for path in Path(__file__).parent.glob("*.py") if not path.name.startswith("_")
    )
    failed = 0
    for name in names:
        print(f"\n{name}", flush=True)
        failed |= subprocess.run([sys.executable, "-m", f"bench.{name}"], check=False).returncode
    return failed


if __name__ == "__main__":
    raise SystemExit(main())

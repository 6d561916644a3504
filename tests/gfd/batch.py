"""Runs `gpu-feature-discovery` many times in one process: JSON starts on standard input, JSON outcomes on output."""

import io
import json
import os
import sys
from contextlib import redirect_stderr, redirect_stdout

from gfd.cli import run


def main() -> None:
    outcomes = []
    for start in json.load(sys.stdin):
        os.environ.clear()
        os.environ.update(start["environment"])
        out, err = io.StringIO(), io.StringIO()
        with redirect_stdout(out), redirect_stderr(err):
            code = run(start["argv"], os.environ)
        outcomes.append({"code": code, "stdout": out.getvalue(), "stderr": err.getvalue()})
    json.dump(outcomes, sys.stdout)


if __name__ == "__main__":
    main()

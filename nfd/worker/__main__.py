"""The program `nfd-worker`: its command line, in a process that goes without OpenSSL.

A plug-in that imports `ssl` later gets it.
"""

from __future__ import annotations

import sys

from nfd.runtime.malloc import OPENSSL, absent
from nfd.runtime.signals import begin


def main() -> int:
    """Exit status: 0 (also after a signal), 1 (--oneshot failed) or 2 (usage or configuration)."""
    begin()
    with absent(*OPENSSL):
        import asyncio  # noqa: F401  # what grpc imports with the first report
        import hmac  # noqa: F401

        from nfd.worker import cli
    return cli.main()


if __name__ == "__main__":
    sys.exit(main())

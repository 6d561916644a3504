"""The program `nfd-master`: its command line, in a process whose log has only JSON lines.

gRPC's C core has its own log, with a raw line for each failed handshake. It reads its settings when it is loaded;
settings of the operator stay (gRPC documentation, "gRPC environment variables").
"""

from __future__ import annotations

import os
import sys

from nfd.runtime.signals import begin


def main() -> int:
    """Exit status: 0 (also after a signal), 1 (failed) or 2 (usage or configuration)."""
    begin()
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")
    from nfd.master import cli

    return cli.main()


if __name__ == "__main__":
    sys.exit(main())

"""`nfd` and `kubectl-nfd`: the commands for people.

Each command is a module of this package with `add_flags(parser)`, `run(args) -> int` and perhaps `EXAMPLES`. It is
imported only when it is called.
"""

from nfd.cli.run_command import ALIASES as ALIASES
from nfd.cli.run_command import COMMANDS as COMMANDS
from nfd.cli.run_command import inspect_gpushare as inspect_gpushare
from nfd.cli.run_command import main as main

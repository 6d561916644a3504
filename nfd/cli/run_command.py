"""The `main` of `nfd`: which commands there are, running one of them, and the exit status of each failure.

Exit status: 0, 1 (failed), 2 (usage), 130 (interrupted), 141 (output closed).
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from io import TextIOWrapper

from nfd import __version__

COMMANDS = {
    "nodes": "the nodes of a cluster: GPUs, processor, kernel, taints, problems",
    "gpus": "GPUs and other accelerators of the cluster, and how much of them is allocated",
    "find": "nodes that match an expression, and the same expression as nodeAffinity",
    "explain": "why a node has a label, or why not",
    "diff": "differences between two nodes",
    "plan": "what a change of configuration or rules would do to the nodes",
    "report": "a bundle for a bug report, without serial numbers and addresses",
    "up": "worker and master on this machine, without a cluster: label, show, keep watching",
    "discover": "scan a machine once and print its labels or features",
    "record": "write what a scan reads to a directory, to replay it elsewhere",
    "rules": "try out and check NodeFeatureRules: eval, validate",
    "config": "the configuration's schema, example and reference; validate a file",
    "validate": "check a rule file, as NFD's plug-in does",
    "test": "evaluate rules on a node of the cluster, as NFD's plug-in does",
    "dryrun": "evaluate rules on a file of features, as NFD's plug-in does",
    "export": "features or labels of this machine as NFD's client does; templates of nodes; a snapshot of the cluster",
    "compat": "whether this machine is compatible with an image, as NFD's client does; nodes of the cluster that are",
    "completion": "completion for bash, zsh and fish",
}

ALIASES = {"accelerators": "gpus"}

_INTERRUPTED = 130
_UNREAD = 141
"""The exit status of a shell after SIGPIPE: the output was closed before the result was known."""
_VERDICTS = frozenset(("rules", "config", "validate", "test", "dryrun", "plan", "compat", "export"))
"""Commands whose exit status is their result. Other commands succeed if their output is closed."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return the exit status."""
    words = sys.argv[1:] if argv is None else list(argv)
    program = "kubectl nfd" if os.path.basename(sys.argv[0]).startswith("kubectl") else "nfd"  # noqa: PTH119
    if sys.stderr is None:  # the parent process closed it
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: PTH123, SIM115
    if sys.stdout is None:
        sys.stderr.write(f"{program}: standard output: is closed\n")
        return 1
    status = _UNREAD if _VERDICTS.intersection(words[:1]) else 0
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(encoding="utf-8", errors="backslashreplace")
    try:
        status = _run(program, words)
        sys.stdout.flush()
    except KeyboardInterrupt:
        return _INTERRUPTED
    except BrokenPipeError:  # the reader of the output has closed it
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return status
    except OSError as error:  # the commands handle all other errors
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.stderr.write(f"{program}: {error.filename or 'standard output'}: {error.strerror or error}\n")
        return 1
    return status


def inspect_gpushare(argv: Sequence[str] | None = None) -> int:
    """`kubectl inspect gpushare`: the name of gpushare's own table of pods and GPUs, for `nfd gpus --pods`."""
    words = sys.argv[1:] if argv is None else list(argv)
    return main(words if words in (["--version"], ["version"]) else ["gpus", "--pods", *words])


def _run(program: str, words: list[str]) -> int:
    if words in (["--version"], ["-version"], ["version"]):
        sys.stdout.write(f"{program} {__version__}\n")
        return 0
    if not words or words[0] in ("-h", "--help") or words == ["help"]:
        (sys.stdout if words else sys.stderr).write(_usage(program))
        return 0 if words else 2
    if words[0] == "help":
        return _help(program, words[1:])
    words = _flags_last(words)
    words = [ALIASES.get(words[0], words[0]), *words[1:]]
    if words[0] not in COMMANDS:
        from nfd.message_text import did_you_mean

        hint = did_you_mean(words[0], COMMANDS) or f"; known are {', '.join(COMMANDS)}"
        sys.stderr.write(f"{program}: {words[0]}: unknown command{hint}\n")
        return 2
    return _command(program, words[0], words[1:])


def _flags_last(words: list[str]) -> list[str]:
    """Flags for the cluster that stand before the command, as kubectl accepts them, behind its name."""
    if not words[0].startswith("-"):
        return words
    from nfd.cli.cluster import CLUSTER_FLAGS

    index = 0
    while index < len(words) and (flag := words[index].partition("=")[0]) in (*CLUSTER_FLAGS, "-n"):
        index += 1 if flag != words[index] else 2
    return [*words[index : index + 1], *words[:index], *words[index + 1 :]] or words


def _help(program: str, words: list[str]) -> int:
    """`help COMMAND` is `COMMAND --help`; `help --man` a manual page."""
    if words == ["--man"]:
        from nfd.cli.reference import manual

        sys.stdout.write(manual())
        return 0
    return _run(program, [words[0], "--help"]) if words[0] in {**COMMANDS, **ALIASES} else _run(program, words)


def _command(program: str, name: str, words: list[str]) -> int:
    from nfd.cli.parsers import make_parser
    from nfd.errors import ConfigError, NfdError
    from nfd.runtime.optional_packages import extras

    try:
        parser, command = make_parser(program, name)
        with extras():
            status: int = command.run(parser.parse_args(words))
    except NfdError as error:
        from nfd.runtime.log import complain

        complain(f"{program} {name}", error)
        return 2 if isinstance(error, ConfigError) else 1
    except SystemExit as answer:  # --help
        return int(answer.code or 0)
    return status


def _usage(program: str) -> str:
    width = max(map(len, COMMANDS))
    lines = [f"  {name:{width}}  {about}" for name, about in COMMANDS.items()]
    more = f"More: {program} COMMAND --help, {program} help --man"
    return "\n".join([f"Usage: {program} COMMAND [flags]", "", *lines, "", more, ""])

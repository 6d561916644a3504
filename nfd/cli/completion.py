"""Completion for a shell, made from the same parsers as --help: commands, flags, their values, files, and names of
nodes, which the cluster is asked for while you type."""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace

EXAMPLES = (
    ("completion bash > /etc/bash_completion.d/nfd", "for all users of bash"),
    ('completion zsh > "${fpath[1]}/_nfd"', "for zsh"),
    ("completion fish > ~/.config/fish/completions/nfd.fish", "for fish"),
)
SHELLS = ("bash", "zsh", "fish")


def add_flags(parser: ArgumentParser) -> None:
    parser.add_argument("shell", choices=SHELLS, help="which shell")


def run(args: Namespace) -> int:
    from nfd.cli.shells import render

    sys.stdout.write(render(args.shell))
    return 0

"""Print the completion script for a shell. It completes commands, flags, their values, files, and names of nodes, which
it reads from the cluster while you type."""

from __future__ import annotations

import shlex
import sys
from argparse import Action, ArgumentParser, Namespace, _SubParsersAction
from collections.abc import Iterator
from dataclasses import dataclass

from nfd.cli import COMMANDS
from nfd.cli.parsers import make_parser, subcommands

EXAMPLES = (
    ("completion bash > /etc/bash_completion.d/nfd", "for all users of bash"),
    ('completion zsh > "${fpath[1]}/_nfd"', "for zsh"),
    ("completion fish > ~/.config/fish/completions/nfd.fish", "for fish"),
)
SHELLS = ("bash", "zsh", "fish")


def add_flags(parser: ArgumentParser) -> None:
    parser.add_argument("shell", choices=SHELLS, help="the shell")


def run(args: Namespace) -> int:
    sys.stdout.write(render(args.shell))
    return 0


_NAMES = "nfd nodes -o name 2>/dev/null | sed s,^node/,,"
_BASH = """\
# bash completion for nfd and kubectl-nfd, written by `nfd completion bash`
_nfd_words() {{  # the words that may stand next, for the path $1 and the flag before, $2
    case "$1 $2" in
{flags}
    esac
    case "$1" in
{paths}
    esac
}}

_nfd() {{
    local cur=${{COMP_WORDS[COMP_CWORD]}} prev= path= word found index
    COMPREPLY=()
    for ((index = 1; index < COMP_CWORD; index++)); do
        word=${{COMP_WORDS[index]}}
        case "$path $word" in
{descents}
        esac
    done
    if ((COMP_CWORD > 1)); then prev=${{COMP_WORDS[COMP_CWORD - 1]}}; fi
    case "$prev" in -*) ;; *) prev= ;; esac
    found=$(_nfd_words "$path" "$prev")
    if [[ $found == @file ]]; then COMPREPLY=($(compgen -f -- "$cur")); return; fi
    if [[ $found == *@node* ]]; then found="${{found//@node/}} $({names})"; fi
    COMPREPLY=($(compgen -W "${{found//@file/}}" -- "$cur"))
    if [[ $found == *@file* ]]; then COMPREPLY+=($(compgen -f -- "$cur")); fi
}}
"""
_BASH_END = "complete -o filenames -F _nfd nfd kubectl-nfd\n"
_ZSH_HEAD = """\
#compdef nfd kubectl-nfd
# zsh completion, written by `nfd completion zsh`
autoload -U +X bashcompinit && bashcompinit
"""


def render(shell: str) -> str:
    """The script for one shell. zsh runs completions of bash (zshcompsys(1), bashcompinit)."""
    words = all_commands()
    return fish(words) if shell == "fish" else (_ZSH_HEAD if shell == "zsh" else "") + _body(words) + _BASH_END


def _body(words: list[CommandWords]) -> str:
    flags = "\n".join(line for one in words for line in _bash_flags(one))
    paths = "\n".join(_bash_path(one) for one in words)
    top = f'        "") echo {shlex.quote(" ".join([*COMMANDS, "--help", "--version"]))} ;;'
    descents = "\n".join(_descent(one.path) for one in words)
    return _BASH.format(flags=flags, paths=f"{top}\n{paths}", descents=descents, names=_NAMES)


def _bash_flags(one: CommandWords) -> Iterator[str]:
    """The values after a flag that takes one."""
    path = " ".join(one.path)
    for flag in one.flags:
        if flag.takes:
            patterns = "|".join(f'"{path} {name}"' for name in flag.names)
            yield f"        {patterns}) echo {shlex.quote(_mark(flag.kind))}; return ;;"


def _bash_path(one: CommandWords) -> str:
    names = [name for flag in one.flags for name in flag.names]
    found = [*one.commands, *one.choices, *names, *filter(None, [_mark(one.operand)])]
    return f'        "{" ".join(one.path)}") echo {shlex.quote(" ".join(found))} ;;'


def _descent(path: tuple[str, ...]) -> str:
    """After `rules`, the word `eval` leads to the path `rules eval`."""
    before = " ".join(path[:-1])
    return f'            "{before} {path[-1]}") path="{" ".join(path)}" ;;'


def _mark(kind: str) -> str:
    return f"@{kind}" if kind in (FILE, NODE) else kind


def fish(words: list[CommandWords]) -> str:
    lines = ["# fish completion for nfd, written by `nfd completion fish`", "complete -c nfd -f"]
    for name, about in COMMANDS.items():
        lines.append(f"complete -c nfd -n __fish_use_subcommand -a {name} -d {_quoted(about)}")
    for one in words:
        lines += _fish_lines(one)
    return "\n".join(lines) + "\n"


def _fish_lines(one: CommandWords) -> Iterator[str]:
    seen = "; and ".join(f"__fish_seen_subcommand_from {name}" for name in one.path)
    head = f"complete -c nfd -n {_quoted(seen)}"
    for name in (*one.commands, *one.choices):
        yield f"{head} -a {name}"
    if one.operand == NODE:
        yield f"{head} -a {_quoted(f'({_NAMES})')}"
    if one.operand == FILE:
        yield f"{head} -F"
    for flag in one.flags:
        yield f"{head} {_fish_flag(flag)}"


def _fish_flag(flag: Flag) -> str:
    names = " ".join(f"-l {name[2:]}" if name.startswith("--") else f"-s {name[1:]}" for name in flag.names)
    value = ""
    if flag.takes:
        value = " -r -F" if flag.kind == FILE else f" -x -a {_quoted(flag.kind)}" if flag.kind else " -x"
    return f"{names}{value} -d {_quoted(flag.about)}"


def _quoted(text: str) -> str:
    """For fish: only backslash and the single quote are special in single quotes."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


FILE, NODE, NOTHING = "file", "node", ""
_FILES = frozenset({"FILE", "DIR"})


@dataclass(frozen=True, slots=True)
class Flag:
    """`kind` is FILE, NODE, NOTHING or the possible values, separated by blanks; `takes` says whether a value
    follows."""

    names: tuple[str, ...]
    about: str
    takes: bool = False
    kind: str = NOTHING


@dataclass(frozen=True, slots=True)
class CommandWords:
    """`path` are the words before, such as `rules eval`; `operand` is the kind of its operands."""

    path: tuple[str, ...]
    about: str
    flags: tuple[Flag, ...] = ()
    commands: tuple[str, ...] = ()
    operand: str = NOTHING
    choices: tuple[str, ...] = ()


def all_commands() -> list[CommandWords]:
    """Every command and subcommand, in order."""
    return [one for name in COMMANDS for one in command_words(name)]


def command_words(name: str) -> list[CommandWords]:
    """A command, then its subcommands."""
    return list(_words(make_parser("nfd", name)[0], (name,), COMMANDS[name]))


def _words(parser: ArgumentParser, path: tuple[str, ...], about: str) -> Iterator[CommandWords]:
    actions = parser._actions
    flags = tuple(_flag(action) for action in actions if action.option_strings)
    inner = list(subcommands(parser))
    operands = [one for one in actions if not one.option_strings and not isinstance(one, _SubParsersAction)]
    choices = tuple(str(choice) for action in operands for choice in action.choices or ())
    kind = next((kind for action in operands if (kind := _kind(action))), NOTHING)
    names = tuple(name for name, _, _ in inner)
    yield CommandWords(path, about, flags, names, kind if not choices else NOTHING, choices)
    for name, sub, help_text in inner:
        yield from _words(sub, (*path, name), help_text)


def _flag(action: Action) -> Flag:
    takes = action.nargs != 0
    kind = " ".join(map(str, action.choices)) if action.choices else _kind(action) if takes else NOTHING
    return Flag(tuple(action.option_strings), action.help or "", takes, kind)


def _kind(action: Action) -> str:
    name = action.metavar if isinstance(action.metavar, str) else ""
    return FILE if name in _FILES else NODE if name == "NODE" else NOTHING

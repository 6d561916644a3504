"""`config-manager`: links the configuration that a node's label names, and has its reader read it again.

Same environment, files and exit status as the program of that name in NVIDIA's charts (k8s-device-plugin,
`cmd/config-manager`), except that the link is replaced in one step.
"""

from __future__ import annotations

import asyncio
import errno
import os
import signal
import sys
import tempfile
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from gfd.node_config import FALLBACKS, LABEL, choose
from gfd.nodefeature import with_client
from nfd.config.flags import Extra, parse
from nfd.config.option_values import parse_bool, parse_integer, split_items
from nfd.errors import ConfigError, HostError, NfdError, Unavailable
from nfd.runtime import log, tasks
from nfd.runtime.signals import begin
from nfd.runtime.stdout import say
from nfd.runtime.tasks import Asked

if TYPE_CHECKING:
    from nfd.kube.client import KubeClient

PROCESS = "nvidia-device-plugin"
NOTHING = "/dev/null"

_log = log.get("config-manager")


def parse_fallbacks(text: str) -> tuple[str, ...]:
    """Raises ValueError for one that does not exist."""
    fallbacks = tuple(split_items(text))
    if unknown := [one for one in fallbacks if one not in FALLBACKS]:
        raise ValueError(f"{unknown[0]!r} is not one of {', '.join(FALLBACKS)}")
    return fallbacks


VARIABLES: Mapping[str, tuple[str, Any, Callable[[str], Any]]] = {
    "NODE_NAME": ("the node; required", "", str),
    "CONFIG_FILE_SRCDIR": ("folder of the configurations; required", "", str),
    "CONFIG_FILE_DST": ("path of the link; required", "", str),
    "NODE_LABEL": ("label of the node that names the configuration", LABEL, str),
    "DEFAULT_CONFIG": ("name of the configuration without that label", "", str),
    "FALLBACK_STRATEGIES": ("fallbacks without either, in this order: named, single, empty", "", parse_fallbacks),
    "ONESHOT": ("link once and exit", False, parse_bool),
    "SEND_SIGNAL": ("signal the process after a change", True, parse_bool),
    "SIGNAL": ("number of that signal", int(signal.SIGHUP), parse_integer),
    "PROCESS_TO_SIGNAL": ("argv[0] of the process to signal", PROCESS, str),
    "KUBECONFIG": ("kubeconfig file; empty inside a cluster", "", str),
}
"""Help, default, and how the text is read; each is a flag too: `--node-name`."""


class ManagerSettings(NamedTuple):
    """The variables, read, in their order."""

    node: str
    source: str
    target: str
    label: str
    default: str
    fallbacks: tuple[str, ...]
    oneshot: bool
    send_signal: bool
    signal: int
    process: str
    kubeconfig: str


def read_flags(argv: Sequence[str]) -> tuple[str, dict[str, str]]:
    """What `--help` or `--version` ask to print, and the variables that flags set. Raises ConfigError."""
    flags = {
        name: Extra(name.lower().replace("_", "-"), text, default, switch=isinstance(default, bool), env=(name,))
        for name, (text, default, _) in VARIABLES.items()
    }
    about = "Links the configuration that a label of the node names, and signals the process that reads it."
    words = ("version", "v")
    parsed = parse("config-manager", argv, flags.values(), about=about, version_flags=words, environment={})
    return parsed.answer, {name: str(parsed[flag.name]) for name, flag in flags.items() if flag.name in parsed.given}


def read_settings(environment: Mapping[str, str]) -> ManagerSettings:
    """Raises ConfigError naming the variable that is missing or wrong."""
    for name in ("NODE_NAME", "CONFIG_FILE_SRCDIR", "CONFIG_FILE_DST"):
        if not environment.get(name):
            raise ConfigError(f"{name}: must be set")
    found = {name: environment.get(name) or default for name, (_, default, _) in VARIABLES.items()}
    return ManagerSettings(*(_read(name, value) for name, value in found.items()))


def _read(name: str, value: Any) -> Any:
    """The value of a variable; a default that is no text stays as it is."""
    try:
        return VARIABLES[name][2](value) if isinstance(value, str) else value
    except ValueError as error:
        raise ConfigError(f"{name}: {error}") from error


def update(settings: ManagerSettings, wanted: str) -> None:
    """Link what is wanted, and signal its reader if that is another one than before. Raises NfdError."""
    try:
        names = [one.name for one in Path(settings.source).iterdir() if not one.name.startswith("..") and one.is_file()]
        name = choose(wanted, settings.default, settings.fallbacks, names)
        if not link(str(Path(settings.source, name)) if name else NOTHING, Path(settings.target)):
            return
    except OSError as error:
        raise HostError(str(error.filename), error.strerror or str(error), error.errno) from error
    _log.info("configuration linked", path=name or NOTHING)
    if settings.send_signal:
        send(settings.process, settings.signal)


def link(to: str, at: Path) -> bool:
    """Make the link in one step; whether it leads elsewhere now. Raises OSError, also for a device in its place."""
    if at.is_symlink():
        if str(at.readlink()) == to:
            return False
    elif at.exists() and not at.is_file():
        raise OSError(errno.EINVAL, "is not a regular file", str(at))
    with tempfile.TemporaryDirectory(prefix=f".{at.name}", dir=at.parent) as folder:
        fresh = Path(folder, at.name)
        fresh.symlink_to(to)
        fresh.replace(at)
    return True


def send(process: str, number: int) -> None:
    """Send a signal to the first process whose argv[0] is exactly that text. Raises HostError."""
    for folder in Path("/proc").iterdir():
        try:
            words = Path(folder, "cmdline").read_bytes().split(b"\0") if folder.name.isdigit() else []
            if words and words[0] == process.encode():
                os.kill(int(folder.name), number)
                return
        except OSError:
            continue  # it ended meanwhile, or may not be read
    raise HostError("/proc", f"no process has the name {process}")


async def follow(settings: ManagerSettings, client: KubeClient) -> None:
    """Update at every change of the label; one that cannot be followed ends it. Raises NfdError."""
    from nfd.kube.informer import Informer, Store
    from nfd.kube.list_pages import read_object
    from nfd.kube.paths import NODES, object_path

    def read(item: Mapping[str, Any]) -> str:
        return read_label(item, settings.label)

    wanted = read(await read_object(client, object_path(NODES, settings.node), metadata_only=True))
    update(settings, wanted)
    if settings.oneshot:
        return
    changes = asyncio.Queue[str | None]()
    nodes = Store[str](read, lambda before, now: changes.put_nowait(now))
    query = {"fieldSelector": f"metadata.name={settings.node}"}
    informer = Informer(client, NODES, nodes, query=query, metadata_only=True)

    async def update_each() -> None:
        last = wanted
        while True:
            found = await changes.get()
            if found is not None and found != last:
                update(settings, found)
                last = found

    await tasks.first_of(informer.run(), update_each())


def read_label(item: Mapping[str, Any], label: str) -> str:
    """The value of a Node's label, "" if it has none. Raises: Unavailable for labels that are none: they are not taken
    for missing ones."""
    labels = item["metadata"].get("labels") or {}
    if not isinstance(labels, Mapping):
        raise Unavailable(f"node {item['metadata']['name']}: its labels are not a mapping")
    return str(labels.get(label, ""))


async def run(settings: ManagerSettings, asked: Asked) -> None:
    """Until a signal. Raises NfdError."""

    def work(client: KubeClient) -> Awaitable[None]:
        return follow(settings, client)

    await tasks.unless(asked.stop, with_client(settings.kubeconfig, work))


def main() -> None:
    """The entry point; exit status 0 after a signal, 1 for any error, as upstream."""
    begin()
    log.setup()
    try:
        answer, given = read_flags(sys.argv[1:])
        if answer:
            say(answer)
            return
        tasks.serve(partial(run, read_settings({**os.environ, **given})))
    except NfdError as error:
        log.complain("config-manager", error)
        sys.exit(1)


if __name__ == "__main__":
    main()

"""`gpu-feature-discovery` at work: one pass after the other, until a signal says otherwise."""

from __future__ import annotations

import errno
import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from gfd.config import check_families
from gfd.discover import ReadSettings, discover
from gfd.driver_files import list_driver_files
from gfd.families import Families, overlay
from gfd.inventory import Inventory, Trouble
from gfd.labels import label
from gfd.labels.settings import LabelSettings, settings_for
from gfd.last_reading import gaps, resume
from gfd.options import KEPT, Choice, Config, Loaded
from gfd.output import Output
from gfd.pci import read_functions
from gfd.previous_labels import complete
from gfd.xid_events import XidEvents
from nfd import names
from nfd.config.load import place_of, read_file
from nfd.config.named_files import is_blank
from nfd.config.yamltext import Document, parse
from nfd.errors import ConfigError, HostError, NfdError
from nfd.features import Labels
from nfd.host import Host
from nfd.host.replay import LIBRARY_VARIABLE, Replay
from nfd.runtime import log
from nfd.runtime.failures import failed
from nfd.runtime.settling import Settling
from nfd.runtime.signals import Signals

LONGEST_WAIT = 3600.0
RESTORE_PAUSE = 0.1
"""Seconds after labels were written again, in case another program removes them all the time."""
FOLLOW = 1.0
"""Seconds between two looks at the driver's files."""

_log = log.get("gfd")


class InitError(NfdError):
    """The first pass finds no working driver, and that is to end the program."""


@dataclass(frozen=True, slots=True)
class Run:
    """The settings from one load to the next."""

    loaded: Loaded
    options: ReadSettings
    settings: LabelSettings
    timestamp: int | None = None

    @property
    def xids(self) -> tuple[int, ...]:
        """Those to wait for, which a single pass cannot."""
        flags = self.loaded.config.flags.gfd
        return flags.xid_list if flags.xid_events and not flags.oneshot else ()


def make_run(loaded: Loaded, now: float, current: Run | None = None) -> Run:
    """The settings from now on; `current` are the previous ones. Raises ConfigError for an invalid families file."""
    config, flags = loaded.config, loaded.config.flags
    place = place_of(Config, loaded.layers, ("familiesFile",))
    families = read_families(config.families_file, place, current.settings.families if current else None)
    return Run(
        loaded,
        ReadSettings(flags.device_discovery_strategy, flags.gfd.machine_type_file, config.nvml_timeout),
        replace(
            settings_for(config.profile, flags.mig_strategy, config.sharing, families, alone=True),
            xids=flags.gfd.xid_list,
        ),
        None if flags.gfd.no_timestamp else int(now),
    )


def read_families(path: str, place: str = "-families-file", current: Families | None = None) -> Families:
    """The built-in table with the file's rows added; `current` if the file is missing or empty just now.

    Raises ConfigError with file, line and key.
    """
    if not path:
        return overlay({})
    try:
        data = read_file(path)
    except FileNotFoundError as error:
        if current is None:
            raise ConfigError(f"{place}: {path}: {error.strerror}") from error
        _log.warning("families", path=path, error=f"is missing; {KEPT}")
        return current
    if current is not None and current != overlay({}) and is_blank(data):
        _log.warning("families", path=path, error=f"is empty; {KEPT}")
        return current
    document = parse(data, path)
    rows = {} if document.data is None else document.data
    if not isinstance(rows, Mapping):
        raise ConfigError(f"{path}: must be a mapping of compute capabilities to names, not {rows!r}")
    return overlay({str(key): read_family(path, document, str(key), value) for key, value in rows.items()})


def read_family(path: str, document: Document, key: str, value: Any) -> str:
    """One row. Raises ConfigError."""
    text = "" if value is None else str(value)
    try:
        check_families({key: text})
    except ValueError as error:
        line = document.lines.get((key,))
        raise ConfigError(f"{path}:{line}: {error}" if line else f"{path}: {error}") from error
    return text


class Agent:
    """The loop. `last` is the inventory of the last pass."""

    def __init__(
        self, host: Host, choice: Choice, run: Run, open_output: Callable[[Loaded], Output], signals: Signals
    ) -> None:
        self._host = host
        self._choice = choice
        self._run = run
        self._open_output = open_output
        self._output: Output | None = None
        self._signals = signals
        self._last: Inventory | None = None
        self._remembered: Labels = {}
        self._logged: dict[tuple[str, str], None] = {}
        self._labelled: dict[str, Output] = {}
        """Outputs that have labels of this program, by place: the current one, and those of earlier configurations."""
        self._files = Settling(())
        """The driver's files as they were before the last reading."""
        self._next_look = 0.0
        self._xids: XidEvents | None = None

    def loop(self) -> None:
        """Label, wait, label again; returns when a signal asks for it, or after a single pass.

        Raises: InitError, ConfigError, HostError, KubeError from the first pass; from later ones only that nobody reads
        standard output any more.
        """
        try:
            self._pass(first=True)
            while not self._run.loaded.config.flags.gfd.oneshot:
                self._wait()
                if self._signals.stop:
                    return
                if self._signals.reload:
                    self._signals.reload = False
                    self._reload()
                self._pass()
        finally:
            if self._xids is not None:
                self._xids.close()

    def _wait(self) -> None:
        """Until a signal or the next pass; labels that another program removes are written again at once.

        The next pass is after the interval, once the driver's files have changed, or after an Xid. In an infinite
        interval only signals and Xids count.
        """
        interval = self._run.loaded.config.flags.gfd.sleep_interval
        signals, xids = self._signals, self._xids
        end = time.monotonic() + (interval if xids is None else min(interval, xids.due()))
        step = LONGEST_WAIT if math.isinf(interval) else FOLLOW
        watches = None
        try:
            output = self._opened()
            watches = output.watch()
            while not (signals.stop or signals.reload) and (left := end - time.monotonic()) > 0:
                if watches is not None and output.restore():
                    _log.info("another program removed the labels; they are written again", path=output.place)
                    signals.wait(min(left, RESTORE_PAUSE))
                    continue
                signals.wait(min(left, step), *(one.fileno() for one in (watches, xids) if one is not None))
                if watches is not None:
                    watches.read()
                if xids is not None and xids.take():
                    return
                if step == FOLLOW and self._have_files_changed():
                    return
        except NfdError as error:
            _log.error("cannot write labels", error=str(error))
            wait(signals, end - time.monotonic())
        finally:
            if watches is not None:
                watches.close()

    def _pass(self, *, first: bool = False) -> None:
        """One pass; a defect must not end the program."""
        try:
            self.label()
        except NfdError as error:
            if first or is_unread(error):
                raise
            _log.error("cannot write labels", error=str(error))
        except Exception as error:
            if self._run.loaded.config.flags.gfd.oneshot:
                raise
            failed("pass", error, "cannot write labels")

    def label(self) -> None:
        """One pass."""
        run = self._run
        self._files, self._next_look = Settling(list_driver_files(self._host)), time.monotonic() + FOLLOW
        fresh = discover(self._host, run.options, read_functions(self._host))
        inventory = fresh if self._last is None else resume(fresh, self._last)
        inventory = self._with_xids(fresh, inventory)
        inventory = replace(inventory, node=replace(inventory.node, timestamp=run.timestamp))
        check(run, inventory, first=self._last is None)
        found = label(inventory, run.settings)
        output = self._opened()
        labels = self._completed(found.labels, inventory, output)
        self._last = inventory
        legal, notes = cleaned(labels)
        self._log_new([*self._host.take_notes(), *found.notes, *notes])
        if output.write(legal):
            _log.info("labels written", labels=len(legal), state=legal.get("nvidia.com/gpu.state"))
        self._remove_previous(output)

    def _opened(self) -> Output:
        """The output, opened after the devices are read: a missing driver is reported before a missing cluster."""
        if self._output is None:
            self._output = self._open_output(self._run.loaded)
        return self._output

    def _with_xids(self, fresh: Inventory, inventory: Inventory) -> Inventory:
        """The inventory with the Xids of its GPUs, if they are wanted; `fresh` is the reading alone."""
        if self._xids is None:
            if not self._run.xids or isinstance(self._host, Replay):
                return inventory
            self._xids = XidEvents(self._host.env(LIBRARY_VARIABLE))
            self._signals.at_stop.append(self._xids.stop)
        self._xids.follow(self._run.xids, fresh)
        return self._xids.mark(inventory, self._run.xids)

    def _have_files_changed(self) -> bool:
        """Whether the driver's files, on a machine with a device, changed since the last pass and do no longer."""
        last = self._last
        if last is None or not (last.gpus or last.node.pci_gpus) or time.monotonic() < self._next_look:
            return False
        self._next_look = time.monotonic() + FOLLOW
        return self._files.look(list_driver_files(self._host))

    def _remove_previous(self, output: Output) -> None:
        """After the labels were written to a new output, remove those at the previous one, which would otherwise be
        used as well.

        An old place that is the new one under another name (a link, a folder mounted twice) stays. Removing is tried
        once: permission to write an object does not include permission to delete it.
        """
        place, identity = output.place, output.identity
        left = {place: output}
        for name, former in self._labelled.items():
            if name == place:
                continue
            if former.identity == identity:
                left[name] = former
                continue
            try:
                former.remove()
            except NfdError as error:
                _log.error("cannot remove the labels at the previous output", error=str(error))
        self._labelled = left

    def _completed(self, labels: Labels, inventory: Inventory, output: Output) -> Labels:
        """Until the first complete reading, missing labels are taken from those of the previous process."""
        if self._last is None:
            self._remembered = output.read()
        if not gaps(inventory):
            self._remembered = {}
        found = complete(labels, self._remembered, inventory)
        return {key: value for key, value in found.items() if self._run.settings.applies(key.partition("/")[2])}

    def _reload(self) -> None:
        """Reload the configuration file; an invalid one changes nothing."""
        try:
            loaded = self._choice.load(self._run.loaded)
            log_config(loaded)
            fresh = make_run(loaded, self._host.now(), self._run)
            if self._last is not None and self._last.compute_gpus:
                fresh.loaded.check_mig_strategy()
            opened = self._open_output(loaded)
        except NfdError as error:
            _log.error("cannot reload the configuration", error=str(error))
            return
        except Exception as error:
            failed("reload", error, "cannot reload the configuration")
            return
        self._run, self._output = fresh, opened
        _log.info("configuration reloaded")

    def _log_new(self, notes: list[tuple[str, str]]) -> None:
        """Log each note once while it stays the same."""
        for subject, reason in notes:
            if (subject, reason) not in self._logged:
                _log.warning("incomplete", path=subject, error=reason)
        self._logged = dict.fromkeys(notes)


def is_unread(error: NfdError) -> bool:
    """Whether the reader of standard output is gone, so that no later pass can succeed."""
    return isinstance(error, HostError) and error.errno == errno.EPIPE


def check(run: Run, inventory: Inventory, *, first: bool) -> None:
    """Raises InitError if the first pass has no driver and must, ConfigError if there are devices and no strategy."""
    if first and inventory.trouble is not None and run.loaded.config.flags.fail_on_init_error:
        what = (
            "no driver"
            if inventory.trouble in (Trouble.NO_DRIVER, Trouble.LIBRARY_MISSING)
            else "the driver does not work"
        )
        raise InitError(f"{what}: {inventory.reason}")
    if inventory.compute_gpus:
        run.loaded.check_mig_strategy()


def cleaned(labels: Labels) -> tuple[dict[str, str], list[tuple[str, str]]]:
    """Labels with legal values, and a note for each value that was none; one of which nothing is legal is left out."""
    legal = {key: names.clean(value) for key, value in labels.items()}
    notes = [(key, f"value {value!r} became {legal[key]!r}") for key, value in labels.items() if legal[key] != value]
    return {key: value for key, value in legal.items() if value or not labels[key]}, notes


def log_config(loaded: Loaded) -> None:
    """What is configured, at debug, and warnings."""
    for warning in loaded.warnings:
        _log.warning("configuration", path=loaded.config.config_file, error=warning)
    _log.debug("configuration", **loaded.config.model_dump())


def wait(signals: Signals, seconds: float) -> None:
    """Until a signal, or that long."""
    end = time.monotonic() + seconds
    while not (signals.stop or signals.reload) and (left := end - time.monotonic()) > 0:
        signals.wait(min(left, LONGEST_WAIT))

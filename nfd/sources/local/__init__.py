"""Labels and features from files that others leave on the node: folder, options, sizes, expiry.

Features `local.label` (entries that become labels as they stand) and `local.feature` (entries for rules). (NFD
documentation, "Customization guide", feature files.)
"""

from __future__ import annotations

import errno
from collections.abc import Iterable, Mapping
from typing import ClassVar

from nfd.config.section import Section
from nfd.errors import HostError
from nfd.features import Features, Labels, printable
from nfd.host import Host
from nfd.source import Partial, Source
from nfd.sources.feature_reader import FeatureReader, first_of
from nfd.sources.local.featurefile import Entries, parse

LABEL, FEATURE = "local.label", "local.feature"

FOLDER = "etc/kubernetes/node-feature-discovery/features.d"
MAX_SIZE = 65536
"""Bytes; a longer file is left out as a whole, and what it gave before stays."""
MAX_ENTRIES = 5_000
MAX_TEXT = 1024 * 1024
"""Entries of a kind and bytes that all files may have, so that a report keeps within what a master takes."""
SHOWN_NOTES = 10
"""Wrong directives of one file that are shown one by one."""


class Config(Section):
    """Feature files have no options."""

    former: ClassVar[Mapping[str, str]] = {
        "hooksEnabled": "has no effect: NFD up to 0.16 ran hooks, and this worker runs none"
    }


def discover(host: Host, config: Config) -> Features | Partial:
    """Read the feature files in the order of their names; a later one overrides an earlier.

    Reads: etc/kubernetes/node-feature-discovery/features.d/*, regular files that are not hidden
    Absent: no such directory is no entries.
    A file that cannot be used has the entries that it had before, as long as they have not expired.
    """
    reader = FeatureReader(host)
    names = [name for name in reader.names(FOLDER) if not name.startswith(".")]
    unlisted = reader.failure
    folder = _Folder(host)
    for name in names:
        folder.add(f"{FOLDER}/{name}")
    if not unlisted:
        folder.forget_all_but(names)
    features = Features(attributes={LABEL: folder.found.labels, FEATURE: folder.found.features})
    failure = unlisted or folder.failure
    if not failure:
        return features
    held = not unlisted and not folder.crowded
    failed = {LABEL: failure, FEATURE: failure}
    return Partial(features, failed, frozenset(failed) if held else frozenset(), whole=held and not folder.unknown)


class _Folder:
    """The files of one pass, joined; what each of them said when it could be used last is its text in `Host.good`."""

    def __init__(self, host: Host) -> None:
        self.found = Entries()
        self.unknown = 0
        """Files that cannot be used and were never read successfully."""
        self.crowded = False
        """Whether others have left no room for what a file said."""
        self._host = host
        self._good = host.good(FOLDER)
        self._room = MAX_TEXT
        self._errors: list[str] = []
        self._left_out: list[str] = []

    @property
    def failure(self) -> str:
        """What is wrong with the files; "" if nothing is."""
        crowd = [f"{FOLDER}: {_no_room(self._left_out)}"] if self._left_out else []
        return first_of([*self._errors, *crowd])

    def add(self, path: str) -> None:
        """Join a file, or what it said before."""
        try:
            text = read_file(self._host, path)
        except HostError as error:
            self._errors.append(str(error))
        else:
            if self._join(path, text):
                self._good[path] = text
                return
            self._left_out.append(printable(path.rpartition("/")[2]))
        older = self._good.get(path)
        if not isinstance(older, str):
            self.unknown += 1
        elif not self._join(path, older):
            self.crowded = True

    def forget_all_but(self, names: Iterable[str]) -> None:
        """What a file said that is gone is of no use to another one of its name."""
        for path in self._good.keys() - {f"{FOLDER}/{name}" for name in names}:
            del self._good[path]

    def _join(self, path: str, text: str) -> bool:
        """Whether there was room for it; what is wrong with a line is noted."""
        entries = parse(text, self._host.now())
        size = sum(len(key) + len(value) for kind in _kinds(entries) for key, value in kind.items())
        counts = (len(old) + len(new) for old, new in zip(_kinds(self.found), _kinds(entries), strict=True))
        if size > self._room or max(counts) > MAX_ENTRIES:
            return False
        shown = printable(path)
        for line, reason in entries.notes[:SHOWN_NOTES]:
            self._host.note(f"{shown}:{line}", reason)
        if (more := len(entries.notes) - SHOWN_NOTES) > 0:
            self._host.note(shown, f"{more} more directives are wrong")
        _merge(self._host, self.found, entries, printable(path.rpartition("/")[2]))
        self._room -= size
        return True


def read_file(host: Host, path: str) -> str:
    """The text of one file, "" of what is none. Raises: HostError for one that is too large or cannot be read."""
    shown = printable(path)
    if not host.is_file(path):
        if not host.exists(path):
            host.note(shown, "leads nowhere")
        return ""
    try:
        return host.text(path, MAX_SIZE) or ""
    except HostError as error:
        if error.errno == errno.EFBIG:
            raise HostError(shown, f"is larger than {MAX_SIZE} bytes and left out", errno.EFBIG) from error
        raise


def _kinds(entries: Entries) -> tuple[dict[str, str], dict[str, str]]:
    return entries.labels, entries.features


def _no_room(names: list[str]) -> str:
    more = f" and {len(names) - 1} more" if names[1:] else ""
    return f"holds more than {MAX_ENTRIES} entries or {MAX_TEXT} bytes of them; {names[0]}{more} left out"


def _merge(host: Host, found: Entries, new: Entries, name: str) -> None:
    for kind, old, entries in (("label", found.labels, new.labels), ("feature", found.features, new.features)):
        for key, value in entries.items():
            if old.get(key, value) != value:
                host.note(f"{FOLDER}/{name}", f"{kind} {key!r}: {value!r} overrides {old[key]!r} of an earlier file")
        old.update(entries)


def labels(features: Features, config: Config) -> Labels:
    """The entries of `local.label`.

    Labels:
        <key> = text: a label in a file in `features.d`. A key without a namespace gets `feature.node.kubernetes.io`
    """
    return features.attributes.get(LABEL, {})


SOURCE = Source(
    "local",
    Config,
    discover,
    labels,
    priority=20,
    verbatim=True,
    namespaced=True,
    written=True,
    watches=(FOLDER,),
)

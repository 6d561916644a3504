"""Labels and features from files that others leave on the node.

Features `local.label` (entries that become labels as they stand) and `local.feature` (entries for rules). (NFD
documentation, "Customization guide", feature files.)
"""

from __future__ import annotations

import errno

from nfd.config.section import Section
from nfd.errors import HostError
from nfd.features import Features, Labels, printable
from nfd.host import Host
from nfd.source import Partial, Source
from nfd.sources.local.featurefile import Entries, parse
from nfd.sources.reading import Reading

LABEL, FEATURE = "local.label", "local.feature"

FOLDER = "etc/kubernetes/node-feature-discovery/features.d"
MAX_SIZE = 65536
"""Bytes; a longer file is left out as a whole, and what it gave before is held."""
MAX_ENTRIES = 5_000
MAX_TEXT = 1024 * 1024
"""Entries of a kind and bytes that all files may have, so that a report keeps within what a master takes."""


def discover(host: Host, config: Section) -> Features | Partial:
    """Read the feature files in the order of their names; a later one overrides an earlier.

    Reads: etc/kubernetes/node-feature-discovery/features.d/*, hidden files and all but regular ones passed over
    Absent: no such directory is no entries.
    """
    reading = Reading(host)
    found, left_out, room = Entries(), [], MAX_TEXT
    for name in reading.names(FOLDER):
        if name.startswith("."):
            continue
        entries = read_file(reading, f"{FOLDER}/{name}")
        size = sum(len(key) + len(value) for kind in _kinds(entries) for key, value in kind.items())
        counts = (len(old) + len(new) for old, new in zip(_kinds(found), _kinds(entries), strict=True))
        if size <= room and max(counts) <= MAX_ENTRIES:
            _merge(host, found, entries, printable(name))
            room -= size
        else:
            left_out.append(printable(name))
    if left_out:
        reading.errors.append(HostError(FOLDER, _no_room(left_out)))
    features = Features(attributes={LABEL: found.labels, FEATURE: found.features})
    return Partial(features, {LABEL: reading.failure, FEATURE: reading.failure}) if reading.failure else features


def read_file(reading: Reading, path: str) -> Entries:
    """Entries of one file; what is wrong with it or with a line of it is noted, what cannot be read is an error."""
    host, shown = reading.host, printable(path)
    entries = Entries()
    try:
        if host.is_file(path):
            entries = parse(host.text(path, MAX_SIZE) or "", host.now())
        elif not host.exists(path):
            host.note(shown, "leads nowhere")
    except HostError as error:
        if error.errno == errno.EFBIG:
            error = HostError(shown, f"is larger than {MAX_SIZE} bytes and left out", errno.EFBIG)
        reading.errors.append(error)
    for line, reason in entries.notes:
        host.note(f"{shown}:{line}", reason)
    return entries


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


def labels(features: Features, config: Section) -> Labels:
    """The entries of `local.label`.

    Labels:
        <key> = text: a line of a file in `features.d`; a key without a namespace gets ours
    """
    return features.attributes.get(LABEL, {})


SOURCE = Source("local", Section, discover, labels, priority=20, verbatim=True, namespaced=True, watches=(FOLDER,))

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
"""Bytes; a longer file is left out as a whole."""


def discover(host: Host, config: Section) -> Features | Partial:
    """Read the feature files in the order of their names; a later one overrides an earlier.

    Reads: etc/kubernetes/node-feature-discovery/features.d/*, hidden files and all but regular ones passed over
    Absent: no such directory is no entries.
    """
    reading = Reading(host)
    found = Entries()
    for name in reading.names(FOLDER):
        if not name.startswith("."):
            _merge(host, found, read_file(reading, f"{FOLDER}/{name}"), printable(name))
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
            host.note(shown, f"is larger than {MAX_SIZE} bytes and left out")
        else:
            reading.errors.append(error)
    for line, reason in entries.notes:
        host.note(f"{shown}:{line}", reason)
    return entries


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

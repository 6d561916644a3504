"""`nfd explain - features.d`: what each line of the feature files became."""

from __future__ import annotations

from collections.abc import Iterator

from nfd.cli.machine import POLICY, Seen
from nfd.errors import HostError
from nfd.features import Problem, printable
from nfd.host import Host
from nfd.rules.policy import prefix_keys
from nfd.sources.local import FOLDER, read_file
from nfd.sources.local.featurefile import Line, lines_of

NAME = "features.d"
"""What is asked for in the place of a label."""
SOURCE = "local"


def explain_files(host: Host, seen: Seen) -> Iterator[str]:
    """A line for each line of each file, in the order in which they are read, and for each file that is not."""
    try:
        files = sorted(host.names(FOLDER))
    except HostError as error:
        yield str(error)
        return
    if not files:
        yield f"/{FOLDER} has no file"
    for file in files:
        path = f"{FOLDER}/{file}"
        if file.startswith("."):
            yield f"{printable(file)}: not read, because its name begins with a dot"
            continue
        try:
            text = read_file(host, path)
        except HostError as error:
            yield str(error)
            continue
        for line in lines_of(text, host.now()):
            yield f"{printable(file)}:{line.number}: {printable(line.text)}  {became(line, seen)}"


def became(line: Line, seen: Seen) -> str:
    """What the line is on the Node and for rules, or why it is nothing."""
    if line.problem:
        return f"ignored: {line.problem}"
    if line.expired:
        return "expired"
    found = [_label(line, seen)] if line.is_label else ["no label"]
    if line.is_feature:
        given = seen.discovery.features.attributes.get("local.feature", {}).get(line.key)
        found.append("feature local.feature" if given == line.value else "overridden by a later line as feature")
    else:
        found.append("no feature")
    return "; ".join(found)


def _label(line: Line, seen: Seen) -> str:
    (key,) = prefix_keys({line.key: line.value}, POLICY)
    if reasons := [one.reason for one in seen.problems if _concerns(one, line, key)]:
        return f"label {key}: {'; '.join(reasons)}"
    value = seen.labels.get(key)
    if value == line.value and seen.origins.get(key) == SOURCE:
        return f"label {key}={value}"
    origin = seen.origins.get(key) or "nothing"
    by = "a later line" if origin == SOURCE else f"source {origin}"
    return f"label {key} is overridden by {by}" if value is not None else f"no label {key}: source {SOURCE} is disabled"


def _concerns(problem: Problem, line: Line, key: str) -> bool:
    return problem.source in (SOURCE, "master") and problem.subject in (line.key, key)

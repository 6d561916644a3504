"""The custom resource NodeFeatureDiscovery of the NFD operator, as values of the chart.

Fields are those of openshift/cluster-nfd-operator and kubernetes-sigs/node-feature-discovery-operator, `api/v1`.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from typing import Any

from nfd.config.named_files import read_bytes, read_standard_input
from nfd.config.yamltext import dump, parse
from nfd.errors import ConfigError, said
from nfd.message_text import visible

KIND = "NodeFeatureDiscovery"
CONFIG = "workerConfig.configData"
VALUES: Mapping[str, str] = {
    "instance": "master.instance",
    "extraLabelNs": "master.extraLabelNs",
    "resourceLabels": "master.resourceLabels",
    "labelWhiteList": "master.config.labelWhiteList",
    "enableTaints": "master.enableTaints",
    "topologyUpdater": "topologyUpdater.enable",
    "prunerOnDelete": "postDeleteCleanup",
    "operand.imagePullPolicy": "image.pullPolicy",
    "operand.servicePort": "master.service.port",
    "operand.workerTolerations": "worker.tolerations",
    "operand.masterTolerations": "master.tolerations",
    "operand.workerEnvs": "worker.extraEnvs",
    "operand.masterEnvs": "master.extraEnvs",
    "operand.workerNodeSelector": "worker.nodeSelector",
    "operand.workerPriorityClassName": "worker.priorityClassName",
    "operand.gcNodeSelector": "gc.nodeSelector",
    "operand.gcTolerations": "gc.tolerations",
    CONFIG: "worker.config",
}
"""Field below `spec` → value of the chart that means the same."""
WITHOUT: Mapping[str, str] = {
    "operand.image": "is NFD's image: set image.registry",
    "operand.namespace": "is the namespace of the release",
    "customConfig.configData": "holds rules: make them NodeFeatureRules, or files as in the overlay custom-rules",
}
"""Fields without such a value, and why."""
_UNSET: tuple[object, ...] = (None, "", 0, [], {})
_SECTIONS = frozenset(field.partition(".")[0] for field in (*VALUES, *WITHOUT) if "." in field)


def convert(name: str) -> int:
    """Print the values; what has none is reported on standard error. Raises: ConfigError."""
    try:
        data = read_standard_input() if name == "-" else read_bytes(name)
    except OSError as error:
        raise ConfigError(f"{name}: {said(error)}") from error
    place = "standard input" if name == "-" else name
    values, notes = convert_object(parse(data, place).data, place)
    for note in notes:
        sys.stderr.write(f"{place}: {visible(note)}\n")
    sys.stdout.write(dump(values))
    return 0


def convert_object(data: Any, place: str) -> tuple[dict[str, Any], list[str]]:
    """Values and notes. What has no `kind` is the content of `workerConfig.configData`. Raises: ConfigError."""
    if not isinstance(data, Mapping):
        raise ConfigError(f"{place}: is neither a {KIND} object nor a worker's configuration")
    if "kind" not in data:
        return {"worker": {"config": data}}, []
    if data["kind"] != KIND:
        raise ConfigError(f"{place}: kind is {data['kind']!r}, not {KIND}")
    values: dict[str, Any] = {}
    notes: list[str] = []
    spec = data.get("spec") or {}
    if not isinstance(spec, Mapping):
        raise ConfigError(f"{place}: spec must be a mapping")
    for field, value in fields_of(spec):
        if field in VALUES and (value not in _UNSET or value is False):
            put(values, VALUES[field], config_of(value, place) if field == CONFIG else value)
        elif value not in _UNSET and field not in VALUES:
            notes.append(f"spec.{field}: {WITHOUT.get(field, 'is not known')}; it has no value here")
    return values, notes


def fields_of(spec: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for name, value in spec.items():
        if name in _SECTIONS and isinstance(value, Mapping):
            yield from ((f"{name}.{key}", one) for key, one in value.items())
        else:
            yield str(name), value


def config_of(text: Any, place: str) -> Any:
    """The configuration in `configData`, a text. Raises: ConfigError."""
    return parse(str(text).encode(), f"{place}: spec.{CONFIG}").data or {}


def put(values: dict[str, Any], path: str, value: Any) -> None:
    *blocks, last = path.split(".")
    for block in blocks:
        values = values.setdefault(block, {})
    values[last] = {**values[last], **value} if isinstance(values.get(last), dict) else value

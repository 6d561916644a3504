"""Checks whether the CustomResourceDefinitions of the cluster keep all fields of rules and of their status.

An API server silently drops a field that a definition does not name (Kubernetes documentation, "Extend the Kubernetes
API with CustomResourceDefinitions", field pruning). It publishes the definitions of a group at
/openapi/v3/apis/GROUP/VERSION to every authenticated client (ClusterRole system:discovery), so no additional permission
is needed.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator, Mapping
from types import UnionType
from typing import Any, Union, get_args, get_origin

from nfd.errors import Forbidden, KubeError
from nfd.kube.client import KubeClient, Request
from nfd.master.rules.status import STATUS
from nfd.names import API_VERSION
from nfd.rules.model import GroupRule, Part, Rule
from nfd.rules.parse import GROUP, GROUP_FIELD, RULE, RULE_FIELD
from nfd.runtime import log

INDEX = "/openapi/v3"
EVERY = 300.0
"""Seconds between two checks: definitions change when a release is installed."""
MOST_NAMED = 10
"""The most fields that one log line names."""
ITEM, VALUE = "[]", "{}"
"""The items of a list, and the values of a mapping with arbitrary keys, in a Shape and in the path of a field."""

Shape = Mapping[str, Any]
"""Fields by name, each with the fields inside it."""

_log = log.get("master")


def shape_of(model: type[Part]) -> Shape:
    """The fields of a part of a rule, by their names in YAML."""
    return {str(field.alias): _inside(field.annotation) for field in model.model_fields.values()}


def _inside(annotation: Any) -> Shape:
    origin, inner = get_origin(annotation), get_args(annotation)
    if origin in (Union, UnionType):
        return next((_inside(one) for one in inner if one is not type(None)), {})
    if origin is tuple:
        return {ITEM: _inside(inner[0])}
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return {VALUE: _inside(inner[1])}
    return shape_of(annotation) if isinstance(annotation, type) and issubclass(annotation, Part) else {}


SHAPES: Mapping[str, Shape] = {
    RULE: {"spec": {RULE_FIELD: {ITEM: shape_of(Rule)}}, "status": STATUS},
    GROUP: {"spec": {GROUP_FIELD: {ITEM: shape_of(GroupRule)}}},
}
"""The fields of an object of each kind. Of the status, only those that are published nowhere else."""


def dropped_fields(schema: Mapping[str, Any], shape: Shape, path: str = "") -> Iterator[str]:
    """Paths of fields that an OpenAPI v3 schema does not keep, such as `spec.rules[].labels`, without those inside
    them."""
    keeps_all = schema.get("x-kubernetes-preserve-unknown-fields") is True
    places = {ITEM: schema.get("items"), VALUE: schema.get("additionalProperties")}
    for name, inside in shape.items():
        found = places[name] if name in places else (schema.get("properties") or {}).get(name)
        where = f"{path}{name}" if name in places else f"{path}.{name}".lstrip(".")
        if isinstance(found, Mapping):
            yield from dropped_fields(found, inside, where)
        elif found is not True and not keeps_all:
            yield where


class Definitions:
    """Checks the definitions periodically, logs the fields that they drop, and calls `changed` when those change.

    `dropped` has the dropped fields of each kind, as far as known.
    """

    def __init__(self, client: KubeClient, changed: Callable[[], None], every: float = EVERY) -> None:
        self.dropped: dict[str, tuple[str, ...]] = {}
        self._client = client
        self._changed = changed
        self._every = every
        self._seen = ""
        self._refused = False

    @property
    def no_status(self) -> str:
        """Why the status of a NodeFeatureRule would be dropped, "" if it is not known to be."""
        dropped_paths = [path for path in self.dropped.get(RULE, ()) if path.startswith("status")]
        return f"the cluster's definition has no {dropped_paths[0]}" if dropped_paths else ""

    async def run(self) -> None:
        """Run until cancelled."""
        while True:
            try:
                await self._look()
            except KubeError as error:
                log_call = _log.info if isinstance(error, Forbidden) and not self._refused else _log.debug
                self._refused = self._refused or isinstance(error, Forbidden)
                log_call("cannot read the definitions of rules", path=INDEX, error=error)
            await asyncio.sleep(self._every)

    async def _look(self) -> None:
        """Read the definitions, unless the index has the hash of those read last. Raises: KubeError.

        The index may be newer than the document, so the document's own hash counts: its ETag.
        """
        index = await self._client.json("GET", INDEX)
        address = _at(index, "paths", f"apis/{API_VERSION}", "serverRelativeURL")
        if not isinstance(address, str) or (self._seen and self._seen in address):
            return
        async with self._client.open(Request("GET", f"{INDEX}/apis/{API_VERSION}", {})) as response:
            found = _parsed(await response.read())
            self._seen = response.headers.get("ETag", "").strip('"')
        for schema in (_at(found, "components", "schemas") or {}).values():
            for one in _at(schema, "x-kubernetes-group-version-kind") or ():
                if (kind := _at(one, "kind")) in SHAPES:
                    self._take(kind, tuple(dropped_fields(schema, SHAPES[kind])))

    def _take(self, kind: str, dropped: tuple[str, ...]) -> None:
        before = self.dropped.get(kind, ())
        self.dropped[kind] = dropped
        if dropped == before:
            return
        self._changed()
        dropped_paths = [path for path in dropped if path.startswith("spec")]
        if dropped_paths:
            more = f" and {len(dropped_paths) - MOST_NAMED} more" if len(dropped_paths) > MOST_NAMED else ""
            _log.warning(
                "the cluster's definition is older than this master and drops fields; install the newer one",
                path=kind,
                error=f"missing: {', '.join(dropped_paths[:MOST_NAMED])}{more}",
            )
        elif before:
            _log.info("the cluster's definition keeps all fields", path=kind)


def _parsed(data: bytes) -> Any:
    """The parsed JSON; None if it is invalid."""
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        return None


def _at(data: Any, *path: str) -> Any:
    """The value at a path; None if there is none."""
    for step in path:
        data = data.get(step) if isinstance(data, Mapping) else None
    return data

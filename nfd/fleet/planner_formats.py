"""Node templates in the form of each planner: rendered, and read back to find what has drifted.

| planner | form | source |
| --- | --- | --- |
| `aws-asg` | tags of an Auto Scaling group | cluster-autoscaler, cloudprovider/aws/README.md |
| `azure-vmss` | tags of a scale set | cluster-autoscaler, cloudprovider/azure/README.md |
| `gce` | `AUTOSCALER_ENV_VARS` of an instance template | cluster-autoscaler, cloudprovider/gce/templates.go |
| `cluster-api` | annotations of a MachineDeployment | cluster-autoscaler, cloudprovider/clusterapi/README.md |
| `karpenter` | merge patch of a NodePool, NodeOverlay | Karpenter documentation, "NodePools", "NodeOverlays" |
| `kueue` | ResourceFlavor | Kueue documentation, "Resource Flavor" |
| `volcano` | HyperNode | Volcano documentation, "Network Topology Aware Scheduling" |

`render` gives a document and notes: what the planner's limits leave out. `read` gives the facts of one document; it
ignores everything that `render` does not write. Raises: ValueError where a document has another form.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import starmap
from typing import Any

from nfd.config.yamltext import scalar_text
from nfd.fleet.node_template import NodeTemplate, Taint, distinguish
from nfd.names import key_problem, value_problem
from nfd.rules.policy import EFFECTS, taint_text

Json = Mapping[str, Any]

_AUTOSCALER = "k8s.io/cluster-autoscaler/node-template"
_CAPACITY = "capacity.cluster-autoscaler.kubernetes.io"
_ENV_VARS = "AUTOSCALER_ENV_VARS"
_MAX_TAGS = 50
_MAX_KARPENTER_LABELS = 100
_MAX_FLAVOR = 8
_KARPENTER_OWN = "karpenter.sh"
"""The end of namespaces that Karpenter keeps for itself; it tests for these letters (`NodePool`, validation rules)."""
_HOSTNAME = "kubernetes.io/hostname"


@dataclass(frozen=True, slots=True)
class Facts:
    """What a document says of future nodes."""

    labels: Mapping[str, str] = field(default_factory=dict)
    taints: frozenset[Taint] = frozenset()
    resources: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Rendered:
    """Documents for one group, and one note for each thing that is not in them."""

    documents: Sequence[Json]
    notes: Sequence[str] = ()


Render = Callable[[NodeTemplate, Sequence[Mapping[str, str]]], Rendered]
Read = Callable[[Json], Facts]


@dataclass(frozen=True, slots=True)
class Planner:
    """`kinds` are the Kubernetes kinds of its documents; empty if they are no Kubernetes objects."""

    render: Render
    read: Read
    kinds: tuple[str, ...] = ()


def _fit(template: NodeTemplate, limit: int, longest: int = 0) -> tuple[dict[str, str], list[str]]:
    """Labels within the limits of number and length of key, those that are selected by most often first."""
    notes: list[str] = []
    keys = template.by_rank
    if longest and (long := [key for key in keys if len(key) > longest]):
        notes.append(f"{len(long)} labels have keys of more than {longest} characters: {', '.join(long)}")
        keys = [key for key in keys if len(key) <= longest]
    if len(keys) > limit:
        notes.append(f"{len(keys) - limit} labels are over the limit of {limit}: {', '.join(keys[limit:])}")
        keys = keys[:limit]
    return {key: template.labels[key] for key in sorted(keys)}, notes


# cluster autoscaler: tags


def _one_for_each_key(taints: Iterable[Taint], place: str) -> tuple[dict[str, str], list[str]]:
    """Key → `VALUE:EFFECT`, as the cluster autoscaler has taints, and a note for each taint that does not fit."""
    found: dict[str, str] = {}
    notes: list[str] = []
    for key, value, effect in taints:
        text = f"{value}:{effect}"
        if found.setdefault(key, text) != text:
            left_out = taint_text(key, value, effect)
            notes.append(f"{place} one taint for each key, so this one is left out: {left_out}")
    return found, notes


@dataclass(frozen=True, slots=True)
class _Tags:
    """How a cloud has a key in the name of a tag: of at most `longest` characters, `spell`ed, and `read` back."""

    longest: int
    spell: Callable[[str], str] = str
    read: Callable[[str], str] = str

    def render(self, template: NodeTemplate, _: Sequence[Mapping[str, str]]) -> Rendered:
        taints, notes = _one_for_each_key(template.taints, "a tag holds")
        fixed = {self.spell(f"{_AUTOSCALER}/taint/{key}"): text for key, text in taints.items()}
        fixed |= {self.spell(f"{_AUTOSCALER}/resources/{name}"): amount for name, amount in template.resources.items()}
        if len(fixed) > _MAX_TAGS:
            notes.append(f"{len(fixed)} taints and resources are more than the limit of {_MAX_TAGS} tags")
        head = f"{_AUTOSCALER}/label/"
        labels, more = _fit(template, max(0, _MAX_TAGS - len(fixed)), self.longest - len(head))
        return Rendered([{self.spell(head + key): value for key, value in labels.items()} | fixed], [*notes, *more])

    def facts(self, document: Json) -> Facts:
        head, slash = self.spell(f"{_AUTOSCALER}/"), self.spell("/")
        labels, resources, taints = {}, {}, set()
        for tag, value in _tag_map(document).items():
            kind, _, name = tag.removeprefix(head).partition(slash) if tag.startswith(head) else ("", "", "")
            if kind == "label":
                labels[self.read(name)] = value
            elif kind == "resources":
                resources[self.read(name)] = value
            elif kind == "taint":
                taints.add(_taint(f"{self.read(name)}={value}"))
        return Facts(labels, frozenset(taints), resources)


def _tag_map(document: Json) -> dict[str, str]:
    """A plain map, `{"tags": {…}}` of Azure, or `{"Tags": [{"Key": …, "Value": …}]}` of the AWS command line."""
    tags = document.get("Tags", document.get("tags", document))
    if isinstance(tags, Mapping):
        return _texts(tags)
    if isinstance(tags, Sequence) and all(isinstance(one, Mapping) and "Key" in one for one in tags):
        return _texts({one["Key"]: one.get("Value", "") for one in tags})
    raise ValueError("is neither a map of tags nor a list of Key and Value")


def _taint(text: str) -> Taint:
    """`KEY=VALUE:EFFECT` or `KEY:EFFECT`. Raises: ValueError."""
    head, _, effect = text.rpartition(":")
    key, _, value = head.partition("=")
    if problem := key_problem(key) or value_problem(value):
        raise ValueError(f"taint {text!r}: {problem}")
    if effect not in EFFECTS:
        raise ValueError(f"taint {text!r}: the effect must be one of {', '.join(EFFECTS)}")
    return key, value, effect


def _azure(key: str) -> str:
    """In the name of a tag, `_` stands for `/` and `~2` for `_`."""
    return key.replace("_", "~2").replace("/", "_")


def _from_azure(name: str) -> str:
    return name.replace("_", "/").replace("~2", "_")


_AWS = _Tags(128)
_AZURE = _Tags(512, _azure, _from_azure)


# cluster autoscaler: one text


def _pairs(values: Mapping[str, str]) -> str:
    return ",".join(f"{key}={value}" for key, value in values.items())


def _from_pairs(text: str) -> dict[str, str]:
    return {key: value for key, _, value in (part.partition("=") for part in text.split(",") if part)}


def _taint_list(template: NodeTemplate) -> str:
    return ",".join(starmap(taint_text, template.taints))


def _from_taint_list(text: str) -> frozenset[Taint]:
    return frozenset(_taint(part) for part in text.split(",") if part)


def _render_gce(template: NodeTemplate, _: Sequence[Mapping[str, str]]) -> Rendered:
    taints, notes = _one_for_each_key(template.taints, f"{_ENV_VARS} holds")
    parts = {
        "node_labels": _pairs(template.labels),
        "node_taints": _pairs(taints),
        "extended_resources": _pairs(template.resources),
        "arch": template.arch,
        "os": template.os,
    }
    return Rendered([{_ENV_VARS: ";".join(f"{name}={text}" for name, text in parts.items() if text)}], notes)


def _read_gce(document: Json) -> Facts:
    text = document.get(_ENV_VARS)
    if not isinstance(text, str):
        raise ValueError(f"has no {_ENV_VARS}")
    parts = dict(part.partition("=")[::2] for part in text.split(";") if part)
    lists = [parts.get(name, "") for name in ("node_labels", "node_taints", "extended_resources")]
    if wrong := next((item for one in lists for item in one.split(",") if one and "=" not in item), None):
        raise ValueError(f"{_ENV_VARS}: {wrong!r} has no '=', so the cluster autoscaler rejects the whole list")
    labels, taints, resources = map(_from_pairs, lists)
    return Facts(labels, frozenset(_taint(f"{key}={value}") for key, value in taints.items()), resources)


def _render_cluster_api(template: NodeTemplate, _: Sequence[Mapping[str, str]]) -> Rendered:
    """A merge patch. One resource fits: the GPUs. Others are noted."""
    found = {"cpu": str(template.cpu), "memory": f"{template.memory >> 20}Mi"}
    notes: list[str] = []
    if template.resources:
        name = min(template.resources, key=lambda one: (not one.endswith("/gpu"), one))
        found |= {"gpu-type": name, "gpu-count": template.resources[name]}
        if more := sorted(template.resources.keys() - {name}):
            notes.append(
                f"Cluster API has annotations for one extended resource, so these are left out: {', '.join(more)}"
            )
    found |= {"labels": _pairs(template.labels), "taints": _taint_list(template)}
    annotations = {f"{_CAPACITY}/{name}": text for name, text in found.items() if text}
    return Rendered(
        [_object("cluster.x-k8s.io/v1beta2", "MachineDeployment", template, annotations=annotations)], notes
    )


def _read_cluster_api(document: Json) -> Facts:
    annotations = _map(_map(document, "metadata"), "annotations")

    def get(name: str) -> str:
        return str(annotations.get(f"{_CAPACITY}/{name}", ""))

    resources = {get("gpu-type"): get("gpu-count")} if get("gpu-type") else {}
    return Facts(_from_pairs(get("labels")), _from_taint_list(get("taints")), resources)


# Kubernetes objects


def _object(version: str, kind: str, template: NodeTemplate, **metadata: Any) -> dict[str, Any]:
    return {"apiVersion": version, "kind": kind, "metadata": {"name": template.object_name, **metadata}}


def _taint_objects(taints: Iterable[Taint]) -> list[dict[str, str]]:
    return [
        {name: text for name, text in zip(("key", "value", "effect"), taint, strict=True) if text} for taint in taints
    ]


def _from_taint_objects(taints: Any) -> frozenset[Taint]:
    found = taints if isinstance(taints, Sequence) else ()
    return frozenset((str(one.get("key")), str(one.get("value") or ""), str(one.get("effect"))) for one in found)


def _map(value: Json, name: str) -> Json:
    found = value.get(name) or {}
    if not isinstance(found, Mapping):
        raise ValueError(f"{name} must be a map")
    return found


def _render_karpenter(template: NodeTemplate, _: Sequence[Mapping[str, str]]) -> Rendered:
    labels, notes = _fit(template, _MAX_KARPENTER_LABELS)
    for key in [key for key in labels if key == _HOSTNAME or key.partition("/")[0].endswith(_KARPENTER_OWN)]:
        del labels[key]
        notes.append(f"Karpenter rejects the label {key}")
    spec = {"metadata": {"labels": labels}}
    if template.taints:
        spec["spec"] = {"taints": _taint_objects(template.taints)}  # type: ignore[dict-item]
    pool = _object("karpenter.sh/v1", "NodePool", template) | {"spec": {"template": spec}}
    pool["metadata"]["name"] = template.pool or template.object_name
    if not template.resources:
        return Rendered([pool], notes)
    if not template.instance_types:
        return Rendered([pool], [*notes, "no NodeOverlay: the nodes have no label node.kubernetes.io/instance-type"])
    types = {"key": "node.kubernetes.io/instance-type", "operator": "In", "values": list(template.instance_types)}
    overlay = _object("karpenter.sh/v1alpha1", "NodeOverlay", template)
    return Rendered(
        [pool, overlay | {"spec": {"requirements": [types], "capacity": dict(template.resources)}}],
        notes,
    )


def _read_karpenter(document: Json) -> Facts:
    spec = _map(document, "spec")
    if document.get("kind") == "NodeOverlay":
        return Facts(resources=_texts(_map(spec, "capacity")))
    template = _map(spec, "template")
    labels = _map(_map(template, "metadata"), "labels")
    return Facts(_texts(labels), _from_taint_objects(_map(template, "spec").get("taints")))


def _texts(values: Json) -> dict[str, str]:
    """Numbers and booleans without quotes as the texts that they stand for."""
    return {
        str(key): scalar_text(value) if isinstance(value, bool | int | float) else str(value)
        for key, value in values.items()
    }


def _telling(
    template: NodeTemplate, others: Sequence[Mapping[str, str]], limit: int
) -> tuple[dict[str, str], list[str]]:
    labels, left = distinguish(template, others, limit)
    if not labels:
        return {}, ["the nodes have no label in common"]
    return labels, [f"{left} nodes outside the group have the same labels"] if left else []


def _render_kueue(template: NodeTemplate, others: Sequence[Mapping[str, str]]) -> Rendered:
    labels, notes = _telling(template, others, _MAX_FLAVOR)
    spec: dict[str, Any] = {"nodeLabels": labels}
    if template.taints:
        if len(template.taints) > _MAX_FLAVOR:
            notes.append(f"{len(template.taints) - _MAX_FLAVOR} taints are over the limit of {_MAX_FLAVOR}")
        taints = template.taints[:_MAX_FLAVOR]
        spec["nodeTaints"] = _taint_objects(taints)
        spec["tolerations"] = [{"key": key, "operator": "Exists", "effect": effect} for key, _, effect in taints]
    return Rendered([_object("kueue.x-k8s.io/v1beta2", "ResourceFlavor", template) | {"spec": spec}], notes)


def _read_kueue(document: Json) -> Facts:
    spec = _map(document, "spec")
    return Facts(_texts(_map(spec, "nodeLabels")), _from_taint_objects(spec.get("nodeTaints")))


def _render_volcano(template: NodeTemplate, others: Sequence[Mapping[str, str]]) -> Rendered:
    labels, notes = _telling(template, others, len(template.labels))
    member = {"type": "Node", "selector": {"labelMatch": {"matchLabels": labels}}}
    spec = {"tier": 1, "members": [member]}
    return Rendered([_object("topology.volcano.sh/v1alpha1", "HyperNode", template) | {"spec": spec}], notes)


def _read_volcano(document: Json) -> Facts:
    labels: dict[str, str] = {}
    for member in _map(document, "spec").get("members") or ():
        labels |= _texts(_map(_map(_map(member, "selector"), "labelMatch"), "matchLabels"))
    return Facts(labels)


PLANNERS: Mapping[str, Planner] = {
    "aws-asg": Planner(_AWS.render, _AWS.facts),
    "azure-vmss": Planner(_AZURE.render, _AZURE.facts),
    "gce": Planner(_render_gce, _read_gce),
    "cluster-api": Planner(_render_cluster_api, _read_cluster_api, ("MachineDeployment", "MachineSet", "MachinePool")),
    "karpenter": Planner(_render_karpenter, _read_karpenter, ("NodePool", "NodeOverlay")),
    "kueue": Planner(_render_kueue, _read_kueue, ("ResourceFlavor",)),
    "volcano": Planner(_render_volcano, _read_volcano, ("HyperNode",)),
}


def join(facts: Iterable[Facts]) -> Facts:
    """The facts of several documents together."""
    together = Facts()
    for one in facts:
        labels, resources = {**together.labels, **one.labels}, {**together.resources, **one.resources}
        together = Facts(labels, together.taints | one.taints, resources)
    return together


def drift(wanted: Facts, configured: Facts, nodes: Sequence[Mapping[str, str]]) -> list[str]:
    """One line for each difference between an export and what is configured.

    `nodes` are the labels of the group's nodes: a configured label that all of them have is right, exported or not.
    """
    lines = _drift("label", wanted.labels, configured.labels)
    for key in sorted(configured.labels.keys() - wanted.labels.keys()):
        value = configured.labels[key]
        lacking = sum(labels.get(key) != value for labels in nodes)
        if lacking:
            lines.append(f"label {key}: {value!r} is configured, but {lacking} of {len(nodes)} nodes do not have it")
    lines += _drift("resource", wanted.resources, configured.resources)
    lines += [
        f"resource {name}: {configured.resources[name]} is configured, but not all nodes have it"
        for name in sorted(configured.resources.keys() - wanted.resources.keys())
    ]
    lines += [f"taint {taint_text(*one)} is not configured" for one in sorted(wanted.taints - configured.taints)]
    return lines + [
        f"taint {taint_text(*one)} is configured, but not all nodes have it"
        for one in sorted(configured.taints - wanted.taints)
    ]


def _drift(kind: str, wanted: Mapping[str, str], configured: Mapping[str, str]) -> list[str]:
    return [
        f"{kind} {key}: the nodes have {value!r}, {configured[key]!r} is configured"
        if key in configured
        else f"{kind} {key}: the nodes have {value!r}, it is not configured"
        for key, value in sorted(wanted.items())
        if configured.get(key) != value
    ]

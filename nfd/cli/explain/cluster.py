"""`nfd explain NODE LABEL` on a cluster, from the Node, the rules and the NodeFeature objects.

The features of a node are not in the cluster: only its worker and the master have them. So the cluster shows who set a
label and which rules would set it, but not on which value a rule fails.
"""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from nfd.cli.cluster import ask_cluster, read_dra, read_node
from nfd.cli.explain.command import elsewhere
from nfd.cli.explain.local import similar
from nfd.errors import ConfigError
from nfd.fleet.dra_devices import Offered, compare
from nfd.fleet.gpu_labels import NVIDIA, UNSEEN, disproved_labels
from nfd.fleet.gpu_resources import explain_offer
from nfd.kube.client import KubeClient
from nfd.kube.list_pages import list_if_known, whole
from nfd.kube.paths import NODE_FEATURES, RULES
from nfd.master.node.desired import RULE_ORIGIN, name_origin
from nfd.master.node.outcome import NO_RULES, evaluate_node
from nfd.master.node.ownership import CLAIMED, Origin, instances, parse_owned
from nfd.master.node.proof import ASSUMED
from nfd.master.rules.nodefeatures import NODE_NAME, Joining, parse_feature_object
from nfd.names import API_VERSION, FEATURE_NS, NVIDIA_NS
from nfd.rules.model import Rule
from nfd.rules.output_keys import stated_by
from nfd.rules.parse import RULE as RULE_KIND
from nfd.rules.parse import parse_object
from nfd.rules.policy import LABEL, Policy, prefix_keys
from nfd.store.base import Kind, Node

_POLICY = Policy()
Json = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Found:
    """What was read from the API server."""

    node: Json
    rules: Sequence[Json]
    objects: Sequence[Json]
    devices: Sequence[Offered] = ()
    """GPUs of the node that NVIDIA's DRA driver publishes."""


def explain_on_node(args: Namespace) -> tuple[str, str | None, list[str]]:
    """The label's key, its value, None if it is not there, and why. Raises: ConfigError, KubeError."""
    try:
        found = ask_cluster(args, lambda client: _read(client, args.node, args.label))
    except ConfigError as error:
        raise ConfigError(str(error) if str(error).startswith("NODE ") else f"NODE {args.node}: {error}") from error
    labels = found.node["metadata"].get("labels") or {}
    key, remark = elsewhere(args.label, labels)
    value, lines = lines_of(found, args.node, key)
    return key, value, [*remark, *lines, *(similar(key, labels) if value is None else ())]


def lines_of(found: Found, node: str, key: str) -> tuple[str | None, list[str]]:
    """The label's value and why, by what was read."""
    value = (found.node["metadata"].get("labels") or {}).get(key)
    lines = list(_makers(found, key)) if value is not None else []
    lines += _rules(found, key, missing=value is None)
    asked = list(_objects(found, key, missing=value is None))
    asked += disproof(found, key) if value is None else ()
    lines = [*lines, *asked] or ["no rule and no NodeFeature sets it"]
    lines += compare(key, value, found.devices)
    lines += () if found.devices else explain_offer(key, found.node)
    if value is None and not asked:
        lines.append(f"for its sources and features, run on {node}: nfd explain - {key}")
    return value, lines


async def _read(client: KubeClient, node: str, label: str) -> Found:
    found = await read_node(client, node)
    objects = await list_if_known(client, NODE_FEATURES, whole, {"labelSelector": f"{NODE_NAME}={node}"})
    rules = await list_if_known(client, RULES, whole)
    of_gpus = label.removeprefix(f"{NVIDIA_NS}/").startswith(("gpu.", "cuda."))
    dra = (await read_dra(client)).nodes if of_gpus else None
    return Found(found, rules, objects, dra[node].devices if dra and node in dra else ())


def _makers(found: Found, key: str) -> Iterator[str]:
    """Who set the label, from the bookkeeping on the Node, which only a master can verify, else from managedFields."""
    metadata = found.node["metadata"]
    owned = _origins(metadata)
    if key not in owned:
        managers = sorted({*_managers(metadata, key)})
        yield "not managed by nfd; " + (f"set by {', '.join(managers)}" if managers else "its manager is not recorded")
        return
    origin = owned[key]
    if origin is None or origin == CLAIMED:
        yield "managed by nfd, from an unknown origin"
        return
    yield f"set by {name_origin(origin)}"
    known = tuple(f"{RULE_ORIGIN}{one['metadata']['name']}/" for one in found.rules)
    if origin.startswith(RULE_ORIGIN) and not origin.startswith(known):
        yield "that rule does not exist any more; the master will remove the label"


def disproof(found: Found, key: str) -> list[str]:
    """Why the worker's word about the GPUs is not on a Node whose GPUs another program reads."""
    metadata = found.node["metadata"]
    labels = {**(metadata.get("labels") or {}), key: next(iter(sorted(UNSEEN)))}
    by = disproved_labels(labels, {**_origins(metadata), key: NVIDIA}).get(key)
    if not by:
        return []
    states = " and ".join(map(repr, sorted(UNSEEN)))
    return [f"{name_origin(by)} gives labels that only a driver can give, so {states} of the worker are left out"]


def _origins(metadata: Json) -> Mapping[str, Origin]:
    """The labels that nfd manages, each with its origin, from the bookkeeping of all masters on the Node."""
    annotations = metadata.get("annotations") or {}
    found: dict[str, Origin] = {}
    for instance in instances(annotations):
        for key, origin in parse_owned(annotations, instance, proof=ASSUMED).of(Kind.LABELS).items():
            if found.get(key) in (None, CLAIMED):
                found[key] = origin
    return found


def _managers(metadata: Json, key: str) -> Iterator[str]:
    for entry in metadata.get("managedFields") or ():
        if f"f:{key}" in entry.get("fieldsV1", {}).get("f:metadata", {}).get("f:labels", {}):
            yield str(entry.get("manager", ""))


def _rules(found: Found, key: str, *, missing: bool) -> Iterator[str]:
    """Rules that set the label or, while it is missing, may set it by a template; and their problems."""
    for item in sorted(found.rules, key=lambda one: str(one["metadata"]["name"])):
        statuses = (item.get("status") or {}).get("rules") or ()
        parsed = parse_object({"apiVersion": API_VERSION, "kind": RULE_KIND, **item})
        for index, one in enumerate(parsed.rules):
            if not isinstance(one.rule, Rule):
                continue
            named = any((stated.kind, stated.key) == (LABEL, key) for stated in stated_by(one.rule))
            status = statuses[index] if index < len(statuses) and statuses[index].get("name") == one.name else {}
            if named or (one.rule.labels_template and (missing or _speaks_of(status, key))):
                does = "sets it" if named else "sets labels by a template, perhaps this one"
                yield f"rule {one.name!r} of NodeFeatureRule {parsed.name} {does}" + _status_text(status)


def _speaks_of(status: Json, key: str) -> bool:
    """Whether the problems in the status of a rule name a label."""
    start = f"label {key.removeprefix(f'{FEATURE_NS}/')!r}: "
    return any(str(problem.get("message")).startswith(start) for problem in status.get("problems") or ())


def _status_text(status: Json) -> str:
    """The status of a rule as text."""
    if not status:
        return ""
    problems = [f"; {problem.get('message')}" for problem in status.get("problems") or ()]
    return f": it matches on {status.get('matched', 0)} nodes" + "".join(problems)


def _objects(found: Found, key: str, *, missing: bool) -> Iterator[str]:
    """Objects that set the label and, while it is missing, the reasons why the Node does not have it."""
    for item in found.objects:
        labels = prefix_keys((item.get("spec") or {}).get("labels") or {}, _POLICY)
        if key in labels:
            namespace, name = item["metadata"]["namespace"], item["metadata"]["name"]
            reason = f"; {_refusal(item, key, namespace)}" if missing else ""
            yield f"NodeFeature {namespace}/{name} sets it to {labels[key]!r}{reason}"


def _refusal(item: Json, key: str, namespace: str) -> str:
    """Why the master does not write it: by its default settings, else by options that may exclude it."""
    try:
        one = parse_feature_object(item)
    except ValueError as error:
        return f"the object is invalid: {error}"
    outcome = evaluate_node(Node.bare(one.node), None, NO_RULES, (one,), Joining())
    if reason := next((one.reason for one in outcome.derive_desired().dropped if one.key == key), ""):
        return reason
    return (
        "the configuration of the master may exclude it: nodeFeatureNamespaceSelector may exclude "
        f"namespace {namespace}, and denyNodeFeatureLabels, denyLabelNs or labelWhiteList the label"
    )

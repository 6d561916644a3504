"""What rendered manifests allow each service account, and what the audit log says it did."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from tests.controlplane.audit import Event
from tests.deploy.rendering import Object

KINDS = frozenset(
    (
        *("Namespace", "ServiceAccount", "Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding"),
        *("Secret", "ConfigMap", "Service"),
    )
)
"""What has to be there for our programs to run; workloads are processes of the test."""


class Right(NamedTuple):
    """`resource` has its subresource behind a slash; `namespace` is "" for the whole cluster."""

    namespace: str
    group: str
    resource: str
    verb: str


def granted(objects: Iterable[Object]) -> dict[str, set[Right]]:
    """User name of each service account → its rights, by the bindings."""
    objects = list(objects)
    roles = {(one["kind"], one["metadata"]["name"]): one for one in objects if "rules" in one}
    found: dict[str, set[Right]] = {
        user(one["metadata"]["namespace"], one["metadata"]["name"]): set()
        for one in objects
        if one["kind"] == "ServiceAccount"
    }
    for binding in (one for one in objects if one["kind"].endswith("RoleBinding") or "roleRef" in one):
        role = roles[binding["roleRef"]["kind"], binding["roleRef"]["name"]]
        for subject in binding["subjects"]:
            namespace = binding["metadata"].get("namespace", "")
            found[user(subject["namespace"], subject["name"])].update(_rights(role, namespace))
    return found


def _rights(role: Object, namespace: str) -> Iterator[Right]:
    for rule in role["rules"]:
        for group in rule.get("apiGroups", ()):
            for resource in rule["resources"]:
                for verb in rule["verbs"]:
                    yield Right(namespace, group, resource, verb)


def user(namespace: str, account: str) -> str:
    return f"system:serviceaccount:{namespace}:{account}"


def used(events: Iterable[Event], who: str, rights: Iterable[Right]) -> set[Right]:
    """The rights that an account made use of; what none of `rights` covers is told with its own namespace.

    A patch that makes an object (server-side apply, answered 201) needs `create` as well.
    """
    cluster_wide = {right for right in rights if not right.namespace}
    found = set()
    for event in events:
        if event.user == who and event.resource:
            resource = "/".join(filter(None, (event.resource, event.subresource)))
            for verb in (event.verb, "create") if (event.verb, event.code) == ("patch", 201) else (event.verb,):
                whole = Right("", event.group, resource, verb)
                found.add(whole if whole in cluster_wide else whole._replace(namespace=event.namespace))
    return found

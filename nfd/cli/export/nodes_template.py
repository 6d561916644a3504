"""`nfd export nodes-template`: what the nodes of a group have in common, in the form of a planner, and its drift."""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from nfd.cli.cluster import add_cluster_flags, ask_cluster, read_nodes
from nfd.cli.nodes import as_data
from nfd.cli.parsers import path
from nfd.cli.rule_files import text_of
from nfd.config.yamltext import documents
from nfd.errors import ConfigError
from nfd.fleet.node_template import Json, NodeTemplate, group_nodes, labels_of, make_template, managed_labels
from nfd.fleet.planner_formats import PLANNERS, Planner, Rendered, drift, join
from nfd.message_text import visible
from nfd.names import key_problem

if TYPE_CHECKING:
    from nfd.kube.client import KubeClient

EXAMPLES = (
    (
        "export nodes-template --group-by karpenter.sh/nodepool --for karpenter",
        "labels for each NodePool, so that Karpenter knows them before a node exists",
    ),
    (
        "export nodes-template -l pool=h200 --for aws-asg --keys 'nvidia.com/*'",
        "tags of an Auto Scaling group, with labels of GPUs alone",
    ),
    (
        "export nodes-template -l pool=h200 --for cluster-api --check machines.yaml",
        "differences between the nodes and what is configured; exit status 1 if there are any",
    ),
)


@dataclass(frozen=True, slots=True)
class NodeGroup:
    """A group, its nodes, and what they have in common."""

    nodes: Sequence[Json]
    template: NodeTemplate
    rendered: Rendered


def add_flags(parser: ArgumentParser) -> None:
    add_cluster_flags(parser)
    about = "one group for each value of this label, among --selector's nodes"
    parser.add_argument("--group-by", metavar="LABEL", default="", help=about)
    parser.add_argument("--for", dest="planner", choices=tuple(PLANNERS), required=True, help="the planner")
    about = "only labels that match, * is any text; repeatable"
    parser.add_argument("--keys", metavar="PATTERN", action="append", default=[], help=about)
    about = "print what differs from this file, - is standard input"
    parser.add_argument("--check", metavar="FILE", type=path, help=about)
    parser.add_argument("-o", "--output", choices=("yaml", "json"), default="yaml")


def run(args: Namespace) -> int:
    """Exit status 1 if no node has feature labels, or if --check finds a difference."""
    if not (args.group_by or args.selector):
        raise ConfigError("one of --group-by and --selector is required")
    if args.group_by and (problem := key_problem(args.group_by)):
        raise ConfigError(f"--group-by {args.group_by}: {problem}")
    planner = PLANNERS[args.planner]
    configured = read_configured(args.check, planner) if args.check else []
    groups = make_groups(args, planner, *ask_cluster(args, lambda client: read_both(client, args.selector)))
    if args.check:
        return check(args, planner, groups, configured)
    if args.output == "json":
        sys.stdout.write(as_data([_as_json(name, one) for name, one in groups.items()], "json"))
    else:
        sys.stdout.write("---\n".join(_as_yaml(name, one) for name, one in groups.items()))
    return 0


async def read_both(client: KubeClient, selector: str) -> tuple[list[Json], list[Json]]:
    """The nodes that the selector selects, and all nodes. Raises: KubeError."""
    nodes = await read_nodes(client)
    return (await read_nodes(client, selector) if selector else nodes), nodes


def make_groups(
    args: Namespace, planner: Planner, chosen: Sequence[Json], nodes: Sequence[Json]
) -> dict[str, NodeGroup]:
    """Group name → the group. Nodes without feature labels are named on standard error, and are ignored.

    Raises: ConfigError if no group has a node.
    """
    labelled = [node for node in chosen if managed_labels(node)]
    if bare := sorted(node["metadata"]["name"] for node in chosen if not managed_labels(node)):
        _warn(f"no feature labels yet, ignored: {', '.join(bare)}")
    if args.group_by:
        by_name, without = group_nodes(labelled, args.group_by)
        if without:
            _warn(f"no label {args.group_by}, ignored: {', '.join(without)}")
    else:
        by_name = {args.selector: labelled} if labelled else {}
    if not by_name:
        raise ConfigError("no node with feature labels is in a group")
    found = {}
    for name, members in by_name.items():
        template = make_template(name, members, args.keys)
        names = {node["metadata"]["name"] for node in members}
        others = [labels_of(node) for node in nodes if node["metadata"]["name"] not in names]
        found[name] = NodeGroup(members, template, planner.render(template, others))
    return found


def _warn(text: str) -> None:
    sys.stderr.write(f"{visible(text)}\n")


def _as_json(name: str, group: NodeGroup) -> dict[str, Any]:
    template = group.template
    return {
        "group": name,
        "nodes": [node["metadata"]["name"] for node in group.nodes],
        "documents": list(group.rendered.documents),
        "notes": list(group.rendered.notes),
        "leftOut": dict(template.left_out),
    }


def _as_yaml(name: str, group: NodeGroup) -> str:
    """The documents, with the notes as comments before them."""
    count = f"{len(group.nodes)} node{'' if len(group.nodes) == 1 else 's'}"
    comments = [f"# {name}: {count}", *(f"# {note}" for note in group.rendered.notes)]
    comments += [f"# left out: {key}: {reason}" for key, reason in group.template.left_out.items()]
    texts = [as_data(document, "yaml") for document in group.rendered.documents]
    return "".join(f"{visible(line)}\n" for line in comments) + "---\n".join(texts)


def read_configured(file: str, planner: Planner) -> list[Json]:
    """The documents of a file that are for the planner; a List counts as its items. Raises: ConfigError."""
    found = [one for document in documents(text_of(file), file) for one in _objects(document.data, planner)]
    if not found:
        what = f"{' or '.join(planner.kinds)} object" if planner.kinds else "document"
        raise ConfigError(f"{file}: has no {what}")
    return found


def _objects(data: Any, planner: Planner) -> Iterator[Json]:
    if isinstance(data, list):
        data = {"Tags": data} if not planner.kinds else {"items": data}
    if not isinstance(data, Mapping):
        return
    if planner.kinds and isinstance(data.get("items"), list):
        for item in data["items"]:
            yield from _objects(item, planner)
    elif not planner.kinds or data.get("kind") in planner.kinds:
        yield data


def check(args: Namespace, planner: Planner, groups: Mapping[str, NodeGroup], configured: Sequence[Json]) -> int:
    """Print each difference; exit status 1 if there are any. Raises: ConfigError for a document of another form."""
    count = 0
    for name, group in groups.items():
        names = {document.get("metadata", {}).get("name") for document in group.rendered.documents}
        documents_of = [
            one for one in configured if len(groups) == 1 or (one.get("metadata") or {}).get("name") in names
        ]
        if not documents_of:
            lines = [f"{args.check} has no object named {' or '.join(sorted(names))}"]
        else:
            try:
                found = join(map(planner.read, documents_of))
            except ValueError as error:
                raise ConfigError(f"{args.check}: {error}") from error
            wanted = join(map(planner.read, group.rendered.documents))
            lines = drift(wanted, found, [labels_of(node) for node in group.nodes])
        count += len(lines)
        sys.stdout.write("".join(f"{visible(name)}: {visible(line)}\n" for line in lines))
    sys.stderr.write(f"{count} differences\n" if count else "no differences\n")
    return 1 if count else 0

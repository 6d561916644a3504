"""The Labeler API of NFD v0.4 to v0.16, built from its message tables and independent of our own `.proto`.

Package `labeler`, service `Labeler`, method `SetLabels`; feature messages of package `v1alpha1` (v0.12 to v0.16) and
`feature` (v0.10 and v0.11), both proto2.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import grpc
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

Field = descriptor_pb2.FieldDescriptorProto
METHOD = "/labeler.Labeler/SetLabels"


def _file(name: str, package: str, syntax: str, *imports: str) -> descriptor_pb2.FileDescriptorProto:
    return descriptor_pb2.FileDescriptorProto(name=name, package=package, syntax=syntax, dependency=imports)


def _string(message: Any, number: int, name: str) -> None:
    message.field.add(name=name, number=number, type=Field.TYPE_STRING, label=Field.LABEL_OPTIONAL)


def _message(message: Any, number: int, name: str, kind: str, repeated: bool = False) -> None:
    label = Field.LABEL_REPEATED if repeated else Field.LABEL_OPTIONAL
    message.field.add(name=name, number=number, type=Field.TYPE_MESSAGE, type_name=kind, label=label)


def _map(message: Any, path: str, number: int, name: str, kind: str = "") -> None:
    """map<string, kind>, or map<string, string>."""
    entry = message.nested_type.add(name=f"{name.capitalize()}Entry")
    entry.options.map_entry = True
    _string(entry, 1, "key")
    _message(entry, 2, "value", kind) if kind else _string(entry, 2, "value")
    _message(message, number, name, f"{path}.{message.name}.{entry.name}", repeated=True)


def _features(package: str, top: str, names: tuple[str, str], kinds: tuple[str, str]) -> Any:
    """Feature messages: the two generations differ in names only, and in what the top message is keyed by."""
    file, path = _file(f"{package}.proto", package, "proto2"), f".{package}"
    message = file.message_type.add(name=top)
    for number, (name, kind) in enumerate(zip((*names, "instances"), (*kinds, "InstanceFeatureSet"), strict=True), 1):
        _map(message, path, number, name, f"{path}.{kind}")
    _map(file.message_type.add(name=kinds[0]), path, 1, "elements", f"{path}.Nil")
    _map(file.message_type.add(name=kinds[1]), path, 1, "elements")
    _message(file.message_type.add(name="InstanceFeatureSet"), 1, "elements", f"{path}.InstanceFeature", repeated=True)
    _map(file.message_type.add(name="InstanceFeature"), path, 1, "attributes")
    file.message_type.add(name="Nil")
    return file


def _labeler(kind: str | None, keyed: bool, *imports: str) -> Any:
    file = _file("labeler.proto", "labeler", "proto3", *imports)
    request = file.message_type.add(name="SetLabelsRequest")
    _string(request, 1, "nfd_version")
    _string(request, 2, "node_name")
    _map(request, ".labeler", 3, "labels")
    if kind and keyed:
        _map(request, ".labeler", 4, "features", kind)
    elif kind:
        _message(request, 4, "features", kind)
    file.message_type.add(name="SetLabelsReply")
    return file


def _build(*files: Any) -> Any:
    pool = descriptor_pool.DescriptorPool()
    for file in files:
        pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("labeler.SetLabelsRequest"))


def v016() -> Any:
    """SetLabelsRequest of v0.12 to v0.16."""
    names, kinds = ("flags", "vattributes"), ("FlagFeatureSet", "AttributeFeatureSet")
    return _build(
        _features("v1alpha1", "Features", names, kinds), _labeler(".v1alpha1.Features", False, "v1alpha1.proto")
    )


def v010() -> Any:
    """SetLabelsRequest of v0.10 and v0.11."""
    names, kinds = ("keys", "values"), ("KeyFeatureSet", "ValueFeatureSet")
    return _build(
        _features("feature", "DomainFeatures", names, kinds), _labeler(".feature.DomainFeatures", True, "feature.proto")
    )


def v004() -> Any:
    """SetLabelsRequest of v0.4 to v0.9."""
    return _build(_labeler(None, False))


@contextmanager
def master(credentials: Any = None) -> Iterator[tuple[int, list[Any]]]:
    """A peer that knows `SetLabels` alone; yields its port and the requests it took."""
    taken: list[Any] = []
    request = v016()

    def set_labels(message: Any, context: Any) -> bytes:
        taken.append(message)
        return b""

    handler = grpc.unary_unary_rpc_method_handler(set_labels, request.FromString)
    server = grpc.server(ThreadPoolExecutor(2))
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("labeler.Labeler", {"SetLabels": handler}),))
    port = (
        server.add_insecure_port("127.0.0.1:0")
        if credentials is None
        else server.add_secure_port("127.0.0.1:0", credentials)
    )
    server.start()
    try:
        yield port, taken
    finally:
        server.stop(0).wait()


def set_labels(port: int, request: bytes) -> bytes:
    """Call SetLabels as an old worker does."""
    with grpc.insecure_channel(f"127.0.0.1:{port}") as channel:
        answer: bytes = channel.unary_unary(METHOD)(request, timeout=5)
        return answer

from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class SetLabelsRequest(_message.Message):
    __slots__ = ("nfd_version", "node_name", "labels", "features")
    class LabelsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    NFD_VERSION_FIELD_NUMBER: _ClassVar[int]
    NODE_NAME_FIELD_NUMBER: _ClassVar[int]
    LABELS_FIELD_NUMBER: _ClassVar[int]
    FEATURES_FIELD_NUMBER: _ClassVar[int]
    nfd_version: str
    node_name: str
    labels: _containers.ScalarMap[str, str]
    features: Features
    def __init__(self, nfd_version: _Optional[str] = ..., node_name: _Optional[str] = ..., labels: _Optional[_Mapping[str, str]] = ..., features: _Optional[_Union[Features, _Mapping]] = ...) -> None: ...

class SetLabelsReply(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class Addressee(_message.Message):
    __slots__ = ("node_name",)
    NODE_NAME_FIELD_NUMBER: _ClassVar[int]
    node_name: str
    def __init__(self, node_name: _Optional[str] = ...) -> None: ...

class Features(_message.Message):
    __slots__ = ("flags", "vattributes", "instances")
    class FlagsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: FlagFeatureSet
        def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[FlagFeatureSet, _Mapping]] = ...) -> None: ...
    class VattributesEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: AttributeFeatureSet
        def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[AttributeFeatureSet, _Mapping]] = ...) -> None: ...
    class InstancesEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: InstanceFeatureSet
        def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[InstanceFeatureSet, _Mapping]] = ...) -> None: ...
    FLAGS_FIELD_NUMBER: _ClassVar[int]
    VATTRIBUTES_FIELD_NUMBER: _ClassVar[int]
    INSTANCES_FIELD_NUMBER: _ClassVar[int]
    flags: _containers.MessageMap[str, FlagFeatureSet]
    vattributes: _containers.MessageMap[str, AttributeFeatureSet]
    instances: _containers.MessageMap[str, InstanceFeatureSet]
    def __init__(self, flags: _Optional[_Mapping[str, FlagFeatureSet]] = ..., vattributes: _Optional[_Mapping[str, AttributeFeatureSet]] = ..., instances: _Optional[_Mapping[str, InstanceFeatureSet]] = ...) -> None: ...

class FlagFeatureSet(_message.Message):
    __slots__ = ("elements",)
    class ElementsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: Nil
        def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[Nil, _Mapping]] = ...) -> None: ...
    ELEMENTS_FIELD_NUMBER: _ClassVar[int]
    elements: _containers.MessageMap[str, Nil]
    def __init__(self, elements: _Optional[_Mapping[str, Nil]] = ...) -> None: ...

class AttributeFeatureSet(_message.Message):
    __slots__ = ("elements",)
    class ElementsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    ELEMENTS_FIELD_NUMBER: _ClassVar[int]
    elements: _containers.ScalarMap[str, str]
    def __init__(self, elements: _Optional[_Mapping[str, str]] = ...) -> None: ...

class InstanceFeatureSet(_message.Message):
    __slots__ = ("elements",)
    ELEMENTS_FIELD_NUMBER: _ClassVar[int]
    elements: _containers.RepeatedCompositeFieldContainer[InstanceFeature]
    def __init__(self, elements: _Optional[_Iterable[_Union[InstanceFeature, _Mapping]]] = ...) -> None: ...

class InstanceFeature(_message.Message):
    __slots__ = ("attributes",)
    class AttributesEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    ATTRIBUTES_FIELD_NUMBER: _ClassVar[int]
    attributes: _containers.ScalarMap[str, str]
    def __init__(self, attributes: _Optional[_Mapping[str, str]] = ...) -> None: ...

class Nil(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class DomainSetLabelsRequest(_message.Message):
    __slots__ = ("nfd_version", "node_name", "labels", "features")
    class LabelsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    class FeaturesEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: Features
        def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[Features, _Mapping]] = ...) -> None: ...
    NFD_VERSION_FIELD_NUMBER: _ClassVar[int]
    NODE_NAME_FIELD_NUMBER: _ClassVar[int]
    LABELS_FIELD_NUMBER: _ClassVar[int]
    FEATURES_FIELD_NUMBER: _ClassVar[int]
    nfd_version: str
    node_name: str
    labels: _containers.ScalarMap[str, str]
    features: _containers.MessageMap[str, Features]
    def __init__(self, nfd_version: _Optional[str] = ..., node_name: _Optional[str] = ..., labels: _Optional[_Mapping[str, str]] = ..., features: _Optional[_Mapping[str, Features]] = ...) -> None: ...

class ReportRequest(_message.Message):
    __slots__ = ("version", "node_name", "node_uid", "order", "labels", "annotations", "origins", "sources", "features", "blobs")
    class LabelsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    class AnnotationsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    class OriginsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    class SourcesEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: SourceState
        def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[SourceState, _Mapping]] = ...) -> None: ...
    VERSION_FIELD_NUMBER: _ClassVar[int]
    NODE_NAME_FIELD_NUMBER: _ClassVar[int]
    NODE_UID_FIELD_NUMBER: _ClassVar[int]
    ORDER_FIELD_NUMBER: _ClassVar[int]
    LABELS_FIELD_NUMBER: _ClassVar[int]
    ANNOTATIONS_FIELD_NUMBER: _ClassVar[int]
    ORIGINS_FIELD_NUMBER: _ClassVar[int]
    SOURCES_FIELD_NUMBER: _ClassVar[int]
    FEATURES_FIELD_NUMBER: _ClassVar[int]
    BLOBS_FIELD_NUMBER: _ClassVar[int]
    version: str
    node_name: str
    node_uid: str
    order: Order
    labels: _containers.ScalarMap[str, str]
    annotations: _containers.ScalarMap[str, str]
    origins: _containers.ScalarMap[str, str]
    sources: _containers.MessageMap[str, SourceState]
    features: _containers.RepeatedCompositeFieldContainer[FeatureRef]
    blobs: _containers.RepeatedScalarFieldContainer[bytes]
    def __init__(self, version: _Optional[str] = ..., node_name: _Optional[str] = ..., node_uid: _Optional[str] = ..., order: _Optional[_Union[Order, _Mapping]] = ..., labels: _Optional[_Mapping[str, str]] = ..., annotations: _Optional[_Mapping[str, str]] = ..., origins: _Optional[_Mapping[str, str]] = ..., sources: _Optional[_Mapping[str, SourceState]] = ..., features: _Optional[_Iterable[_Union[FeatureRef, _Mapping]]] = ..., blobs: _Optional[_Iterable[bytes]] = ...) -> None: ...

class ReportReply(_message.Message):
    __slots__ = ("beat", "missing", "node_labels")
    BEAT_FIELD_NUMBER: _ClassVar[int]
    MISSING_FIELD_NUMBER: _ClassVar[int]
    NODE_LABELS_FIELD_NUMBER: _ClassVar[int]
    beat: float
    missing: _containers.RepeatedScalarFieldContainer[bytes]
    node_labels: NodeLabels
    def __init__(self, beat: _Optional[float] = ..., missing: _Optional[_Iterable[bytes]] = ..., node_labels: _Optional[_Union[NodeLabels, _Mapping]] = ...) -> None: ...

class NodeLabels(_message.Message):
    __slots__ = ("labels",)
    class LabelsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    LABELS_FIELD_NUMBER: _ClassVar[int]
    labels: _containers.ScalarMap[str, str]
    def __init__(self, labels: _Optional[_Mapping[str, str]] = ...) -> None: ...

class Order(_message.Message):
    __slots__ = ("boot_id", "started", "sequence")
    BOOT_ID_FIELD_NUMBER: _ClassVar[int]
    STARTED_FIELD_NUMBER: _ClassVar[int]
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    boot_id: str
    started: int
    sequence: int
    def __init__(self, boot_id: _Optional[str] = ..., started: _Optional[int] = ..., sequence: _Optional[int] = ...) -> None: ...

class SourceState(_message.Message):
    __slots__ = ("state", "error", "since")
    class State(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        UNKNOWN: _ClassVar[SourceState.State]
        FRESH: _ClassVar[SourceState.State]
        FAILED: _ClassVar[SourceState.State]
        OFF: _ClassVar[SourceState.State]
    UNKNOWN: SourceState.State
    FRESH: SourceState.State
    FAILED: SourceState.State
    OFF: SourceState.State
    STATE_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    SINCE_FIELD_NUMBER: _ClassVar[int]
    state: SourceState.State
    error: str
    since: float
    def __init__(self, state: _Optional[_Union[SourceState.State, str]] = ..., error: _Optional[str] = ..., since: _Optional[float] = ...) -> None: ...

class FeatureRef(_message.Message):
    __slots__ = ("name", "digest")
    NAME_FIELD_NUMBER: _ClassVar[int]
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    name: str
    digest: bytes
    def __init__(self, name: _Optional[str] = ..., digest: _Optional[bytes] = ...) -> None: ...

class Feature(_message.Message):
    __slots__ = ("flags", "attributes", "instances")
    FLAGS_FIELD_NUMBER: _ClassVar[int]
    ATTRIBUTES_FIELD_NUMBER: _ClassVar[int]
    INSTANCES_FIELD_NUMBER: _ClassVar[int]
    flags: FlagFeatureSet
    attributes: AttributeFeatureSet
    instances: InstanceFeatureSet
    def __init__(self, flags: _Optional[_Union[FlagFeatureSet, _Mapping]] = ..., attributes: _Optional[_Union[AttributeFeatureSet, _Mapping]] = ..., instances: _Optional[_Union[InstanceFeatureSet, _Mapping]] = ...) -> None: ...

class ReplicateRequest(_message.Message):
    __slots__ = ("received",)
    RECEIVED_FIELD_NUMBER: _ClassVar[int]
    received: int
    def __init__(self, received: _Optional[int] = ...) -> None: ...

class Copies(_message.Message):
    __slots__ = ("number", "blobs", "contents", "copies", "complete")
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    BLOBS_FIELD_NUMBER: _ClassVar[int]
    CONTENTS_FIELD_NUMBER: _ClassVar[int]
    COPIES_FIELD_NUMBER: _ClassVar[int]
    COMPLETE_FIELD_NUMBER: _ClassVar[int]
    number: int
    blobs: _containers.RepeatedScalarFieldContainer[bytes]
    contents: _containers.RepeatedScalarFieldContainer[bytes]
    copies: _containers.RepeatedCompositeFieldContainer[Copy]
    complete: bool
    def __init__(self, number: _Optional[int] = ..., blobs: _Optional[_Iterable[bytes]] = ..., contents: _Optional[_Iterable[bytes]] = ..., copies: _Optional[_Iterable[_Union[Copy, _Mapping]]] = ..., complete: _Optional[bool] = ...) -> None: ...

class Copy(_message.Message):
    __slots__ = ("node_name", "node_uid", "uid", "order", "pod", "issued", "content", "features", "sources")
    class SourcesEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: SourceState
        def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[SourceState, _Mapping]] = ...) -> None: ...
    NODE_NAME_FIELD_NUMBER: _ClassVar[int]
    NODE_UID_FIELD_NUMBER: _ClassVar[int]
    UID_FIELD_NUMBER: _ClassVar[int]
    ORDER_FIELD_NUMBER: _ClassVar[int]
    POD_FIELD_NUMBER: _ClassVar[int]
    ISSUED_FIELD_NUMBER: _ClassVar[int]
    CONTENT_FIELD_NUMBER: _ClassVar[int]
    FEATURES_FIELD_NUMBER: _ClassVar[int]
    SOURCES_FIELD_NUMBER: _ClassVar[int]
    node_name: str
    node_uid: str
    uid: str
    order: Order
    pod: str
    issued: float
    content: bytes
    features: _containers.RepeatedCompositeFieldContainer[FeatureRef]
    sources: _containers.MessageMap[str, SourceState]
    def __init__(self, node_name: _Optional[str] = ..., node_uid: _Optional[str] = ..., uid: _Optional[str] = ..., order: _Optional[_Union[Order, _Mapping]] = ..., pod: _Optional[str] = ..., issued: _Optional[float] = ..., content: _Optional[bytes] = ..., features: _Optional[_Iterable[_Union[FeatureRef, _Mapping]]] = ..., sources: _Optional[_Mapping[str, SourceState]] = ...) -> None: ...

class RawElements(_message.Message):
    __slots__ = ("elements",)
    class Element(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: bytes
        value: bytes
        def __init__(self, key: _Optional[bytes] = ..., value: _Optional[bytes] = ...) -> None: ...
    ELEMENTS_FIELD_NUMBER: _ClassVar[int]
    elements: _containers.RepeatedCompositeFieldContainer[RawElements.Element]
    def __init__(self, elements: _Optional[_Iterable[_Union[RawElements.Element, _Mapping]]] = ...) -> None: ...

class SetOutline(_message.Message):
    __slots__ = ("elements",)
    class Element(_message.Message):
        __slots__ = ("attributes",)
        ATTRIBUTES_FIELD_NUMBER: _ClassVar[int]
        attributes: _containers.RepeatedScalarFieldContainer[bytes]
        def __init__(self, attributes: _Optional[_Iterable[bytes]] = ...) -> None: ...
    ELEMENTS_FIELD_NUMBER: _ClassVar[int]
    elements: _containers.RepeatedCompositeFieldContainer[SetOutline.Element]
    def __init__(self, elements: _Optional[_Iterable[_Union[SetOutline.Element, _Mapping]]] = ...) -> None: ...

class FeatureOutline(_message.Message):
    __slots__ = ("flags", "attributes", "instances")
    FLAGS_FIELD_NUMBER: _ClassVar[int]
    ATTRIBUTES_FIELD_NUMBER: _ClassVar[int]
    INSTANCES_FIELD_NUMBER: _ClassVar[int]
    flags: _containers.RepeatedCompositeFieldContainer[SetOutline]
    attributes: _containers.RepeatedCompositeFieldContainer[SetOutline]
    instances: _containers.RepeatedCompositeFieldContainer[SetOutline]
    def __init__(self, flags: _Optional[_Iterable[_Union[SetOutline, _Mapping]]] = ..., attributes: _Optional[_Iterable[_Union[SetOutline, _Mapping]]] = ..., instances: _Optional[_Iterable[_Union[SetOutline, _Mapping]]] = ...) -> None: ...

class FeaturesOutline(_message.Message):
    __slots__ = ("flags", "vattributes", "instances")
    class Entry(_message.Message):
        __slots__ = ("value",)
        VALUE_FIELD_NUMBER: _ClassVar[int]
        value: SetOutline
        def __init__(self, value: _Optional[_Union[SetOutline, _Mapping]] = ...) -> None: ...
    FLAGS_FIELD_NUMBER: _ClassVar[int]
    VATTRIBUTES_FIELD_NUMBER: _ClassVar[int]
    INSTANCES_FIELD_NUMBER: _ClassVar[int]
    flags: _containers.RepeatedCompositeFieldContainer[FeaturesOutline.Entry]
    vattributes: _containers.RepeatedCompositeFieldContainer[FeaturesOutline.Entry]
    instances: _containers.RepeatedCompositeFieldContainer[FeaturesOutline.Entry]
    def __init__(self, flags: _Optional[_Iterable[_Union[FeaturesOutline.Entry, _Mapping]]] = ..., vattributes: _Optional[_Iterable[_Union[FeaturesOutline.Entry, _Mapping]]] = ..., instances: _Optional[_Iterable[_Union[FeaturesOutline.Entry, _Mapping]]] = ...) -> None: ...

class SetLabelsOutline(_message.Message):
    __slots__ = ("labels", "features")
    LABELS_FIELD_NUMBER: _ClassVar[int]
    FEATURES_FIELD_NUMBER: _ClassVar[int]
    labels: _containers.RepeatedScalarFieldContainer[bytes]
    features: FeaturesOutline
    def __init__(self, labels: _Optional[_Iterable[bytes]] = ..., features: _Optional[_Union[FeaturesOutline, _Mapping]] = ...) -> None: ...

class DomainSetLabelsOutline(_message.Message):
    __slots__ = ("labels", "features")
    class Entry(_message.Message):
        __slots__ = ("value",)
        VALUE_FIELD_NUMBER: _ClassVar[int]
        value: FeaturesOutline
        def __init__(self, value: _Optional[_Union[FeaturesOutline, _Mapping]] = ...) -> None: ...
    LABELS_FIELD_NUMBER: _ClassVar[int]
    FEATURES_FIELD_NUMBER: _ClassVar[int]
    labels: _containers.RepeatedScalarFieldContainer[bytes]
    features: _containers.RepeatedCompositeFieldContainer[DomainSetLabelsOutline.Entry]
    def __init__(self, labels: _Optional[_Iterable[bytes]] = ..., features: _Optional[_Iterable[_Union[DomainSetLabelsOutline.Entry, _Mapping]]] = ...) -> None: ...

class ReportOutline(_message.Message):
    __slots__ = ("labels", "annotations", "origins", "sources")
    LABELS_FIELD_NUMBER: _ClassVar[int]
    ANNOTATIONS_FIELD_NUMBER: _ClassVar[int]
    ORIGINS_FIELD_NUMBER: _ClassVar[int]
    SOURCES_FIELD_NUMBER: _ClassVar[int]
    labels: _containers.RepeatedScalarFieldContainer[bytes]
    annotations: _containers.RepeatedScalarFieldContainer[bytes]
    origins: _containers.RepeatedScalarFieldContainer[bytes]
    sources: _containers.RepeatedScalarFieldContainer[bytes]
    def __init__(self, labels: _Optional[_Iterable[bytes]] = ..., annotations: _Optional[_Iterable[bytes]] = ..., origins: _Optional[_Iterable[bytes]] = ..., sources: _Optional[_Iterable[bytes]] = ...) -> None: ...

"""An inventory as raw features, for rules to match on, and back.

`nvidia.driver` and `nvidia.node` are attributes, `nvidia.gpu` and `nvidia.mig` instances; an attribute is named after
the field of the inventory, with dots: `compute.major`, `mig.enabled`. What is not known is left out.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import Field, fields
from typing import Any, TypeVar

from gfd.inventory import Driver, Gpu, Inventory, MigDevice, Node, Trouble
from nfd.features import Features

T = TypeVar("T")

DRIVER = "nvidia.driver"
NODE = "nvidia.node"
GPU = "nvidia.gpu"
MIG = "nvidia.mig"


def to_features(inventory: Inventory) -> Features:
    """`nvidia.node` always; the others as far as a driver was asked."""
    reading = {
        "backend": inventory.backend,
        "trouble": str(inventory.trouble or ""),
        "reason": inventory.reason,
        "stale": "true" if inventory.stale else "",
    }
    driver = {**{key: value for key, value in reading.items() if value}, **_texts(inventory.driver)}
    devices = {
        GPU: tuple(_texts(gpu) for gpu in inventory.gpus),
        MIG: tuple(_texts(mig) for mig in inventory.migs),
    }
    return Features(
        attributes={NODE: _texts(inventory.node), **({DRIVER: driver} if driver else {})},
        instances=devices if driver else {},
    )


def from_features(features: Features) -> Inventory | None:
    """The inventory behind the features, None if there is none in them."""
    node = features.attributes.get(NODE)
    if node is None:
        return None
    reading = features.attributes.get(DRIVER, {})
    return Inventory(
        backend=reading.get("backend", ""),
        driver=_value(Driver, reading),
        gpus=tuple(_value(Gpu, one) for one in features.instances.get(GPU, ())),
        migs=tuple(_value(MigDevice, one) for one in features.instances.get(MIG, ())),
        node=_value(Node, node),
        trouble=Trouble(reading["trouble"]) if "trouble" in reading else None,
        reason=reading.get("reason", ""),
        stale=reading.get("stale") == "true",
    )


def _texts(value: Any) -> dict[str, str]:
    """The fields that are known, as texts."""
    known = ((one.name, getattr(value, one.name)) for one in fields(value))
    return {name.replace("_", "."): _text(found) for name, found in known if found is not None and found != ""}


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _value(model: type[T], texts: Mapping[str, str]) -> T:
    known: list[Field[Any]] = [one for one in fields(model) if one.name.replace("_", ".") in texts]  # type: ignore[arg-type]
    return model(**{one.name: _parsed(str(one.type), texts[one.name.replace("_", ".")]) for one in known})


def _parsed(kind: str, text: str) -> Any:
    if kind.startswith("bool"):
        return text == "true"
    return int(text) if kind.startswith("int") else text

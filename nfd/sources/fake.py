"""Made-up features and labels for trying things out; runs only when asked for by name."""

from __future__ import annotations

from collections.abc import Mapping

from nfd.config.section import Section
from nfd.features import Features, Labels
from nfd.host import Host
from nfd.source import Source

FLAG, ATTRIBUTE, INSTANCE = "fake.flag", "fake.attribute", "fake.instance"


class Config(Section):
    """Given maps are merged into the default ones, lists of maps merged index by index, other lists replaced."""

    labels: Mapping[str, str] = {"fakefeature1": "true", "fakefeature2": "true", "fakefeature3": "true"}
    """Labels by name."""
    flag_features: tuple[str, ...] = ("flag_1", "flag_2", "flag_3")
    """Elements of `fake.flag`."""
    attribute_features: Mapping[str, str] = {"attr_1": "true", "attr_2": "false", "attr_3": "10"}
    """Elements of `fake.attribute`."""
    instance_features: tuple[Mapping[str, str], ...] = (
        {"name": "instance_1", "attr_1": "true", "attr_2": "false", "attr_3": "10", "attr_4": "foobar"},
        {"name": "instance_2", "attr_1": "true", "attr_2": "true", "attr_3": "100"},
        {"name": "instance_3"},
    )
    """Elements of `fake.instance`."""


def discover(host: Host, config: Config) -> Features:
    """The configured features; nothing is read."""
    return Features(
        {FLAG: frozenset(config.flag_features)},
        {ATTRIBUTE: dict(config.attribute_features)},
        {INSTANCE: tuple(dict(one) for one in config.instance_features)},
    )


def labels(features: Features, config: Config) -> Labels:
    """The configured labels, whether or not the features were asked for; a name with a slash is a full key.

    Labels:
        fakefeature1, fakefeature2, fakefeature3 = true: a label for tests. The configuration can replace it
        <name> = text: a label for tests that the configuration sets
    """
    return dict(config.labels)


SOURCE = Source("fake", Config, discover, labels, default=False, namespaced=True, written=True, settled=True)

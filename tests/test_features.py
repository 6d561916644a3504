"""`nfd.features.hold`: what a partial failure keeps of the last good run."""

from __future__ import annotations

from collections.abc import Mapping

from hypothesis import given
from hypothesis import strategies as st

from nfd.features import Features, hold

TEXT = st.text("ab", max_size=2)
INSTANCES = st.lists(st.dictionaries(TEXT, TEXT, max_size=2), max_size=5).map(tuple)
FEATURES = st.builds(
    Features,
    st.dictionaries(TEXT, st.frozensets(TEXT), max_size=2),
    st.dictionaries(TEXT, st.dictionaries(TEXT, TEXT), max_size=2),
    st.dictionaries(TEXT, INSTANCES, max_size=2),
)


def test_a_poorer_instance_gives_way_to_the_one_before() -> None:
    before = Features(instances={"block": ({"name": "sda", "rotational": "0"}, {"name": "sdb"})})
    found = Features(instances={"block": ({"name": "sda"}, {"name": "sdc"})})
    held = hold(found, before, ["block"]).instances["block"]
    assert held == ({"name": "sda", "rotational": "0"}, {"name": "sdb"}, {"name": "sdc"})


def test_equal_instances_are_counted() -> None:
    one: Mapping[str, str] = {"class": "03"}
    held = hold(Features(instances={"usb": (one, one)}), Features(instances={"usb": (one, one, one)}), ["usb"])
    assert held.instances["usb"] == (one, one, one)


@given(FEATURES, FEATURES)
def test_features_that_did_not_fail_are_new(found: Features, before: Features) -> None:
    assert hold(found, before, ()) == found


@given(FEATURES)
def test_to_hold_on_to_oneself_changes_nothing(found: Features) -> None:
    assert hold(found, found, found.names()) == found


@given(FEATURES, FEATURES)
def test_nothing_vanishes(found: Features, before: Features) -> None:
    held = hold(found, before, before.names())
    for name, flags in before.flags.items():
        assert flags <= held.flags[name]
    for name, values in before.attributes.items():
        assert values.keys() <= held.attributes[name].keys()
    for name, instances in before.instances.items():
        assert all(one in held.instances[name] for one in instances)

"""Reference, example and schema say what the model says."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nfd.config.load import check, load
from nfd.config.options import Kind, options
from nfd.config.overlay import Layer
from nfd.config.render import duration_text, example, reference, schema
from nfd.config.section import Section, parse_duration
from nfd.config.yamltext import dump, parse
from nfd.master.config import Config as MasterConfig
from nfd.worker.config import model as worker_model
from tests.config.sample import Config

MODELS: list[type[Section]] = [Config, worker_model(), MasterConfig]


def uncommented(text: str) -> str:
    return "".join(line.removeprefix("#") for line in text.splitlines(keepends=True))


@pytest.mark.parametrize("model", MODELS)
def test_the_example_is_a_comment_and_holds_the_defaults(model: type[Section]) -> None:
    text = example(model)
    assert parse(text, "f").data is None
    document = parse(uncommented(text), "f")
    assert check(model, [Layer("f", document.data)]) == ()
    assert load(model, [Layer("f", document.data)]).config.model_dump() == load(model, []).config.model_dump()
    for option in options(model):
        shown = find(document.data, option.path) is not MISSING
        assert shown is not (option.deprecated or option.mark.hidden)


MISSING = object()


def find(data: Any, path: tuple[str, ...]) -> Any:
    for key in path:
        if key not in data:
            return MISSING
        data = data[key]
    return data


@pytest.mark.parametrize("model", MODELS)
def test_reference_and_schema_name_every_option(model: type[Section]) -> None:
    page = reference("Title", model, "PREFIX")
    top = json.loads(schema("Title", model))
    for option in options(model, "PREFIX"):
        assert f"## `{option.key}`\n" in page
        assert all(f"`--{name}`" in page for name in option.flags)
        found = top
        for key in option.path:
            found = found["properties"][key]
        assert "default" in found
    for option in options(model):
        assert option.help, option.key


def test_schema_types() -> None:
    core = json.loads(schema("t", Config))["properties"]["core"]["properties"]
    assert core["sleepInterval"]["type"] == ["string", "number"]
    assert core["mode"]["enum"] == ["none", "single"]
    assert core["labelSources"]["items"] == {"type": "string"}
    assert core["sources"]["deprecated"] is True


def test_options_have_flags_where_text_can_hold_the_value() -> None:
    found = {option.key: option for option in options(Config, "P")}
    assert found["core.port"].flags == ("port", "core.port")
    assert found["core.port"].env == ("OLD_PORT", "P_CORE_PORT")
    assert found["sources.fake.labels"].flags == ("sources.fake.labels",)
    assert found["sources.fake.instances"].flags == ()
    assert found["sources.custom"].flags == ()
    assert found["sources.custom"].shape.kind is Kind.LIST


@given(st.integers(0, 10**7).map(lambda number: number / 1000))
def test_durations_are_read_back(seconds: float) -> None:
    assert parse_duration(duration_text(seconds)) == pytest.approx(seconds, rel=1e-5)


TEXTS = st.text(max_size=20) | st.sampled_from(["y", "0300", "1e3", "null", "~", "<<", "", " x", "a: b", "- a", "#"])
VALUES = st.recursive(
    TEXTS | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.none(),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(TEXTS.filter(lambda key: key != "<<"), inner, max_size=4)
    ),
    max_leaves=10,
)


@given(VALUES, st.booleans())
def test_what_is_dumped_is_read_back(value: Any, flow: bool) -> None:
    assert parse(dump({"a": value}, flow=flow), "f").data == {"a": value}

"""`nfd compat validate-node` against real registries: one with the referrers API, one without, with each log-in."""

from __future__ import annotations

import base64
import io
import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from nfd.cli import main
from tests.cli.small import MACHINE, make
from tests.compat.registries import REPOSITORY, Publisher, registry
from tests.compat.tokens import BCRYPT, PASSWORD, USER, Tokens

SPEC = """
version: v1alpha1
compatibilities:
  - description: what it was built for
    tag: gpu
    weight: 2
    rules:
      - name: gpu
        matchFeatures:
          - feature: pci.device
            matchExpressions:
              vendor: {op: In, value: ["10de"]}
              device: {op: In, value: ["1eb8"]}
          - feature: kernel.config
            matchName: {op: In, value: ["NO_HZ"]}
  - tag: any
    rules:
      - name: either
        matchAny:
          - matchFeatures:
              - feature: system.osrelease
                matchExpressions: {ID: {op: In, value: [ubuntu]}}
          - matchFeatures:
              - feature: pci.device
                matchExpressions:
                  vendor: {op: In, value: ["8086"]}
                  class: {op: In, value: ["0302"]}
"""
OLD = "version: v1alpha1\ncompatibilities: [{tag: old, rules: []}]\n"
Call = Callable[..., tuple[int, str, str]]


@pytest.fixture
def call(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Call:
    machine = str(make(tmp_path / "machine", MACHINE))

    def run(host: str, *words: str, name: str = ":1") -> tuple[int, str, str]:
        image = f"--image={host}/{REPOSITORY}{name}"
        status = main(["compat", "validate-node", image, "--plain-http", f"--replay={machine}", *words])
        out, err = capsys.readouterr()
        return status, out, err

    return run


@pytest.fixture(params=["referrers API", "tag"])
def host(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    with registry(tmp_path / "registry", None if request.param == "referrers API" else {}) as address:
        yield address


def test_json_is_that_of_nfd(host: str, call: Call) -> None:
    """Of several artifacts the newest counts, whatever their order; other types do not."""
    publisher = Publisher(host)
    image = publisher.image("1")
    publisher.attach(image, OLD, "2025-01-01T00:00:00Z")
    publisher.attach(image, SPEC, "2026-01-01T00:00:00+01:00")
    publisher.attach(image, OLD)
    publisher.attach(image, OLD, "2027-01-01T00:00:00Z", "application/vnd.example")
    status, out, err = call(host, "--output-json")
    assert (status, err) == (0, "")
    gpu, either = json.loads(out)
    assert (gpu["description"], gpu["weight"], gpu["tag"]) == ("what it was built for", 2, "gpu")
    kernel = {"feature": "kernel.config", "name": "", "expression": {"op": "In", "value": ["NO_HZ"]}}
    device = {"feature": "pci.device", "name": "device", "expression": {"op": "In", "value": ["1eb8"]}}
    vendor = {"feature": "pci.device", "name": "vendor", "expression": {"op": "In", "value": ["10de"]}}
    held = [
        {**kernel, "matcherType": "matchName", "isMatch": True},
        {**device, "matcherType": "matchExpression", "isMatch": True},
        {**vendor, "matcherType": "matchExpression", "isMatch": True},
    ]
    assert gpu["rules"] == [{"name": "gpu", "isMatch": True, "matchedExpressions": held}]
    (rule,) = either["rules"]
    assert (rule["isMatch"], either.keys()) == (False, {"rules", "tag"})
    assert "matchedExpressions" not in rule
    first, second = ([one["isMatch"] for one in part["matchedExpressions"]] for part in rule["matchedAny"])
    assert first == [False]
    assert sorted(second) == [False, True], "no device has both; the best one has one of them"
    assert [one["tag"] for one in json.loads(call(host, "--output-json", "--tags=none,any")[1])] == ["any"]
    status, out, _ = call(host, "--tags", "gpu")
    assert out.splitlines()[:3] == [
        "COMPATIBILITY SET #1 Weight: 2; Tag: gpu",
        "Description: what it was built for",
        "",
    ]
    assert "RULE: GPU - OK" in out
    assert "pci.device.vendor  In [10de]   matchExpression  OK" in out


def test_platforms(host: str, call: Call) -> None:
    """The artifact of the platform's image; without --platform also one of the index."""
    publisher = Publisher(host)
    images = {f"linux/{name}": publisher.image(architecture=name) for name in ("amd64", "arm64", "s390x")}
    index = publisher.index(images, "1")
    publisher.attach(images["linux/s390x"], SPEC)
    assert [one["tag"] for one in json.loads(call(host, "--output-json", "--platform=linux/s390x")[1])] == [
        "gpu",
        "any",
    ]
    status, _, err = call(host, "--platform=linux/arm64")
    assert (status, "is attached to it for linux/arm64" in err) == (1, True)
    status, _, err = call(host, "--platform=windows/amd64")
    assert (status, "available are linux/amd64, linux/arm64, linux/s390x" in err) == (1, True)
    publisher.attach(index, OLD)
    assert [one["tag"] for one in json.loads(call(host, "--output-json")[1])] == ["old"]
    assert [one["tag"] for one in json.loads(call(host, "--output-json", name=f"@{index['digest']}")[1])] == ["old"]


def test_what_is_not_there(host: str, call: Call) -> None:
    Publisher(host).image("1")
    status, _, err = call(host)
    assert (status, "no compatibility artifact" in err, err.count("\n")) == (1, True, 1)
    status, _, err = call(host, name=":2")
    assert (status, "no such image" in err) == (1, True)


def test_a_broken_specification(host: str, call: Call) -> None:
    """Names the place; a rule that makes no sense spoils itself alone."""
    publisher = Publisher(host)
    for name, (text, said) in enumerate(BROKEN):
        publisher.attach(publisher.image(f"b{name}", number=name), text)
        status, out, err = call(host, "--output-json", name=f":b{name}")
        assert (status, said in err, err.count("\n")) == (1 if "not YAML" not in err else 2, True, 1), err
        if out:
            assert [rule["isMatch"] for one in json.loads(out) for rule in one["rules"]] == [False, True]


BROKEN = [
    ("a: [", "not YAML"),
    ("[]", "compatibilities must be a list"),
    ("compatibilities: [1]", "compatibilities.0 must be a mapping"),
    ("compatibilities: [{weight: x}]", "compatibilities.0.weight must be a whole number"),
    (
        "compatibilities: [{rules: [{name: bad, matchFeatures: [{feature: pci.device, matchExpressions: "
        "{vendor: {op: Nope}}}]}, {name: good}]}]",
        "rule 'bad': invalid operator 'Nope'",
    ),
]


def stdin(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(text.encode())))


def test_basic_log_in(call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "htpasswd"
    file.write_text(f"{USER}:{BCRYPT}\n")
    config = {"auth": {"htpasswd": {"realm": "tests", "path": str(file)}}}
    with registry(tmp_path / "registry", config) as host:
        basic = base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()
        publisher = Publisher(host, f"Basic {basic}")
        publisher.attach(publisher.image("1"), SPEC)
        status, _, err = call(host)
        assert (status, "it wants a log-in; give --registry-username" in err) == (1, True)
        stdin(monkeypatch, f"{PASSWORD}\r\n")
        status, out, err = call(host, f"--registry-username={USER}", "--registry-password-stdin")
        assert (status, "RULE: GPU - OK" in out) == (0, True), err
        stdin(monkeypatch, "wrong")
        status, _, err = call(host, f"--registry-username={USER}", "--registry-password-stdin")
        assert (status, "status 401, UNAUTHORIZED" in err) == (1, True)


def test_log_in_with_a_token(call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fetched where the registry says, with the password; or given on standard input."""
    tokens = Tokens(tmp_path)
    with tokens.serving() as realm, registry(tmp_path / "registry", tokens.config(realm)) as host:
        push = tokens.sign("pull", "push", repository=REPOSITORY)
        publisher = Publisher(host, f"Bearer {push}")
        publisher.attach(publisher.image("1"), SPEC)
        stdin(monkeypatch, PASSWORD)
        status, out, err = call(host, f"--registry-username={USER}", "--registry-password-stdin")
        assert (status, "RULE: GPU - OK" in out) == (0, True), err
        assert tokens.asked == [{"service": ["registry"], "scope": [f"repository:{REPOSITORY}:pull"]}]
        status, _, err = call(host)
        assert (status, f"{realm}: no token: status 401" in err) == (1, True)
        stdin(monkeypatch, tokens.sign("pull", repository=REPOSITORY))
        assert call(host, "--registry-token-stdin")[0] == 0
        stdin(monkeypatch, "old.old.old")
        status, _, err = call(host, "--registry-token-stdin")
        assert (status, "the token is not accepted" in err) == (1, True)

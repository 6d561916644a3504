"""What administrators write: configurations of worker, master and GFD, and the Secret with the authority."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import cache

import yaml

from gfd.options import Config as GfdConfig
from nfd.config.load import check as check_config
from nfd.config.load import load
from nfd.config.overlay import Layer, Origin
from nfd.config.section import Section
from nfd.config.yamltext import parse
from nfd.master.config import Config as MasterConfig
from nfd.master.security.authority import (
    Lifetimes,
    bundle,
    issue,
    make_authority,
    plan_authorities,
    read_authorities,
    write_authorities,
)
from nfd.source import Source
from nfd.sources import known, select
from nfd.worker.config import model
from tests.fuzz.mutate import Bytes, either
from tests.fuzz.target import Made, Target, check
from tests.fuzz.trees import Trees, encoded

NOW = 1.7e9
WORKER = {
    "core": {
        "sleepInterval": "60s",
        "featureSources": ["all", "-usb"],
        "labelWhiteList": "^a",
        "noPublish": False,
        "klog": {"v": "2"},
    },
    "sources": {
        "cpu": {"cpuid": {"attributeBlacklist": ["AVX"]}},
        "kernel": {"kconfigFile": "/x", "configOpts": ["NO_HZ"]},
        "pci": {"deviceClassWhitelist": ["0200", "03"], "deviceLabelFields": ["class", "vendor"]},
        "custom": [
            {
                "name": "r",
                "labels": {"a": "b"},
                "matchFeatures": [{"feature": "cpu.cpuid", "matchExpressions": {"AVX": {"op": "Exists"}}}],
            }
        ],
        "nvidia": {
            "migStrategy": "mixed",
            "sharing": {"timeSlicing": {"resources": [{"name": "nvidia.com/gpu", "replicas": 4}]}},
            "families": {"14.0": "vera"},
        },
    },
}
MASTER = {
    "extraLabelNs": ["a.io"],
    "denyLabelNs": ["*.b.io"],
    "labelWhiteList": "x",
    "resourceLabels": ["c"],
    "enableTaints": True,
    "resyncPeriod": "1h",
    "nfdApiParallelism": 10,
    "leaderElection": {"leaseDuration": "15s"},
    "restrictions": {
        "sourceNamespaces": {"local": ["a.io"]},
        "nodeFeatureNamespaceSelector": {"matchExpressions": [{"key": "k", "operator": "In", "values": ["v"]}]},
    },
}
GFD = {
    "version": "v1",
    "flags": {
        "migStrategy": "none",
        "failOnInitError": True,
        "gfd": {"oneshot": False, "sleepInterval": "60s", "outputFile": "/x"},
        "plugin": {"deviceListStrategy": ["envvar"]},
    },
    "resources": {"gpus": [{"pattern": "*", "name": "gpu"}]},
    "sharing": {
        "timeSlicing": {
            "renameByDefault": True,
            "resources": [{"name": "gpu", "replicas": 2, "devices": ["0", "GPU-1b2c3d4e-1111-2222-3333-444455556666"]}],
        }
    },
}


def loaded(shape: type[Section], data: bytes) -> Section:
    document = parse(data, "file")
    layers = [Layer("file", document.data, Origin.FILE, document.lines)]
    if len(data) % 2:
        findings = check_config(shape, layers)
        check(all("\n" not in str(one) for one in findings), "one finding a line")
    return load(shape, layers).config


def run_worker(data: bytes) -> Made:
    config = loaded(model(), data)
    core = config.core  # type: ignore[attr-defined]
    chosen, odd = select(core.feature_sources, _sources())
    return f"{len(chosen)} {len(odd)}", (repr(config), odd)


@cache
def _sources() -> tuple[Source, ...]:
    return known()


def run_master(data: bytes) -> Made:
    config = loaded(MasterConfig, data)
    assert isinstance(config, MasterConfig)
    config.leader_election.check()
    config.restrictions.node_feature_namespace_selector.selects({"k": "v"})
    return "loaded", (repr(config), config.policy())


def run_gfd(data: bytes) -> Made:
    config = loaded(GfdConfig, data)
    assert isinstance(config, GfdConfig)
    warnings = tuple(config.remarks())
    return f"{len(warnings)}", (repr(config), config.sharing.strategy, warnings)


@cache
def _secret() -> bytes:
    made = make_authority(NOW, Lifetimes())
    return json.dumps({name: value.decode() for name, value in write_authorities((made,)).items()}).encode()


def run_authority(data: bytes) -> Made:
    """The Secret's data, PEM by name: who may write it can issue certificates, but must not stop the master."""
    try:
        found = json.loads(data)
    except (ValueError, RecursionError):
        found = {"a.crt": data.decode("utf-8", "replace"), "a.key": data.decode("utf-8", "replace")}
    held = (
        {str(name): str(value).encode("utf-8", "replace") for name, value in found.items()}
        if isinstance(found, Mapping)
        else {}
    )
    known = read_authorities(held)
    if known:
        plan_authorities(known, NOW, NOW, Lifetimes())
        issue(known[-1], ("nfd-master",), NOW, Lifetimes())
        check(read_authorities(write_authorities(known)) == known, "what is written is read again")
    return f"{len(known)}", bundle(known)


_YAML = (
    "- ",
    ": ",
    "&a ",
    "*a",
    "<<: ",
    "!!int ",
    "|\n",
    "---\n",
    "\n  ",
    "# ",
    "0o17",
    "0300",
    "1h30m",
    "+.inf",
    "~",
    "on",
)
_words = (
    "core",
    "sources",
    "klog",
    "1ns",
    "-1h",
    "infinite",
    "all",
    "-all",
    "rules",
    "*",
    "(",
    "In",
    "NotIn",
    "timeSlicing",
    "mps",
    "GPU-",
    "v2",
)


def texts(tree: Mapping[str, object]) -> Sequence[bytes]:
    """The whole of it, and each part of it alone, as JSON and as YAML."""
    parts = [tree, *({key: value} for key, value in tree.items())]
    return [*encoded(*parts), *(yaml.safe_dump(part).encode() for part in parts)]


_make = either(Trees(*_words), Bytes(*_YAML, *_words))

TARGETS = (
    Target("worker-config", "nfd-worker.conf", lambda: texts(WORKER), _make, run_worker),
    Target("master-config", "nfd-master.conf", lambda: texts(MASTER), _make, run_master),
    Target("gfd-config", "gpu-feature-discovery's config file", lambda: texts(GFD), _make, run_gfd),
    Target(
        "authority",
        "the Secret with the master's authority",
        lambda: [_secret()],
        either(Trees(".crt", ".key"), Bytes("-----BEGIN CERTIFICATE-----", "-----END")),
        run_authority,
        (),
    ),
)

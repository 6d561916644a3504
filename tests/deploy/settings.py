"""Values files that between them reach every corner of the chart."""

from __future__ import annotations

from tests.deploy.rendering import Values

PLUGIN_CONFIGS = {
    "a": "version: v1\nflags:\n  migStrategy: mixed\n",
    "b": {"version": "v1", "sharing": {"timeSlicing": {"resources": [{"name": "nvidia.com/gpu", "replicas": 4}]}}},
}

STARTUP_TAINTS = [
    {"key": "nfd.node.kubernetes.io/unlabelled", "effect": "NoSchedule"},
    {"key": "startup.example.com/gpu", "value": "wait", "effect": "NoExecute"},
]

SETTINGS: dict[str, Values] = {
    "default": {},
    "sub-chart": {"enabled": True, "global": {"imagePullSecrets": [{"name": "pull"}], "other": 1}},
    "names": {"fullnameOverride": "x" * 63, "namespaceOverride": "node-feature-discovery"},
    "everything-off": {"master": {"enable": False}, "worker": {"enable": False}, "postDeleteCleanup": False},
    "priority-classes": {"priorityClassName": "all", "worker": {"priorityClassName": "mine"}},
    "replicas": {"master": {"replicaCount": 3, "podDisruptionBudget": {"enable": True}}},
    "budget": {"master": {"podDisruptionBudget": {"enable": True, "minAvailable": "50%"}}},
    "network-policies": {
        "master": {"networkPolicy": {"enabled": True}},
        "worker": {"networkPolicy": {"enabled": True}},
    },
    "gpu-network-policy": {"gpu": {"mode": "daemonset", "networkPolicy": {"enabled": True}}},
    "gc": {"gc": {"enable": True, "podDisruptionBudget": {"enable": True}, "networkPolicy": {"enabled": True}}},
    "topology-updater": {"topologyUpdater": {"enable": True, "networkPolicy": {"enabled": True}}},
    "topology-updater-files": {
        "topologyUpdater": {
            "enable": True,
            "createCRDs": True,
            "config": {"excludeList": {"*": ["memory"]}},
            "kubeletConfigPath": "/var/lib/kubelet/config.yaml",
            "kubeletPodResourcesSockPath": "/run/kubelet/pods.sock",
            "kubeletStateDir": "/var/lib/kubelet",
            "podSetFingerprint": False,
            "watchNamespace": "mine",
            "updateInterval": "0s",
        }
    },
    "own-egress": {"worker": {"networkPolicy": {"enabled": True, "egress": [{"ports": [{"port": 53}]}]}}},
    "prometheus": {"prometheus": {"enable": True, "labels": {"release": "prometheus"}, "rules": {"enable": True}}},
    "tls": {"tls": {"enable": True}},
    "mtls-alone": {"tls": {"enable": True}, "master": {"auth": "mtls"}},
    "cert-manager": {"tls": {"enable": True, "certManager": True}},
    "own-issuer": {
        "tls": {
            "enable": True,
            "certManager": True,
            "certManagerCertificate": {"issuerKind": "ClusterIssuer", "issuerName": "corporate"},
        }
    },
    "no-auth": {"master": {"auth": "none"}},
    "before-1.30": {"master": {"rbac": {"lookUpPods": True}}},
    "no-rbac": {"master": {"rbac": {"create": False}, "serviceAccount": {"create": False, "name": "given"}}},
    "gpu-daemonset": {"gpu": {"mode": "daemonset", "runtimeClassName": "nvidia", "migStrategy": "mixed"}},
    "gpu-in-worker": {"gpu": {"runtimeClassName": "nvidia", "migStrategy": "single"}},
    "gpu-off": {"gpu": {"mode": "off"}},
    "startup-taints": {"startupTaints": STARTUP_TAINTS, "gpu": {"mode": "daemonset"}},
    "tolerate-all": {"worker": {"tolerations": [], "tolerateNoSchedule": True}},
    "openshift": {"openshift": {"enabled": True}, "worker": {"config": {"sources": {"pci": {}}}}},
    "gfd-off": {"gfd": {"enabled": False}},
    "plugin-configs": {"config": {"map": PLUGIN_CONFIGS, "default": "a"}, "gfd": {"enabled": True}},
    "plugin-configs-given": {"config": {"name": "mine", "fallbackStrategies": ["empty"]}},
    "plugin-configs-daemonset": {
        "gpu": {
            "mode": "daemonset",
            "networkPolicy": {"enabled": True},
            "initContainers": [{"name": "a", "image": "b"}],
        },
        "config": {"map": PLUGIN_CONFIGS, "default": "a"},
    },
    "configs": {
        "checksumValuesOnly": True,
        "master": {"config": {"extraLabelNs": ["nvidia.com"]}},
        "worker": {"config": {"core": {"sleepInterval": "5m"}, "sources": {"pci": {"deviceClassWhitelist": ["0300"]}}}},
    },
    "many-flags": {
        "featureGates": {"NodeFeatureGroupAPI": True, "DisableAutoPrefix": False},
        "master": {
            "instance": "blue",
            "extraLabelNs": ["a.io", "b.io"],
            "denyLabelNs": ["*.c.io"],
            "resourceLabels": ["a.io/n"],
            "enableTaints": True,
            "resyncPeriod": "2h",
            "nfdApiParallelism": 20,
            "extraArgs": ["-v=1"],
            "port": 9090,
            "service": {"type": "NodePort", "port": 12000},
        },
        "worker": {
            "extraArgs": ["-v=1"],
            "extraEnvs": [{"name": "A", "value": "b"}],
            "mountUsrSrc": True,
            "port": 8080,
        },
    },
    "placement": {
        block: {
            "enable": True,
            "nodeSelector": {"a": "b"},
            "tolerations": [{"operator": "Exists"}],
            "affinity": {"podAntiAffinity": {}},
            "annotations": {"n": "1"},
            "labels": {"l": "2"},
            "hostNetwork": True,
            "dnsPolicy": "Default",
            "revisionHistoryLimit": 0,
            "podSecurityContext": {"fsGroup": 2000},
            "initContainers": [{"name": "first", "image": "busybox:1"}],
            "serviceAccount": {"annotations": {"s": "3"}},
        }
        for block in ("master", "worker", "gc", "topologyUpdater")
    },
    "user-namespaces": {"master": {"hostUsers": False}, "worker": {"hostUsers": False}},
    "images": {"image": {"registry": "registry.example.com/team", "tag": "2.0"}, "worker": {"image": {"tag": "2.1"}}},
}

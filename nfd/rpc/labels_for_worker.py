"""Which labels of a Node the master sends to its worker with its reply."""

from __future__ import annotations

from collections.abc import Mapping

from nfd import names

LABELS_FOR_WORKERS = frozenset({f"{names.NVIDIA_NS}/device-plugin.config", f"{names.NVIDIA_NS}/mig.config.state"})
"""Labels of a Node that the master sends to its worker, besides those that begin with `nfd.names.DEPLOY_LABELS`."""


def labels_for_worker(labels: Mapping[str, str]) -> dict[str, str]:
    """Those labels of a Node that the master sends to its worker. Invalid keys and values are left out."""
    return {
        key: value
        for key, value in labels.items()
        if (key in LABELS_FOR_WORKERS or key.startswith(names.DEPLOY_LABELS))
        and not (names.key_problem(key) or names.value_problem(value))
    }

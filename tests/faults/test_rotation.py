"""The service account's token is replaced under a running master, as kubelets do."""

from __future__ import annotations

import datetime
from pathlib import Path

import pytest
from kubernetes.aio import client as aio
from kubernetes.aio.config.incluster_config import InClusterConfigLoader

from nfd.errors import Forbidden, Unavailable
from nfd.kube.client import KubeClient
from tests.controlplane.cluster import ControlPlane
from tests.master.places import until


async def test_token_rotation(control_plane: ControlPlane, tmp_path: Path) -> None:
    """The next look finds the new one; while the file is empty, requests fail and are tried again, like any other."""
    token = tmp_path / "token"
    token.write_text(control_plane.service_account_token("first"))
    where = {"KUBERNETES_SERVICE_HOST": "127.0.0.1", "KUBERNETES_SERVICE_PORT": str(control_plane.ports.api)}
    loader = InClusterConfigLoader(
        token_filename=str(token), cert_filename=str(control_plane.ca_file), environ=where, try_refresh_token=True
    )
    loader._token_refresh_period = datetime.timedelta(seconds=0.05)
    configuration = aio.Configuration()
    loader.load_and_set(configuration)
    client, mark = KubeClient(aio.ApiClient(configuration)), control_plane.mark()

    async def user() -> str:
        with pytest.raises(Forbidden):
            await client.json("GET", "/api/v1/secrets")
        return control_plane.audit(mark)[-1].user.rpartition(":")[2]

    assert await user() == "first"
    control_plane.request("DELETE", "/api/v1/namespaces/default/serviceaccounts/first")
    token.write_text("")
    failed: list[str] = []

    async def fails() -> None:
        try:
            await client.json("GET", "/api/v1/secrets")
        except (Forbidden, Unavailable) as error:
            failed.append(str(error))

    while "credentials: Token file exists but empty." not in failed:
        await fails()
    token.write_text(control_plane.service_account_token("second"))
    await until(lambda: datetime.datetime.now() > loader.token_expires_at)
    assert await user() == "second"
    await client.close()

"""The client against the real API server, and against a network that fails."""

import asyncio
import contextlib
import json
import socket
from pathlib import Path

import pytest
import yaml

from e2e.controlplane.plane import ControlPlane
from scheduler.kube import writes
from scheduler.kube.client import Client
from scheduler.kube.credentials import ClientConfig
from scheduler.kube.discovery import discover
from scheduler.kube.errors import (
    AnswerLost,
    ConfigurationError,
    Conflict,
    Forbidden,
    NotFound,
    Unauthorized,
    Unreachable,
)
from solver.domain import PodId
from tests.scheduler.kube.conftest import Cluster
from tests.support.http_server import Server, answers, whole
from tests.support.shell_proxy import LossyProxy

pytestmark = pytest.mark.controlplane


async def test_the_server_says_what_it_is(client: Client) -> None:
    assert (await client.server_version()).git.startswith("v1.")


async def test_discovery_finds_what_is_to_be_watched(client: Client) -> None:
    served = await discover(client)
    assert not served.problem
    for _, path in served.paths:
        await client.request("GET", path, query={"limit": "1"})


async def test_a_group_that_is_not_there_has_no_versions(client: Client) -> None:
    assert await client.discover("nobody.example.com") == ()


async def test_a_refusal_has_the_servers_message(client: Client) -> None:
    with pytest.raises(NotFound) as raised:
        await client.request("GET", "/api/v1/namespaces/no-such-namespace")
    assert raised.value.reason == "NotFound"
    assert 'GET /api/v1/namespaces/no-such-namespace: 404 NotFound: namespaces "no-such-namespace" not found' in str(
        raised.value
    )


async def test_what_exists_already_conflicts(cluster: Cluster) -> None:
    with pytest.raises(Conflict) as raised:
        await cluster.send("POST", "/api/v1/namespaces", {"metadata": {"name": cluster.namespace}})
    assert raised.value.reason == "AlreadyExists"


def changed(kubeconfig: Path, folder: Path, *, user: object = None, cluster: object = None) -> Path:
    """A copy of the kubeconfig with other fields in it."""
    document = yaml.safe_load(kubeconfig.read_text())
    document["users"][0]["user"].update(user or {})
    for key, value in dict(cluster or {}).items():  # type: ignore[call-overload] # a mapping
        document["clusters"][0]["cluster"][key] = value
    path = folder / "changed.kubeconfig"
    path.write_text(yaml.safe_dump(document))
    return path


async def test_an_unknown_token_is_unauthorized(control_plane: ControlPlane, tmp_path: Path) -> None:
    async with Client.connect(changed(control_plane.kubeconfig, tmp_path, user={"token": "unknown"})) as client:
        with pytest.raises(Unauthorized):
            await client.request("GET", "/api/v1/nodes")


async def test_a_refused_token_is_read_again(control_plane: ControlPlane, tmp_path: Path) -> None:
    path = changed(control_plane.kubeconfig, tmp_path, user={"token": "unknown"})
    async with Client.connect(path) as client:
        path.write_text(control_plane.kubeconfig.read_text())
        await client.request("GET", "/api/v1/nodes")


async def test_an_account_without_rights_is_forbidden(control_plane: ControlPlane, namespace: str) -> None:
    control_plane.request("POST", f"/api/v1/namespaces/{namespace}/serviceaccounts", {"metadata": {"name": "nobody"}})
    async with Client.connect(control_plane.kubeconfig_for_service_account(namespace, "nobody")) as client:
        with pytest.raises(Forbidden, match="cannot list resource"):
            await client.request("GET", "/api/v1/nodes")


async def test_a_closed_port_is_unreachable(control_plane: ControlPlane, tmp_path: Path) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        server = f"https://127.0.0.1:{free.getsockname()[1]}"
        path = changed(control_plane.kubeconfig, tmp_path, cluster={"server": server})
        async with Client.connect(path) as client:
            with pytest.raises(Unreachable, match=server):
                await writes.bind(client, PodId("a", "b"), "u", "n")


async def test_a_server_with_another_ca_is_unreachable(control_plane: ControlPlane, tmp_path: Path) -> None:
    document = yaml.safe_load(control_plane.kubeconfig.read_text())
    document["clusters"][0]["cluster"] = {"server": document["clusters"][0]["cluster"]["server"]}
    path = tmp_path / "kubeconfig"
    path.write_text(yaml.safe_dump(document))
    async with Client.connect(path) as client:
        with pytest.raises(Unreachable, match="certificate verify failed"):
            await client.request("GET", "/version")


async def test_a_server_that_takes_the_connection_and_says_nothing_is_unreachable_for_reads(
    proxy: LossyProxy, tmp_path: Path
) -> None:
    async with Client.connect(proxy.write_kubeconfig(tmp_path / "proxy.kubeconfig")) as client:
        await client.request("GET", "/version")
        proxy.partition(requests=False)
        with pytest.raises(Unreachable, match="timed out"):
            await client.request("GET", "/version", timeout_seconds=0.3)


async def test_a_binding_whose_answer_is_lost_says_so_and_has_acted(
    cluster: Cluster, proxy: LossyProxy, tmp_path: Path
) -> None:
    pod = await cluster.pod()
    async with Client.connect(proxy.write_kubeconfig(tmp_path / "proxy.kubeconfig")) as client:
        await client.request("GET", "/version")
        proxy.lose_answers()
        with pytest.raises(AnswerLost):
            await writes.bind(client, pod.id, pod.uid, "node-1")
        proxy.recover()
        async with asyncio.timeout(10):
            while (found := await writes.read_pod(client, pod.id)) is None or not found.node_name:  # noqa: ASYNC110
                await asyncio.sleep(0.05)
        assert found.node_name == "node-1"


async def test_a_write_that_takes_too_long_is_a_lost_answer(
    cluster: Cluster, proxy: LossyProxy, tmp_path: Path
) -> None:
    pod = await cluster.pod()
    async with Client.connect(proxy.write_kubeconfig(tmp_path / "proxy.kubeconfig")) as client:
        await client.request("GET", "/version")
        proxy.partition(requests=False)
        with pytest.raises(AnswerLost, match="timed out"):
            await writes.bind(client, pod.id, pod.uid, "node-1", timeout_seconds=0.3)


async def test_a_write_before_any_connection_is_unreachable_when_the_handshake_fails(
    control_plane: ControlPlane, tmp_path: Path
) -> None:
    async def hang_up(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.close()

    document = yaml.safe_load(control_plane.kubeconfig.read_text())
    async with Server(hang_up).running() as server:
        document["clusters"][0]["cluster"]["server"] = f"https://127.0.0.1:{server.port}"
        path = tmp_path / "kubeconfig"
        path.write_text(yaml.safe_dump(document))
        async with Client.connect(path) as client:
            with pytest.raises(Unreachable):
                await writes.bind(client, PodId("a", "b"), "u", "n")


async def test_a_server_that_sends_us_elsewhere_is_a_wrong_address(tmp_path: Path) -> None:
    async def redirect(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 302 Found\r\nLocation: https://login.example.com/\r\nContent-Length: 0\r\n\r\n")

    path = tmp_path / "kubeconfig"
    async with Server(redirect).running() as server:
        document = {
            "current-context": "x",
            "contexts": [{"name": "x", "context": {"cluster": "x"}}],
            "clusters": [{"name": "x", "cluster": {"server": server.url}}],
        }
        path.write_text(json.dumps(document))
        async with Client.connect(path) as client:
            with pytest.raises(ConfigurationError, match=r"sends us to https://login.example.com/"):
                await client.request("GET", "/version")


async def test_a_second_try_with_other_credentials_has_only_the_time_that_is_left(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("old")

    async def slow(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for status in ("401 Unauthorized", "200 OK"):
            await reader.readuntil(b"\r\n\r\n")
            token.write_text("new")
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(reader.read(1), 1.2)  # ends at once when the client gives up
            writer.write(f"HTTP/1.1 {status}\r\nContent-Length: 2\r\n\r\n{{}}".encode())

    path = tmp_path / "kubeconfig"
    async with Server(slow).running() as server:
        document = {
            "current-context": "x",
            "contexts": [{"name": "x", "context": {"cluster": "x", "user": "x"}}],
            "clusters": [{"name": "x", "cluster": {"server": server.url}}],
            "users": [{"name": "x", "user": {"tokenFile": str(token)}}],
        }
        path.write_text(json.dumps(document))
        async with Client.connect(path) as client:
            with pytest.raises(AnswerLost, match="timed out"):
                await client.request("PUT", "/x", timeout_seconds=2.0)


class Idle:
    """A server whose connections end when the second request comes on them; it counts what it is asked."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for answer in (b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}", b""):
            self.asked.append((await reader.readuntil(b"\r\n\r\n")).decode().partition(" ")[0])
            writer.write(answer)


@pytest.fixture
def idle() -> Idle:
    return Idle()


async def test_a_read_on_a_connection_that_the_server_closes_is_sent_again(idle: Idle) -> None:
    async with Server(idle.serve).running() as server:
        config = ClientConfig(server.url, "", None, ("", "", ""))
        async with Client.with_credentials(lambda: config) as client:
            assert [await client.request("GET", "/x") for _ in range(2)] == [b"{}", b"{}"]
    assert idle.asked == ["GET", "GET", "GET"]


async def test_a_write_on_a_connection_that_the_server_closes_is_a_lost_answer(idle: Idle) -> None:
    async with Server(idle.serve).running() as server:
        config = ClientConfig(server.url, "", None, ("", "", ""))
        async with Client.with_credentials(lambda: config) as client:
            await client.request("PUT", "/x")
            with pytest.raises(AnswerLost, match="the server closed the connection"):
                await client.request("PUT", "/x")
    assert idle.asked == ["PUT", "PUT"]


async def test_connections_are_kept_when_only_the_token_is_new() -> None:
    async with Server(answers(*[whole(b"{}")] * 3)).running() as server:
        tokens = iter("abc")
        async with Client.with_credentials(
            lambda: ClientConfig(server.url, f"Bearer {next(tokens)}", None, ("", "", ""), refresh_seconds=0.0)
        ) as client:
            for _ in range(2):
                await client.request("GET", "/x")
        assert server.connections == 1


async def test_a_path_with_odd_characters_is_one_path() -> None:
    asked: list[str] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.append((await reader.readuntil(b"\r\n\r\n")).decode().partition("\r\n")[0])
        writer.write(whole(b"{}"))

    async with Server(serve).running() as server:
        config = ClientConfig(server.url, "", None, ("", "", ""))
        async with Client.with_credentials(lambda: config) as client:
            await client.request("GET", "/a b\r\nHost: x/ü?#")
    assert asked == ["GET /a%20b%0D%0AHost:%20x/%C3%BC%3F%23 HTTP/1.1"]

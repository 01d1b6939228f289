"""Requests through proxies: such as pass on requests, and such as pass on bytes to the real API server."""

import asyncio
import base64
import contextlib
from pathlib import Path

import pytest
import yaml

from e2e.controlplane.plane import ControlPlane
from scheduler.kube.client import Client
from scheduler.kube.credentials import ClientConfig, Tls
from scheduler.kube.errors import Unreachable
from tests.support.http_server import Server, on_both_loops, whole

SYSTEM = Tls(b"", b"", b"", is_verified=True)
KNOWN = f"Proxy-Authorization: Basic {base64.b64encode(b'me:secret').decode()}"


class Tunnel:
    """Connects to where it is asked to, and passes on bytes; keeps the heads of the requests."""

    def __init__(self, refusal: bytes = b"") -> None:
        self.heads: list[list[str]] = []
        self._refusal = refusal

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
        self.heads.append(head)
        if self._refusal:
            writer.write(self._refusal)
            return
        host, _, port = head[0].split()[1].rpartition(":")
        there, back = await asyncio.open_connection(host, int(port))
        writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
        try:
            await asyncio.gather(_pass_on(reader, back), _pass_on(there, writer))
        finally:
            back.transport.abort()
            with contextlib.suppress(ConnectionError):
                await back.wait_closed()


async def _pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(ConnectionError):
        while part := await reader.read(1 << 16):
            writer.write(part)
            await writer.drain()
    writer.close()


def through(proxy: str, kubeconfig: Path, folder: Path) -> Path:
    document = yaml.safe_load(kubeconfig.read_text())
    document["clusters"][0]["cluster"]["proxy-url"] = proxy
    path = folder / "proxied.kubeconfig"
    path.write_text(yaml.safe_dump(document))
    return path


@pytest.mark.controlplane
@on_both_loops
async def test_the_api_server_is_asked_through_a_tunnel(
    control_plane: ControlPlane, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("no_proxy", "")
    tunnel = Tunnel()
    async with Server(tunnel.serve).running() as server:
        path = through(f"http://me:secret@127.0.0.1:{server.port}", control_plane.kubeconfig, tmp_path)
        async with Client.connect(path) as client:
            assert (await client.server_version()).major == "1"
            watch = client.stream_lines("/api/v1/namespaces", {"watch": "true"}, read_timeout_seconds=10)
            async with contextlib.aclosing(watch) as reads:
                assert await anext(reads) == []
                assert await anext(reads)
    address = client.server.removeprefix("https://")
    assert {head[0] for head in tunnel.heads} == {f"CONNECT {address} HTTP/1.1"}
    assert all(KNOWN in head for head in tunnel.heads)


@on_both_loops
async def test_a_tunnel_that_is_refused_is_said() -> None:
    tunnel = Tunnel(b"HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\n\r\n")
    async with Server(tunnel.serve).running() as server:
        config = ClientConfig(
            "https://192.0.2.1:6443", "", SYSTEM, ("", "", ""), proxy=f"http://127.0.0.1:{server.port}"
        )
        async with Client.with_credentials(lambda: config) as client:
            with pytest.raises(
                Unreachable, match=rf"the proxy 127.0.0.1:{server.port} does not connect: it answers 407"
            ):
                await client.request("PUT", "/x")


@on_both_loops
async def test_a_proxy_of_plain_requests_gets_the_whole_address() -> None:
    asked: list[str] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.extend((await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n"))
        writer.write(whole(b"{}"))

    async with Server(serve).running() as server:
        config = ClientConfig(
            "http://192.0.2.1:8080/base", "", None, ("", "", ""), proxy=f"http://me:secret@127.0.0.1:{server.port}"
        )
        async with Client.with_credentials(lambda: config) as client:
            assert await client.request("GET", "/api/v1/nodes") == b"{}"
    assert asked[:2] == ["GET http://192.0.2.1:8080/base/api/v1/nodes HTTP/1.1", "Host: 192.0.2.1:8080"]
    assert KNOWN in asked

"""Streams that a server or a proxy breaks off in the middle: none of them hangs."""

import asyncio
from pathlib import Path

import pytest
import yaml

from scheduler.kube.client import Client
from scheduler.kube.errors import Unreachable
from tests.support.http_server import Server

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"


def kubeconfig(path: Path, port: int) -> Path:
    cluster = {"server": f"http://127.0.0.1:{port}"}
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "broken", "cluster": cluster}],
        "users": [{"name": "broken", "user": {}}],
        "contexts": [{"name": "broken", "context": {"cluster": "broken", "user": "broken"}}],
        "current-context": "broken",
    }
    path.write_text(yaml.safe_dump(document))
    return path


@pytest.mark.parametrize(
    "rest",
    [
        pytest.param(b'{"type":"ADDED"', id="no chunk"),
        pytest.param(b"ff\r\n{", id="half a chunk"),
        pytest.param(b"2\r\n{}\r\n", id="no last chunk"),
    ],
)
async def test_a_stream_that_is_broken_off_is_an_error(rest: bytes, tmp_path: Path) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(HEAD)
        await writer.drain()
        await asyncio.sleep(0.1)  # the head is read first
        writer.write(rest)

    async with (
        Server(serve).running() as server,
        Client.connect(kubeconfig(tmp_path / "config", server.port)) as client,
    ):
        with pytest.raises(Unreachable):
            await asyncio.wait_for(read(client), 10)


async def read(client: Client) -> None:
    async for _ in client.stream_lines("/api/v1/pods", {"watch": "true"}, read_timeout_seconds=0.5):
        pass

"""A TCP proxy in front of the real API server that loses answers on demand: the server acts, and nobody hears of it."""

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator
from pathlib import Path
from urllib.parse import urlsplit

import yaml

CHUNK = 2**16


class LossyProxy:
    """Forwards bytes both ways, unless told otherwise; `kubeconfig` leads through it."""

    def __init__(self, host: str, port: int) -> None:
        self.kubeconfig = Path()
        self._host = host
        self._port = port
        self._loses_answers = False
        self._is_silent = False
        self._tasks: set[asyncio.Task[None]] = set()

    @classmethod
    @contextlib.asynccontextmanager
    async def before(cls, kubeconfig: Path, folder: Path) -> AsyncIterator["LossyProxy"]:
        """Listen in front of the server of a kubeconfig; its copy in `folder` names the proxy instead."""
        document = yaml.safe_load(kubeconfig.read_text())  # noqa: ASYNC240 - a test may wait for a file
        cluster = document["clusters"][0]["cluster"]
        server = urlsplit(cluster["server"])
        proxy = cls(str(server.hostname), int(server.port or 443))
        listening = await asyncio.start_server(proxy._serve, "127.0.0.1", 0)
        port = listening.sockets[0].getsockname()[1]
        cluster["server"] = f"{server.scheme}://127.0.0.1:{port}"
        proxy.kubeconfig = folder / "through-proxy.kubeconfig"
        proxy.kubeconfig.write_text(yaml.safe_dump(document))
        try:
            yield proxy
        finally:
            listening.close()
            for task in tuple(proxy._tasks):
                task.cancel()
            await asyncio.gather(*proxy._tasks, return_exceptions=True)

    def lose_answers(self) -> None:
        """From now on, close a connection instead of forwarding what the server says on it."""
        self._loses_answers = True

    def be_silent(self) -> None:
        """From now on, forward nothing that the server says and close nothing: a peer that is gone."""
        self._is_silent = True

    def recover(self) -> None:
        """Forward again."""
        self._loses_answers = self._is_silent = False

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        far_reader, far_writer = await asyncio.open_connection(self._host, self._port)
        far_writer.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        ways = [
            asyncio.create_task(self._forward(reader, far_writer, is_answer=False)),
            asyncio.create_task(self._forward(far_reader, writer, is_answer=True)),
        ]
        try:
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for way in ways:
                way.cancel()
            await asyncio.gather(*ways, return_exceptions=True)
            writer.close()
            far_writer.close()

    async def _forward(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, is_answer: bool) -> None:
        while chunk := await reader.read(CHUNK):
            if is_answer and self._loses_answers:
                return
            if is_answer and self._is_silent:
                continue
            writer.write(chunk)
            await writer.drain()

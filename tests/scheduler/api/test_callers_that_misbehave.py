"""The scheduler's own API towards callers that are slow, silent or send what is no HTTP; defects beside it."""

import asyncio
import contextlib
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from scheduler.api import caller_api, http_server, leadership, queue_answers, usage_answers
from scheduler.api.connections import caller_connection
from scheduler.api.http_server import Certificate
from scheduler.components import Components
from scheduler.observe.metrics import Metrics
from scheduler.settings import default
from solver.domain import Placement, PodId
from tests.scheduler.api.test_api_server import Hall, hall
from tests.support.shell_clock import Ahead

_HEAD = b"GET /v1alpha1/history HTTP/1.1\r\nHost: scheduler\r\n"


@asynccontextmanager
async def connected(at: Hall) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    host, _, port = at.url.removeprefix("http://").rpartition(":")
    async with asyncio.timeout(60):
        reader, writer = await asyncio.open_connection(host, int(port))
        yield reader, writer
        writer.close()


def defects(metrics: Metrics) -> str:
    text = metrics.exposition()[0].decode()
    return "\n".join(line for line in text.splitlines() if line.startswith('dovetail_defects_total{part="api"}'))


async def test_a_token_that_is_no_text_is_refused_and_no_defect() -> None:
    async with hall() as at, connected(at) as (reader, writer):
        writer.write(_HEAD + b"Authorization: Bearer \xff\r\n\r\n")
        status = await reader.readline()

    assert status.split()[1] == b"401"
    assert defects(at.metrics) in {"", 'dovetail_defects_total{part="api"} 0.0'}


async def test_headers_that_cannot_be_read_are_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    async with hall() as at, connected(at) as (reader, writer):
        writer.write(_HEAD + b"Dovetail-Authorization: Bearer secret\x01\r\n\r\n")
        status = await reader.readline()

    assert status.split()[1] == b"400"
    assert caplog.text == ""


@pytest.mark.parametrize("sent", [b"", _HEAD])
async def test_a_connection_without_a_request_is_closed(sent: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(caller_connection, "_FIRST_REQUEST_SECONDS", 0.01)
    async with hall() as at, connected(at) as (reader, writer):
        writer.write(sent)

        # The server may close before it has read what was sent: then the end is a reset.
        with contextlib.suppress(ConnectionResetError):
            assert await reader.read() == b""


async def test_a_connection_of_a_known_caller_stays() -> None:
    clock = Ahead()
    request = b"GET /v1alpha1/nothing HTTP/1.1\r\nHost: scheduler\r\nAuthorization: Bearer token-ops\r\n\r\n"
    async with hall() as at, connected(at) as (reader, writer):
        writer.write(request)
        await reader.readuntil(b"}")
        await clock.sleep(caller_connection._FIRST_REQUEST_SECONDS + 1.0)  # noqa: SLF001 - just longer
        writer.write(request)

        assert (await reader.readline()).split()[1] == b"404"


async def test_a_document_that_is_not_read_is_dropped() -> None:
    clock = Ahead()
    async with hall() as at, connected(at) as (reader, writer):
        large = Placement(pod=PodId("team", "large"), pod_uid="large", node="n" * 30_000_000)
        at.subjects.history.bound(2, large, (), 1.0)
        writer.write(_HEAD + b"Authorization: Bearer token-ops\r\n\r\n")
        assert b"Content-Length: 300" in await reader.readuntil(b"\r\n\r\n")
        await clock.sleep(http_server._SEND_SECONDS + 1.0)  # noqa: SLF001 - just longer

        with pytest.raises((ConnectionError, asyncio.IncompleteReadError)):
            await reader.readexactly(30_000_000)


class Asked:
    """Lets reviews of rights wait until they may go on."""

    def __init__(self, at: Hall) -> None:
        self.is_waiting, self.may_go_on = asyncio.Event(), asyncio.Event()
        self._answer = at.reviewing.request
        at.reviewing.request = self._request  # type: ignore[assignment,method-assign]

    async def _request(self, method: str, path: str, *, body: bytes, **options: object) -> bytes:
        if path.endswith("subjectaccessreviews"):
            self.is_waiting.set()
            await self.may_go_on.wait()
        return await self._answer(method, path, body=body, **options)


async def test_a_leader_that_loses_the_lease_while_rights_are_checked_has_no_defect() -> None:
    async with hall() as at, asyncio.timeout(60):
        asked = Asked(at)
        answer = asyncio.create_task(at.get("/v1alpha1/queue?namespace=team"))
        await asked.is_waiting.wait()
        at.api.follow()
        asked.may_go_on.set()

        assert (await answer)[0] == 200


async def test_one_caller_does_not_take_all_places(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(caller_api, "_OF_ONE_CALLER", 1)
    async with hall() as at, asyncio.timeout(60):
        asked = Asked(at)
        first = asyncio.create_task(at.get("/v1alpha1/queue"))
        await asked.is_waiting.wait()
        status, document = await at.get("/v1alpha1/queue")
        asked.may_go_on.set()

        assert (status, document["message"]) == (429, "too many requests of ops at once")
        assert (await first)[0] == 200
        assert (await at.get("/v1alpha1/queue"))[0] == 200


@pytest.mark.parametrize(("path", "module"), [("queue", queue_answers), ("usage", usage_answers)])
async def test_answers_are_made_in_a_thread_of_the_api(path: str, module: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    made, found = module._document, list[str]()  # noqa: SLF001 - there is no other way to see where it runs

    def recorded(*values: Any, **options: Any) -> Any:
        found.append(threading.current_thread().name.partition("_")[0])
        return made(*values, **options)

    monkeypatch.setattr(module, "_document", recorded)
    async with hall() as at:
        await at.get(f"/v1alpha1/{path}")

    assert found == ["api"]


async def test_a_certificate_without_its_key_leaves_the_old_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    certificate, loaded, tried = tmp_path / "tls.crt", asyncio.Event(), asyncio.Event()
    certificate.write_text("old")

    def unreadable(_: Certificate) -> None:
        tried.set()
        raise OSError

    monkeypatch.setattr(http_server, "_CERTIFICATE_SECONDS", 0.001)
    context = SimpleNamespace(load_cert_chain=lambda *_: loaded.set())
    files = Certificate(str(certificate), str(tmp_path / "tls.key"))
    monkeypatch.setattr(http_server, "_tls", unreadable)
    reloading = asyncio.create_task(http_server._reload(cast("Any", context), files))  # noqa: SLF001 - it never ends
    async with asyncio.timeout(60):
        while not tried.is_set() and not loaded.is_set():
            certificate.write_text("new")
            await asyncio.sleep(0.01)
    reloading.cancel()

    assert not loaded.is_set()


class BrokenOnce:
    """A history whose encoder has a defect once."""

    def __init__(self) -> None:
        self.begun, self.is_again = 0, asyncio.Event()

    async def run(self, _: object) -> None:
        self.begun += 1
        if self.begun == 1:
            raise ValueError("a record that cannot be encoded")
        self.is_again.set()
        await asyncio.Event().wait()


async def test_a_defect_of_the_history_does_not_end_the_scheduler(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("scheduler.observe.unexpected_errors._PAUSE_SECONDS", 0.0)
    async with hall() as at, asyncio.timeout(60):
        broken = BrokenOnce()
        cluster = SimpleNamespace(snapshot=lambda: SimpleNamespace(claims=(), slices=()), pod=lambda _: None)
        parts = SimpleNamespace(
            history=broken,
            queue=at.subjects.queue.queue,
            status=at.subjects.queue.status,
            worker=None,
            metrics=at.metrics,
            cluster=cluster,
            fleet_counter=SimpleNamespace(devices=()),
        )
        answering = asyncio.create_task(
            leadership.answer_callers(at.api, cast("Components", parts), at.subjects.usage, default())
        )
        again = asyncio.create_task(broken.is_again.wait())
        await asyncio.wait((answering, again), return_when=asyncio.FIRST_COMPLETED)

        assert not answering.done()
        assert defects(at.metrics) == 'dovetail_defects_total{part="api"} 1.0'
        answering.cancel()

"""Answers callers: authentication, rights, parameters, limits, and every failure as a `Status`."""

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final, Generic, NamedTuple, Protocol, TypeVar

import msgspec
from aiohttp import web

from scheduler.api import http_server, queries
from scheduler.api.answer_threads import in_thread
from scheduler.api.authentication import CallerAuthentication
from scheduler.api.caller_rights import CallerRights, Listed, Reviews
from scheduler.api.event_stream import LAST_EVENT_ID, CallerGoneError, DocumentWatch, EventStream, StreamEvent
from scheduler.api.queries import NOT_LEADING, Parameters, Query, QueryError
from scheduler.api.refusals import Refusal
from scheduler.api.request_limits import CallerCounts, CallerRates
from scheduler.kube.client import Client
from scheduler.kube.errors import KubeError
from scheduler.observe.metrics import Metrics, Subsystem
from scheduler.observe.unexpected_errors import note
from scheduler.settings import ApiSettings

_AT_ONCE: Final = 4
"""Requests that are answered at once; their documents are in memory."""
_WAITING: Final = 32
"""Requests that wait for that, or whose documents are being sent."""
_OF_ONE_CALLER: Final = 8
"""Requests of one caller at once."""
_WATCHES: Final = 64
"""Watches at once."""
_WATCHES_OF_ONE_CALLER: Final = 16

S = TypeVar("S")

Document = msgspec.Struct | msgspec.Raw
"""A document, or an encoded one."""


class AnswerRule(NamedTuple, Generic[S]):
    """
    How a question is answered, with which parameters.

    `listed` is what a caller that names a namespace must be allowed to list there, `everywhere` what every caller must
    be allowed to list in all namespaces. A question with content is asked with POST, others with GET; its answer takes
    long, and bounds itself how many there are at once. `watch` begins to watch the answer, from the version with a tag
    on ("": none); it has the parameter `watch` then.
    """

    answer: Callable[[S, Query, CallerRights], Awaitable[Document]]
    parameters: Parameters
    listed: Listed
    everywhere: Listed | None = None
    has_content: bool = False
    watch: Callable[[S, Query, str], DocumentWatch] | None = None


class Callers(Protocol):
    """Authenticates a caller."""

    async def rights(self, request: web.Request) -> CallerRights:
        """Return the rights of the caller. Raise `Refusal`."""

    def count(self, caller: str) -> None:
        """Count a request of a caller. Raise `Refusal` where there are too many."""


class TokenCallers:
    """Callers with a bearer token (TokenReview), each with a rate."""

    def __init__(self, settings: ApiSettings, client: Client, clock: Callable[[], float] = time.monotonic) -> None:
        self._reviews: Final = Reviews(client, requires_audience=settings.require_audience, clock=clock)
        self._rates: Final = CallerRates(settings.requests_per_second, clock)
        self._authentication: Final = CallerAuthentication(self._reviews, clock)

    async def rights(self, request: web.Request) -> CallerRights:
        """Find the user of the token. Raise `Refusal`."""
        token = http_server.bearer_token(request.headers)
        return self._reviews.rights_of(await self._authentication.user(token, request.remote or ""), token)

    def count(self, caller: str) -> None:
        """Count a request of a caller. Raise `Refusal` where there are too many."""
        if seconds := self._rates.take(caller):
            raise Refusal(429, f"too many requests of {caller}", retry_after=seconds)


class CallerApi(Generic[S]):
    """Answers callers by some rules. `lead` and `follow` say whether this process has the subjects."""

    def __init__(
        self, answers: Mapping[str, AnswerRule[S]], callers: Callers, metrics: Metrics, *, compresses: bool = False
    ) -> None:
        self._answers: Final = answers
        self._callers: Final = callers
        self._metrics: Final = metrics
        self._compresses: Final = compresses
        self._slots: Final = asyncio.Semaphore(_AT_ONCE)
        self._open = 0
        self._requests: Final = CallerCounts("requests", _OF_ONE_CALLER, _AT_ONCE + _WAITING)
        self._watches: Final = CallerCounts("watches", _WATCHES_OF_ONE_CALLER, _WATCHES)
        self._subjects: S | None = None

    def lead(self, subjects: S) -> None:
        """Answer about these."""
        self._subjects = subjects

    def follow(self) -> None:
        """Answer that another replica leads."""
        self._subjects = None

    async def handle(self, request: web.Request) -> web.StreamResponse:
        """Answer one request."""
        name = request.match_info["name"]
        self._open += 1
        try:
            response = await self._answer(name, request)
        except Exception as error:  # noqa: BLE001 - a defect in one answer must end nothing else
            response = http_server.refused(self._refusal(name, error))
        finally:
            self._open -= 1
        self._metrics.api_requests.labels(name if name in self._answers else "other", str(response.status)).inc()
        return response

    async def _answer(self, name: str, request: web.Request) -> web.StreamResponse:
        if self._open - self._watches.total > _AT_ONCE + _WAITING:
            raise Refusal(429, "too many requests at once", retry_after=1)
        rights = await self._callers.rights(request)
        subjects = self._subjects  # `follow` may come while the API server is asked
        if subjects is None:  # before the rate: callers ask again until they find the leader
            raise Refusal(503, "this replica stands by; another one schedules", reason=NOT_LEADING)
        self._callers.count(rights.caller)
        if name not in self._answers:
            raise Refusal(404, f"unknown path, write one of: {', '.join(self._answers)}", reason="NotFound")
        rule = self._answers[name]
        query = _read(request, rule)
        if query.watch and rule.watch is not None:
            watch = rule.watch(subjects, query, request.headers.get(LAST_EVENT_ID, ""))
            with self._watches.counted(rights.caller):
                return await self._watch(name, query.namespace, watch, request)
        with self._requests.counted(rights.caller):
            if rule.has_content:
                query = msgspec.structs.replace(query, content=await http_server.content(request))
            response = await self._document(name, query, subjects, rights)
            await http_server.send(request, response)
        return response

    async def _watch(self, name: str, namespace: str, watch: DocumentWatch, request: web.Request) -> web.StreamResponse:
        """Send what changes until the caller goes, or may see it no longer: token and rights are asked each time."""
        stream = EventStream(request)

        async def look() -> Sequence[StreamEvent]:
            rights = await self._callers.rights(request)
            await _require(rights, self._answers[name], namespace)
            return await watch.look(rights)

        try:
            while True:
                await stream.send(await stream.beat_until(look()))
                await watch.news()
        except CallerGoneError:
            pass
        except Exception as error:
            if not stream.has_begun:
                raise
            await stream.refuse(self._refusal(name, error))
        return stream.response

    def _refusal(self, name: str, error: Exception) -> Refusal:
        """Return the answer to an error; note one that is a defect."""
        if isinstance(error, Refusal):
            return error
        if isinstance(error, KubeError):
            return Refusal(503, f"rights cannot be checked: {error}")
        note(self._metrics, Subsystem.API, error, path=name)
        return Refusal(500, "an unexpected error; the log has it")

    async def _document(self, name: str, query: Query, subjects: S, rights: CallerRights) -> web.Response:
        rule = self._answers[name]
        async with contextlib.nullcontext() if rule.has_content else self._slots:
            await _require(rights, rule, query.namespace)
            document = await rule.answer(subjects, query, rights)
            body = await in_thread(msgspec.json.encode, document)
        response = web.Response(body=body, content_type="application/json")
        if self._compresses:
            response.enable_compression()
        return response


def _read(request: web.Request, rule: AnswerRule[S]) -> Query:
    """Read what a request asks. Raise `Refusal`."""
    methods = ("POST",) if rule.has_content else ("GET", "HEAD")
    if request.method not in methods:
        raise Refusal(405, f"ask with {methods[0]}", reason="MethodNotAllowed")
    try:
        query = queries.read(request.query, rule.parameters)
    except QueryError as error:
        raise Refusal(400, str(error)) from error
    if query.watch and request.method == "HEAD":
        raise Refusal(405, "watch with GET", reason="MethodNotAllowed")
    return query


async def _require(rights: CallerRights, rule: AnswerRule[S], namespace: str) -> None:
    """Raise `Refusal` where a caller may not list what every answer is about, or nothing in the namespace named."""
    if rule.everywhere is not None and not await rights.sees(rule.everywhere):
        raise _forbidden(rights, rule.everywhere, "at the cluster scope")
    if namespace and not await rights.sees(rule.listed) and not await rights.sees(rule.listed, namespace):
        raise _forbidden(rights, rule.listed, f"in the namespace {namespace!r}")


def _forbidden(rights: CallerRights, listed: Listed, where: str) -> Refusal:
    group, resource = listed.value
    what = f"{resource}.{group}" if group else resource
    return Refusal(403, f"user {rights.caller!r} cannot list {what} {where}")

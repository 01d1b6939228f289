"""Answers callers: authentication, rights, parameters, limits, and every failure as a `Status`."""

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Final, Generic, NamedTuple, Protocol, TypeVar

import msgspec
from aiohttp import web

from scheduler.api import event_stream, http_server, queries
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
"""Requests of one caller at once; as many whose rights are being checked."""
_CHECKS: Final = 64
"""Requests whose rights are being checked."""
_WATCHES: Final = 64
"""Watches at once."""
_WATCHES_OF_ONE_CALLER: Final = 16
_OF_THE_CLUSTER: Final = (Listed.PODS, Listed.CLAIMS, Listed.SLICES)
"""Who may list one of these in all namespaces sees something of every answer."""

S = TypeVar("S")

Document = msgspec.Struct | msgspec.Raw
"""A document, or an encoded one."""


class AnswerRule(NamedTuple, Generic[S]):
    """
    How a question is answered, with which parameters.

    `listed` is what a caller that names a namespace must be allowed to list there, `everywhere` what every caller must
    be allowed to list in all namespaces. A caller that names no namespace must be allowed to list something: in all
    namespaces, or `listed` in its own one or in one of `among`. A question with content is asked with POST, others with
    GET; its answer takes long, and bounds itself how many there are at once. `watch` begins to watch the answer, from
    the version with a tag on ("": none); it has the parameter `watch` then.
    """

    answer: Callable[[S, Query, CallerRights], Awaitable[Document]]
    parameters: Parameters
    listed: Listed
    everywhere: Listed | None = None
    among: Callable[[S], Awaitable[Iterable[str]]] | None = None
    has_content: bool = False
    watch: Callable[[S, Query, str], DocumentWatch] | None = None


class Callers(Protocol):
    """Authenticates a caller."""

    async def rights(self, request: web.Request) -> CallerRights:
        """Return the rights of the caller. Raise `Refusal`."""

    def count(self, budget: str) -> None:
        """Count a request of those who share a budget. Raise `Refusal` where there are too many."""


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

    def count(self, budget: str) -> None:
        """Count a request of those who share a budget. Raise `Refusal` where there are too many."""
        if seconds := self._rates.take(budget):
            raise Refusal(429, f"too many requests of {budget}", retry_after=seconds)


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
        self._checks: Final = CallerCounts("requests", _OF_ONE_CALLER, _CHECKS)
        self._requests: Final = CallerCounts("requests", _OF_ONE_CALLER, _AT_ONCE + _WAITING)
        self._first_looks: Final = CallerCounts("watches", _WATCHES_OF_ONE_CALLER, _WATCHES)
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
        try:
            response = await self._answer(name, request)
        except Exception as error:  # noqa: BLE001 - a defect in one answer must end nothing else
            response = http_server.refused(self._refusal(name, error))
        self._metrics.api_requests.labels(name if name in self._answers else "other", str(response.status)).inc()
        return response

    async def _answer(self, name: str, request: web.Request) -> web.StreamResponse:
        """Answer a caller that has shown its rights; until then it has no place, and nothing of its content is read."""
        rights = await self._callers.rights(request)
        subjects = self._subjects  # `follow` may come while the API server is asked
        if subjects is None:  # before the rate: callers ask again until they find the leader
            raise Refusal(503, "this replica stands by; another one schedules", reason=NOT_LEADING)
        self._callers.count(rights.budget)
        http_server.keep(request, rights.budget)
        if name not in self._answers:
            raise Refusal(404, f"unknown path, write one of: {', '.join(self._answers)}", reason="NotFound")
        rule = self._answers[name]
        query = _read(request, rule)
        with self._checks.counted(rights.budget):
            await _require(rights, rule, query.namespace, subjects)
        if query.watch and rule.watch is not None:
            watch = rule.watch(subjects, query, request.headers.get(LAST_EVENT_ID, ""))
            looks = _PermittedLooks(self._callers, request, watch, partial(_require_named, rule, query.namespace))
            return await self._watch(name, looks, rights)
        with self._requests.counted(rights.budget):
            if rule.has_content:
                query = msgspec.structs.replace(query, content=await http_server.content(request))
            response = await self._document(name, query, subjects, rights)
            await http_server.send(request, response)
        return response

    async def _watch(self, name: str, looks: "_PermittedLooks", rights: CallerRights) -> web.StreamResponse:
        """Send what changes until the caller goes, or may see it no longer."""
        stream = EventStream(looks.request)
        with self._first_looks.counted(rights.budget):
            events = await looks.look()  # a caller that is refused now has held no watch
        with self._watches.counted(rights.budget):
            try:
                while True:
                    await stream.send(events)
                    await looks.watch.news()
                    events = await stream.beat_until(looks.look())
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


async def _require(rights: CallerRights, rule: AnswerRule[S], namespace: str, subjects: S) -> None:
    """Raise `Refusal` where a caller may not list what every answer is about, or nothing that this one is about."""
    await _require_named(rule, namespace, rights)
    if namespace or rule.everywhere is not None or rule.among is None:
        return
    for listed in (rule.listed, *_OF_THE_CLUSTER):
        if await rights.sees(listed):
            return
    among = await rule.among(subjects)
    if not await rights.namespaces(rule.listed, (*filter(None, (rights.own_namespace,)), *among)):
        raise _forbidden(rights, rule.listed, "in any namespace that the answer names; write namespace=NAME")


async def _require_named(rule: AnswerRule[S], namespace: str, rights: CallerRights) -> None:
    """Raise `Refusal` where a caller may not list what every answer is about, or nothing in the namespace named."""
    if rule.everywhere is not None and not await rights.sees(rule.everywhere):
        raise _forbidden(rights, rule.everywhere, "at the cluster scope")
    if namespace and not await rights.sees(rule.listed) and not await rights.sees(rule.listed, namespace):
        raise _forbidden(rights, rule.listed, f"in the namespace {namespace!r}")


class _PermittedLooks:
    """What a watch shows to its caller: token and rights are asked before each look, and again while it takes long."""

    def __init__(
        self,
        callers: Callers,
        request: web.Request,
        watch: DocumentWatch,
        require: Callable[[CallerRights], Awaitable[None]],
    ) -> None:
        """`require` raises `Refusal` where the caller may see nothing any more."""
        self.request: Final = request
        self.watch: Final = watch
        self._callers: Final = callers
        self._require: Final = require
        self._shown: CallerRights | None = None

    async def look(self) -> Sequence[StreamEvent]:
        """Return what is new, by rights that were asked at most `HEARTBEAT_SECONDS` ago. Raise `Refusal`."""
        rights = await self._rights()
        looking = asyncio.ensure_future(self.watch.look(rights))
        try:
            while not (await asyncio.wait((looking,), timeout=event_stream.HEARTBEAT_SECONDS))[0]:
                now = await self._rights()
                if not (await now.include(rights) and (self._shown is None or await now.include(self._shown))):
                    raise Refusal(403, f"user {rights.caller!r} has lost rights since the answer was begun")
            self._shown = rights
            return looking.result()
        finally:
            looking.cancel()

    async def _rights(self) -> CallerRights:
        rights = await self._callers.rights(self.request)
        await self._require(rights)
        return rights


def _forbidden(rights: CallerRights, listed: Listed, where: str) -> Refusal:
    group, resource = listed.value
    what = f"{resource}.{group}" if group else resource
    return Refusal(403, f"user {rights.caller!r} cannot list {what} {where}")

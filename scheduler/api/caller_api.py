"""Answers callers: authentication, rights, parameters, limits, and every failure as a `Status`."""

import asyncio
import contextlib
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping
from typing import Final, Generic, NamedTuple, Protocol, TypeVar

import msgspec
from aiohttp import web

from scheduler.api import http_server, queries
from scheduler.api.answer_threads import in_thread
from scheduler.api.authentication import CallerAuthentication
from scheduler.api.caller_rights import CallerRights, Listed, Reviews
from scheduler.api.queries import NOT_LEADING, Parameters, Query, QueryError
from scheduler.api.refusals import Refusal
from scheduler.api.request_limits import CallerRates
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

S = TypeVar("S")

Document = msgspec.Struct | msgspec.Raw
"""A document, or an encoded one."""


class AnswerRule(NamedTuple, Generic[S]):
    """
    How a question is answered, with which parameters.

    `listed` is what a caller that names a namespace must be allowed to list there, `everywhere` what every caller must
    be allowed to list in all namespaces. A question with content is asked with POST, others with GET; its answer takes
    long, and bounds itself how many there are at once.
    """

    answer: Callable[[S, Query, CallerRights], Awaitable[Document]]
    parameters: Parameters
    listed: Listed
    everywhere: Listed | None = None
    has_content: bool = False


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
        self._of_callers = Counter[str]()
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
        except Refusal as refusal:
            response = http_server.refused(refusal)
        except Exception as error:  # noqa: BLE001 - a defect in one answer must end nothing else
            note(self._metrics, Subsystem.API, error, path=name)
            response = http_server.refused(Refusal(500, "an unexpected error; the log has it"))
        finally:
            self._open -= 1
        self._metrics.api_requests.labels(name if name in self._answers else "other", str(response.status)).inc()
        return response

    async def _answer(self, name: str, request: web.Request) -> web.Response:
        if self._open > _AT_ONCE + _WAITING:
            raise Refusal(429, "too many requests at once", retry_after=1)
        rights = await self._callers.rights(request)
        subjects = self._subjects  # `follow` may come while the API server is asked
        if subjects is None:  # before the rate: callers ask again until they find the leader
            raise Refusal(503, "this replica stands by; another one schedules", reason=NOT_LEADING)
        self._callers.count(rights.caller)
        if name not in self._answers:
            raise Refusal(404, f"unknown path, write one of: {', '.join(self._answers)}", reason="NotFound")
        methods = ("POST",) if self._answers[name].has_content else ("GET", "HEAD")
        if request.method not in methods:
            raise Refusal(405, f"ask with {methods[0]}", reason="MethodNotAllowed")
        try:
            query = queries.read(request.query, self._answers[name].parameters)
        except QueryError as error:
            raise Refusal(400, str(error)) from error
        with self._counted(rights.caller):
            if self._answers[name].has_content:
                query = msgspec.structs.replace(query, content=await http_server.content(request))
            response = await self._document(name, query, subjects, rights)
            await http_server.send(request, response)
        return response

    @contextlib.contextmanager
    def _counted(self, caller: str) -> Iterator[None]:
        """Count a request of a caller while the block runs. Raise `Refusal` where there are too many."""
        if self._of_callers[caller] >= _OF_ONE_CALLER:
            raise Refusal(429, f"too many requests of {caller} at once", retry_after=1)
        self._of_callers[caller] += 1
        try:
            yield
        finally:
            self._of_callers -= Counter((caller,))  # drops a caller without requests

    async def _document(self, name: str, query: Query, subjects: S, rights: CallerRights) -> web.Response:
        rule = self._answers[name]
        async with contextlib.nullcontext() if rule.has_content else self._slots:
            try:
                await _require(rights, rule, query.namespace)
                document = await rule.answer(subjects, query, rights)
            except KubeError as error:
                raise Refusal(503, f"rights cannot be checked: {error}") from error
            body = await in_thread(msgspec.json.encode, document)
        response = web.Response(body=body, content_type="application/json")
        if self._compresses:
            response.enable_compression()
        return response


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

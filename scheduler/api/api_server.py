"""
The HTTP server of the scheduler's own API.

    GET /v1alpha1/history     decisions, bindings and evictions
    GET /v1alpha1/usage       device-hours in use and idle
    GET /v1alpha1/queue       pods that wait
    GET /v1alpha1/devices     devices and their holders
    GET /v1alpha1/free        how many devices are held and free, and the largest blocks

A request passes these steps; each failure is a `metav1.Status`, as of the API server:

    401  no bearer token, or one that the API server does not accept (TokenReview)
    503  NotLeading: another replica schedules, ask that one
    429  too many requests of this caller, or of all
    400  a wrong parameter
    403  the caller may not list what the question is about (SubjectAccessReview)

A token is in `Authorization`, or in `Dovetail-Authorization` where the way leads through the API server's proxy, which
removes the former. Reviews and answers use a client of their own, and what takes time runs in a thread.
"""

import asyncio
import contextlib
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from pathlib import Path
from typing import Final, NamedTuple

import msgspec
from aiohttp import web

from scheduler.api import (
    authentication,
    fleet_answers,
    history_answers,
    http_server,
    queries,
    queue_answers,
    usage_answers,
)
from scheduler.api.access_reviews import AuthenticatedUser
from scheduler.api.answer_threads import in_thread
from scheduler.api.authentication import CallerAuthentication
from scheduler.api.caller_rights import CallerRights, Listed, Reviews
from scheduler.api.http_server import Certificate
from scheduler.api.queries import NOT_LEADING, PREFIX, Parameters, Query, QueryError
from scheduler.api.queue_answers import WaitingPods
from scheduler.api.refusals import Refusal
from scheduler.api.request_limits import CallerRates
from scheduler.history.decision_history import DecisionHistory
from scheduler.history.device_usage import DeviceUsage
from scheduler.kube.client import Client
from scheduler.kube.errors import ConfigurationError, KubeError
from scheduler.observe.metrics import Metrics, Subsystem
from scheduler.observe.unexpected_errors import note
from scheduler.settings import Address, ApiSettings, parse_address
from scheduler.worker.fleet_client import FleetClient
from scheduler.worker.fleet_questions import FleetDocumentKind

_AT_ONCE: Final = 4
"""Requests that are answered at once; their documents are in memory."""
_WAITING: Final = 32
"""Requests that wait for that, or whose documents are being sent."""
_OF_ONE_CALLER: Final = 8
"""Requests of one caller at once."""


class Subjects(msgspec.Struct, frozen=True):
    """What the answers are about, while this process leads."""

    history: DecisionHistory
    usage: DeviceUsage
    queue: WaitingPods
    fleet: FleetClient


Document = msgspec.Struct | msgspec.Raw
"""A document, or an encoded one."""


class AnswerRule(NamedTuple):
    """
    How a question is answered, with which parameters.

    `listed` is what a caller that names a namespace must be allowed to list there, `everywhere` what every caller must
    be allowed to list in all namespaces.
    """

    answer: Callable[[Subjects, Query, CallerRights], Awaitable[Document]]
    parameters: Parameters
    listed: Listed
    everywhere: Listed | None = None


async def _history(about: Subjects, query: Query, rights: CallerRights) -> Document:
    return await history_answers.answer(about.history, query, rights, time.time())


async def _usage(about: Subjects, query: Query, rights: CallerRights) -> Document:
    return await usage_answers.answer(about.usage, query, rights, time.time())


async def _queue(about: Subjects, query: Query, rights: CallerRights) -> Document:
    return await queue_answers.answer(about.queue, query, rights)


async def _devices(about: Subjects, query: Query, rights: CallerRights) -> Document:
    return await fleet_answers.answer(about.fleet, query, rights, FleetDocumentKind.DEVICES)


async def _free(about: Subjects, query: Query, rights: CallerRights) -> Document:
    return await fleet_answers.answer(about.fleet, query, rights, FleetDocumentKind.FREE)


ANSWERS: Final[Mapping[str, AnswerRule]] = {
    "history": AnswerRule(_history, queries.HISTORY, Listed.PODS),
    "usage": AnswerRule(_usage, queries.USAGE, Listed.CLAIMS),
    "queue": AnswerRule(_queue, queries.QUEUE, Listed.PODS),
    "devices": AnswerRule(_devices, queries.DEVICES, Listed.CLAIMS, Listed.SLICES),
    "free": AnswerRule(_free, queries.FREE, Listed.CLAIMS, Listed.SLICES),
}
"""The answers by the last part of their path."""


class SchedulerApi:
    """Answers callers. `lead` and `follow` say whether this process schedules."""

    def __init__(
        self, settings: ApiSettings, client: Client, metrics: Metrics, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """`client` is for reviews only."""
        self._metrics: Final = metrics
        self._reviews: Final = Reviews(client, requires_audience=settings.require_audience, clock=clock)
        self._rates: Final = CallerRates(settings.requests_per_second, clock)
        self._authentication: Final = CallerAuthentication(self._reviews, clock)
        self._slots: Final = asyncio.Semaphore(_AT_ONCE)
        self._open = 0
        self._of_callers = Counter[str]()
        self._subjects: Subjects | None = None

    def lead(self, subjects: Subjects) -> None:
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
            response = http_server.refused(Refusal(500, "an unexpected error; the log of the scheduler has it"))
        finally:
            self._open -= 1
        self._metrics.api_requests.labels(name if name in ANSWERS else "other", str(response.status)).inc()
        return response

    async def _answer(self, name: str, request: web.Request) -> web.Response:
        if self._open > _AT_ONCE + _WAITING:
            raise Refusal(429, "too many requests at once", retry_after=1)
        user = await self._authentication.user(http_server.bearer_token(request.headers), request.remote or "")
        subjects = self._subjects  # `follow` may come while the API server is asked
        if subjects is None:  # before the rate: callers ask again until they find the leader
            raise Refusal(503, "this replica stands by; another one schedules", reason=NOT_LEADING)
        if seconds := self._rates.take(user.username):
            raise Refusal(429, f"too many requests of {user.username}", retry_after=seconds)
        if name not in ANSWERS:
            raise Refusal(404, f"unknown path, write one of: {', '.join(ANSWERS)}", reason="NotFound")
        try:
            query = queries.read(request.query, ANSWERS[name].parameters)
        except QueryError as error:
            raise Refusal(400, str(error)) from error
        with self._counted(user.username):
            response = await self._document(name, query, subjects, user)
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

    async def _document(self, name: str, query: Query, subjects: Subjects, user: AuthenticatedUser) -> web.Response:
        rule = ANSWERS[name]
        rights = CallerRights(self._reviews, user)
        async with self._slots:
            try:
                await _require(rights, rule, query.namespace)
                document = await rule.answer(subjects, query, rights)
            except KubeError as error:
                raise Refusal(503, f"rights cannot be checked: {error}") from error
            body = await in_thread(msgspec.json.encode, document)
        return web.Response(body=body, content_type="application/json")


async def _require(rights: CallerRights, rule: AnswerRule, namespace: str) -> None:
    """Raise `Refusal` where a caller may not list what every answer is about, or nothing in the namespace named."""
    if rule.everywhere is not None and not await rights.sees(rule.everywhere):
        raise _forbidden(rights, rule.everywhere, "at the cluster scope")
    if namespace and not await rights.sees(rule.listed) and not await rights.sees(rule.listed, namespace):
        raise _forbidden(rights, rule.listed, f"in the namespace {namespace!r}")


def _forbidden(rights: CallerRights, listed: Listed, where: str) -> Refusal:
    group, resource = listed.value
    what = f"{resource}.{group}" if group else resource
    return Refusal(403, f"user {rights.user.username!r} cannot list {what} {where}")


@contextlib.asynccontextmanager
async def listening(
    settings: ApiSettings, kubeconfig: Path | None, metrics: Metrics
) -> AsyncIterator[tuple[SchedulerApi | None, str]]:
    """
    Serve the API where it has an address, with connections of its own; give it and its address (None and "": off).

    Raise `ConfigurationError` where it cannot be served.
    """
    if not settings.bind_address:
        yield None, ""
        return
    async with contextlib.AsyncExitStack() as ends:
        client = await ends.enter_async_context(Client.connect(kubeconfig, max_connections=2 * authentication.AT_ONCE))
        api = SchedulerApi(settings, client, metrics)
        try:
            address = await ends.enter_async_context(serving(api, settings))
        except OSError as error:
            raise ConfigurationError(
                f"api: {settings.bind_address} cannot be served: {error}; check api.bindAddress, api.tlsCertFile and "
                "api.tlsKeyFile"
            ) from error
        yield api, str(address)


def serving(api: SchedulerApi, settings: ApiSettings) -> contextlib.AbstractAsyncContextManager[Address]:
    """Serve while the block runs, and return the bound address. Raise `OSError`, for a wrong certificate too."""
    routes = (web.get(f"{PREFIX}/{{name}}", api.handle),)
    certificate = Certificate(settings.tls_cert_file, settings.tls_key_file)
    return http_server.serving(routes, parse_address(settings.bind_address), certificate)

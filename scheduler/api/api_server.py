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
removes the former. The server has a thread and an event loop of its own, and a client for reviews. The event loop that
schedules is asked for the pods of its queue, for names of namespaces, and to hand a question on to the worker.
"""

import contextlib
import time
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Final

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
from scheduler.api.answer_threads import in_thread
from scheduler.api.caller_api import AnswerRule, CallerApi, Document, TokenCallers
from scheduler.api.caller_rights import CallerRights, Listed
from scheduler.api.http_server import Certificate
from scheduler.api.queries import PREFIX, Query
from scheduler.api.queue_answers import WaitingPods
from scheduler.api.server_thread import SchedulingLoop, in_thread_of_its_own
from scheduler.history.decision_history import DecisionHistory
from scheduler.history.device_usage import DeviceUsage
from scheduler.kube.client import Client
from scheduler.kube.errors import ConfigurationError
from scheduler.observe.metrics import Metrics
from scheduler.settings import Address, ApiSettings, parse_address
from scheduler.worker.fleet_client import FleetClient
from scheduler.worker.fleet_questions import FleetDocumentKind


class Subjects(msgspec.Struct, frozen=True):
    """What the answers are about, while this process leads."""

    history: DecisionHistory
    usage: DeviceUsage
    queue: WaitingPods
    fleet: FleetClient
    loop: SchedulingLoop


async def _history(about: Subjects, query: Query, rights: CallerRights) -> Document:
    return await history_answers.answer(about.history, query, rights, time.time())


async def _usage(about: Subjects, query: Query, rights: CallerRights) -> Document:
    return await usage_answers.answer(about.usage, query, rights, time.time())


async def _queue(about: Subjects, query: Query, rights: CallerRights) -> Document:
    return await queue_answers.answer(about.queue, query, rights)


async def _devices(about: Subjects, query: Query, rights: CallerRights) -> Document:
    return await fleet_answers.answer((about.fleet, about.loop), query, rights, FleetDocumentKind.DEVICES)


async def _free(about: Subjects, query: Query, rights: CallerRights) -> Document:
    return await fleet_answers.answer((about.fleet, about.loop), query, rights, FleetDocumentKind.FREE)


async def _recorded_namespaces(about: Subjects) -> Iterable[str]:
    return await in_thread(about.history.namespaces)


async def _using_namespaces(about: Subjects) -> Iterable[str]:
    return await in_thread(about.usage.namespaces)


async def _waiting_namespaces(about: Subjects) -> Iterable[str]:
    return await about.queue.namespaces()


ANSWERS: Final[Mapping[str, AnswerRule[Subjects]]] = {
    "history": AnswerRule(_history, queries.HISTORY, Listed.PODS, among=_recorded_namespaces),
    "usage": AnswerRule(_usage, queries.USAGE, Listed.CLAIMS, among=_using_namespaces),
    "queue": AnswerRule(_queue, queries.QUEUE, Listed.PODS, among=_waiting_namespaces),
    "devices": AnswerRule(_devices, queries.DEVICES, Listed.CLAIMS, Listed.SLICES),
    "free": AnswerRule(_free, queries.FREE, Listed.CLAIMS, Listed.SLICES),
}
"""The answers by the last part of their path."""


class SchedulerApi(CallerApi[Subjects]):
    """Answers callers by their tokens about the scheduler of this process, while it leads."""

    def __init__(
        self, settings: ApiSettings, client: Client, metrics: Metrics, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """`client` is for reviews only."""
        super().__init__(ANSWERS, TokenCallers(settings, client, clock), metrics)


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
    serve = partial(_listening, settings, kubeconfig, metrics)
    async with in_thread_of_its_own("api", serve) as found:
        yield found


@contextlib.asynccontextmanager
async def _listening(
    settings: ApiSettings, kubeconfig: Path | None, metrics: Metrics
) -> AsyncIterator[tuple[SchedulerApi, str]]:
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


def serving(api: CallerApi[Subjects], settings: ApiSettings) -> contextlib.AbstractAsyncContextManager[Address]:
    """Serve while the block runs, and return the bound address. Raise `OSError`, for a wrong certificate too."""
    routes = (web.get(f"{PREFIX}/{{name}}", api.handle),)
    certificate = Certificate(settings.tls_cert_file, settings.tls_key_file)
    return http_server.serving(routes, parse_address(settings.bind_address), certificate)

"""
The HTTP server of `dovetail page`, a process of its own.

    GET /                   the page
    GET /v1alpha1/map       the picture: the document of `dovetail map`
    GET /v1alpha1/decisions the last decisions of the running scheduler, or the way of a pod (`namespace`, `pod`)
    POST /v1alpha1/fit      whether the pods of the manifests that are sent would start now; nothing is written

With `watch=true` the first two are followed by what changes (`scheduler.page.page_watches`), as the page does. Where
callers have tokens, each sees what it may list (`scheduler.api.caller_api`). Without tokens the server answers only
requests that name this machine as their host: a name of a foreign site that leads here is refused, and so is what a
foreign site posts.
"""

import contextlib
from collections.abc import AsyncIterator, Mapping
from typing import Final, NamedTuple
from urllib.parse import urlsplit

import msgspec
from aiohttp import web
from aiohttp.typedefs import Handler

from scheduler.api import http_server
from scheduler.api.access_reviews import AuthenticatedUser
from scheduler.api.answer_threads import in_thread
from scheduler.api.caller_api import AnswerRule, CallerApi, Callers
from scheduler.api.caller_rights import CallerRights, Listed
from scheduler.api.http_server import Certificate
from scheduler.api.queries import PREFIX, Parameters, Query
from scheduler.api.refusals import Refusal
from scheduler.observe.metrics import Metrics
from scheduler.page import decision_answers, fit_questions, map_page, visible_part
from scheduler.page.decision_answers import Decisions
from scheduler.page.fit_questions import FitQuestion
from scheduler.page.page_watches import DecisionsWatch, MapWatch, PageSubjects
from scheduler.settings import Address

_HEADERS: Final = {
    "Cache-Control": "no-store",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}


async def _map(about: PageSubjects, query: Query, rights: CallerRights) -> msgspec.Raw:
    del query
    reading = await about.fleet.last()
    if reading is None:
        why = about.fleet.failure.message if about.fleet.failure else "reading it takes longer"
        raise Refusal(503, f"the fleet cannot be read: {why}", retry_after=1)
    return msgspec.Raw((await about.fleet.picture(reading, await visible_part.visible_to(rights, reading))).document)


async def _decisions(about: PageSubjects, query: Query, rights: CallerRights) -> Decisions:
    return await decision_answers.answer(about.ask_scheduler, query, rights.token)


async def _fit(about: PageSubjects, query: Query, rights: CallerRights) -> msgspec.Raw:
    if about.fit is None:
        raise Refusal(404, "this page is about a saved decision: ask with `dovetail fit`", reason="NotFound")
    reading = await about.fleet.last()
    source = about.fit.source
    named = await in_thread(fit_questions.named_namespaces, query.content)
    among = (query.namespace or source.namespace, *named, *(reading.waiting if reading else ()))
    pods, claims = [await rights.namespaces(each, among) for each in (Listed.PODS, Listed.CLAIMS)]
    question = FitQuestion(
        source=source,
        content=query.content,
        namespace=query.namespace or source.namespace,
        wanted=query.count,
        namespaces=pods & claims,
        sees_nodes=await rights.sees(Listed.NODES),
        adds_nodes=query.add_nodes,
    )
    if query.add_nodes and query.count is not None:
        raise Refusal(400, "count: cannot be with addNodes=true: leave one of them out")
    if query.add_nodes and not (question.sees_nodes and question.namespaces.everything):
        raise Refusal(403, "addNodes=true: you may not list nodes, or not pods and resourceclaims of all namespaces")
    return await about.fit.ask(rights.budget, question)


ANSWERS: Final[Mapping[str, AnswerRule[PageSubjects]]] = {
    "map": AnswerRule(_map, Parameters(("watch",)), Listed.PODS, Listed.SLICES, watch=MapWatch),
    "decisions": AnswerRule(_decisions, Parameters(("namespace", "pod", "watch")), Listed.PODS, watch=DecisionsWatch),
    "fit": AnswerRule(
        _fit, Parameters(("namespace", "count", "addNodes")), Listed.PODS, Listed.SLICES, has_content=True
    ),
}
"""The answers by the last part of their path."""


class OwnUser:
    """The one caller of a page on a person's machine: the answers are what that person may list."""

    async def rights(self, request: web.Request) -> CallerRights:
        """Let everything be seen that was read."""
        del request
        return CallerRights(AuthenticatedUser(), _everything)

    def count(self, budget: str) -> None:
        """Count nothing."""


async def _everything(listed: Listed, namespace: str) -> bool:
    del listed, namespace
    return True


class Entrance(NamedTuple):
    """Callers with tokens, and the certificate of the server that they send them to."""

    callers: Callers
    certificate: Certificate


@contextlib.asynccontextmanager
async def serving(subjects: PageSubjects, address: Address, entrance: Entrance | None = None) -> AsyncIterator[Address]:
    """
    Serve the page while the block runs, without an entrance to this machine; return the bound address.

    Raise `OSError`, for a wrong certificate too.
    """
    callers, certificate = entrance or (OwnUser(), Certificate())
    api = CallerApi(ANSWERS, callers, Metrics(), compresses=True)
    api.lead(subjects)
    html, policy = map_page.served()
    body = html.encode()
    of_page = {
        "Content-Type": "text/html; charset=utf-8",
        "Content-Length": str(len(body)),
        "Content-Security-Policy": policy,
    }

    async def page(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers=of_page)
        await http_server.send(request, response, b"" if request.method == "HEAD" else body)
        return response

    asked = web.get(f"{PREFIX}/{{name}}", api.handle)
    posted = web.post(f"{PREFIX}/{{name:fit}}", api.handle, expect_handler=http_server.expects)
    middlewares = () if entrance else (_from_this_machine,)
    async with http_server.serving(
        (web.get("/", page), asked, posted),
        address,
        certificate,
        headers=_HEADERS,
        middlewares=middlewares,
        most_content=fit_questions.MOST_BYTES,
    ) as bound:
        yield bound


@web.middleware
async def _from_this_machine(request: web.Request, handler: Handler) -> web.StreamResponse:
    """
    Refuse other hosts, and what another site posts.

    A site whose name leads to this machine could read the page (DNS rebinding). Browsers say from where they post.
    """
    try:
        host = urlsplit(f"//{request.host}").hostname or ""
    except ValueError:
        host = ""
    if not Address(host, 0).is_loopback:
        return http_server.refused(Refusal(403, "this page is for this machine: open it as localhost or 127.0.0.1"))
    origin = request.headers.get("Origin")
    if request.method == "POST" and origin is not None and origin.partition("://")[2] != request.host:
        return http_server.refused(Refusal(403, "this page answers no question of another site"))
    return await handler(request)

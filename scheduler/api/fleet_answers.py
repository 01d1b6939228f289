"""
`/v1alpha1/devices` and `/v1alpha1/free`: the devices, their holders, and how many are free.

The documents are made in a child of the worker (`scheduler.worker.fleet_documents`): the scheduler's own process only
checks rights, and hands on bytes. The caller must be allowed to list ResourceSlices; holders are those whose claims the
caller may list.
"""

import asyncio
from typing import Final

import msgspec

from scheduler.api.caller_rights import CallerRights, Listed
from scheduler.api.queries import API_VERSION, Query
from scheduler.api.refusals import Refusal
from scheduler.api.server_thread import SchedulingLoop
from scheduler.worker.fleet_client import FleetClient, FleetReply
from scheduler.worker.fleet_questions import FleetDocumentKind, FleetQuestion
from scheduler.worker.supervisor import WorkerError

_SECONDS: Final = 9.0
"""How long an answer may wait for the worker, which may be in a decision; less than a command waits."""


async def answer(
    about: tuple[FleetClient, SchedulingLoop], query: Query, rights: CallerRights, kind: FleetDocumentKind
) -> msgspec.Raw:
    """Answer a query; the document is encoded. Raise `KubeError` and `Refusal`."""
    fleet, loop = about
    among = (query.namespace,) if query.namespace else await loop.read(fleet.namespaces)
    question = FleetQuestion(
        api_version=API_VERSION,
        kind=kind,
        query=query.fleet,
        by=query.groupings,
        node_group_label=query.group_label or fleet.node_group_label,
        claims=await rights.namespaces(Listed.CLAIMS, among),
        limit=query.limit,
    )
    try:
        async with asyncio.timeout(_SECONDS):
            return _encoded(await loop.run(fleet.ask(question)))
    except TimeoutError as error:
        raise Refusal(503, "the solver decides about pods and has no time now", retry_after=1) from error
    except WorkerError as error:
        raise Refusal(503, f"the solver gives no answer: {error}", retry_after=1) from error


def _encoded(reply: FleetReply) -> msgspec.Raw:
    """Return the document; that of an earlier time gets its age as another field, without being decoded."""
    if not reply.age_seconds:
        return reply.document
    return msgspec.Raw(b'{"ageSeconds":%.1f,' % reply.age_seconds + bytes(reply.document)[1:])

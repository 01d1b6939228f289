"""
A scheduler extender that notes which nodes passed kube-scheduler's own filters, and refuses them all.

kube-scheduler calls it once per attempt, after PreFilter and Filter of all plugins, with the names of the nodes that
are left; it is not called where none is.
"""

import contextlib
from collections.abc import AsyncIterator

import msgspec
from aiohttp import web

HOST = "127.0.0.1"
VERB = "filter"
REFUSAL = "noted by the differential test"


class _Metadata(msgspec.Struct):
    uid: str


class _Pod(msgspec.Struct):
    metadata: _Metadata


class _Arguments(msgspec.Struct, rename="pascal"):
    """ExtenderArgs of k8s.io/kube-scheduler/extender/v1, as an extender with a node cache gets them."""

    pod: _Pod
    node_names: list[str] | None = None


_decode = msgspec.json.Decoder(_Arguments).decode


class Extender:
    """What was noted: by the pod's uid, the nodes of its first attempt."""

    def __init__(self) -> None:
        self.noted: dict[str, frozenset[str]] = {}
        self.url = ""

    @contextlib.asynccontextmanager
    async def serving(self) -> AsyncIterator["Extender"]:
        """Serve on a free port of this machine; `url` says where."""
        application = web.Application(client_max_size=2**24)
        application.router.add_post(f"/{VERB}", self._filter)
        runner = web.AppRunner(application, access_log=None)
        await runner.setup()
        try:
            site = web.TCPSite(runner, HOST, 0)
            await site.start()
            port = runner.addresses[0][1]
            self.url = f"http://{HOST}:{port}"
            yield self
        finally:
            await runner.cleanup()

    async def _filter(self, request: web.Request) -> web.Response:
        arguments = _decode(await request.read())
        names = arguments.node_names or []
        self.noted.setdefault(arguments.pod.metadata.uid, frozenset(names))
        answer = {"NodeNames": [], "FailedNodes": dict.fromkeys(names, REFUSAL)}
        return web.Response(body=msgspec.json.encode(answer), content_type="application/json")

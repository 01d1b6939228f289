"""How the stand-in for kubelets reads and writes single objects."""

import asyncio
import contextlib
import logging
from typing import Any, Final

import aiohttp
import msgspec

from e2e.controlplane.wire import Watched

JSON: Final = "application/json"
MERGE: Final = "application/merge-patch+json"
STRATEGIC_MERGE: Final = "application/strategic-merge-patch+json"
APPLY: Final = "application/apply-patch+yaml"
_ATTEMPTS: Final = 8

log = logging.getLogger("kubelet")


class Api:
    """Patient requests: again while the server is away or busy."""

    def __init__(self, session: aiohttp.ClientSession) -> None:
        self._session = session

    async def read(self, path: str, kind: type[Watched]) -> Watched | None:
        """Read an object; None where it is gone, or cannot be read."""
        answer = await self._request("GET", path)
        if answer is None:
            return None
        try:
            return msgspec.json.decode(answer, type=kind)
        except (RecursionError, msgspec.DecodeError):  # the API admits objects that this cannot read
            return None

    async def send(self, method: str, path: str, body: dict[str, Any], content: str) -> None:
        """Send one write; what is gone or has become another object needs none."""
        await self._request(method, path, msgspec.json.encode(body), content)

    async def _request(self, method: str, path: str, data: bytes | None = None, content: str = JSON) -> bytes | None:
        """Return the body of the answer; None where the server refuses."""
        headers = {"Content-Type": content}
        for attempt in range(_ATTEMPTS):
            with contextlib.suppress(aiohttp.ClientConnectionError, TimeoutError):
                async with self._session.request(method, path, data=data, headers=headers) as answer:
                    if answer.ok:
                        return await answer.read()
                    if answer.status in {404, 409}:
                        return None
                    if answer.status < 500 and answer.status != 429:
                        log.warning("%s %s: %d %s", method, path, answer.status, await answer.text())
                        return None
            await asyncio.sleep(0.05 * 2**attempt)
        log.error("%s %s: given up", method, path)
        return None

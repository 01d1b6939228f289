"""
What happens to Dovetail while the objects of a case exist: it starts again, or it lists everything again.

Relists come from a proxy in front of the API server. It ends all watches, and refuses the next watch of each collection
as expired (410), as an API server does that has compacted what a client asks for.
"""

import asyncio
import contextlib
import threading
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Final

from e2e.controlplane.plane import ControlPlane
from e2e.hostile.keeper import Keeper
from tests.support.shell_proxy import Asked, LossyProxy, Told, lossy, refusal

_RELIST_SECONDS: Final = 10.0
_EXPIRED: Final = 410


class ExpiredWatches:
    """Refuses the next watch of each collection; to be given to a proxy."""

    def __init__(self) -> None:
        self._told: set[str] = set()
        self._is_on = False
        self._lock: Final = threading.Lock()

    def expire(self) -> None:
        """Refuse them from now on."""
        with self._lock:
            self._told.clear()
            self._is_on = True

    def meet(self, asked: Asked, is_done: bool) -> Told | None:  # noqa: FBT001 - as the proxy calls it
        """Refuse a watch, once."""
        if is_done or asked.method != "GET" or "watch=" not in asked.query:
            return None
        with self._lock:
            if not self._is_on or asked.path in self._told:
                return None
            self._told.add(asked.path)
            return refusal(_EXPIRED)


class Relists:
    """A Dovetail behind a proxy, which makes it list everything again."""

    def __init__(self, proxy: LossyProxy, kubeconfig: Path) -> None:
        self.kubeconfig: Final = kubeconfig
        """Leads through the proxy."""
        self._proxy: Final = proxy
        self._expired: Final = ExpiredWatches()
        proxy.meet = self._expired.meet

    async def run(self) -> None:
        """Make it list everything again each few seconds, until cancelled."""
        while True:
            self._expired.expire()
            await asyncio.to_thread(self._proxy.end_watches)
            await asyncio.sleep(_RELIST_SECONDS)


@contextlib.asynccontextmanager
async def proxied(plane: ControlPlane, keeper: Keeper, direct: Path) -> AsyncIterator[Relists]:
    """Start Dovetail anew behind a proxy, and without it afterwards."""
    with lossy(plane.admin) as proxy:
        kubeconfig = proxy.write_kubeconfig(plane.folder / "proxied.kubeconfig")
        await keeper.start_over(kubeconfig)
        try:
            yield Relists(proxy, kubeconfig)
        finally:
            await keeper.start_over(direct)

"""A control plane with kube-scheduler and its extender, over which groups are compared."""

import asyncio
import contextlib
import multiprocessing
import time
from collections.abc import AsyncIterator, Callable, Iterable
from concurrent.futures import ProcessPoolExecutor

from e2e import objects
from e2e.controlplane import wire
from e2e.controlplane.plane import ControlPlane
from e2e.differential import demands, peer, shapes
from e2e.differential.comparison import Comparison
from e2e.differential.extender import Extender
from e2e.differential.groups import Group
from e2e.differential.peer import Peer
from e2e.differential.report import Tally
from e2e.differential.stage import Stage

CONNECTIONS = 32


@contextlib.asynccontextmanager
async def comparing(plane: ControlPlane) -> AsyncIterator[Comparison]:
    """Start kube-scheduler with the extender next to a control plane that runs nothing else; end both afterwards."""
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=context) as workers:
        async with wire.session(plane.kubeconfig, CONNECTIONS) as session, Extender().serving() as extender:
            config = peer.write_config(plane.folder / "compared.yaml", extender.url)
            component = await asyncio.to_thread(plane.start_kube_scheduler, config)
            try:
                await objects.create(session, (*shapes.namespaces(), demands.runtime_class()))
                yield Comparison(Stage(session), Peer(session, extender), plane.kubeconfig, workers)
            finally:
                component.stop()


async def compare(plane: ControlPlane, groups: Iterable[Group], told: Callable[[Tally], None]) -> tuple[Tally, float]:
    """Compare groups one after the other; `told` hears how far it is. Give what came of it and the seconds."""
    tally, began = Tally(), time.monotonic()
    async with comparing(plane) as comparison:
        began = time.monotonic()
        for group in groups:
            comparison.stage.refused.clear()
            tally.add(group, await comparison.run(group), comparison.stage.refused)
            told(tally)
    return tally, time.monotonic() - began

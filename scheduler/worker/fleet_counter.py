"""Counts the fleet for its series, in a child of the worker, so that no decision waits for it."""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Final

from scheduler.cluster import Assumptions, Cluster
from scheduler.observe.metrics import Metrics, Subsystem
from scheduler.observe.unexpected_errors import Confined
from scheduler.settings import Settings
from scheduler.worker import frames
from scheduler.worker.supervisor import WorkerError, WorkerSupervisor
from solver.domain import Policy, QuotaFleet
from solver.domain.fleet import ClassBlocks, DeviceCount, FleetTotals

_FIRST_SECONDS: Final = 2.0
"""How long the first count waits: the fork would slow the first decision, whose caches the count then inherits."""


class FleetCounter:
    """
    Sets the series about devices again and again; `also` is called each time, for series of the shell.

    `devices` are the counts of the last time, empty before the first; `quotas` is what the fleet has of what quotas
    count, None before.
    """

    def __init__(
        self,
        worker: WorkerSupervisor,
        cluster: Cluster,
        metrics: Metrics,
        settings: Settings,
        *,
        also: Callable[[], None],
    ) -> None:
        self._worker: Final = worker
        self._cluster: Final = cluster
        self._metrics: Final = metrics
        self._settings: Final = settings.metrics
        self._policy: Final[Policy] = settings.policy(settings.profiles[0].scheduler_name)
        self._also: Final = also
        self.devices: tuple[DeviceCount, ...] = ()
        self.quotas: QuotaFleet | None = None
        self._asked = Assumptions()
        """The assumptions in the last order, which comes after the changes: they may differ from those before."""
        self._counted: tuple[int, Assumptions] | None = None
        """The changes and assumptions that the last count has seen."""
        self._confined: Final = partial(Confined, metrics, Subsystem.FLEET)

    async def run(self) -> None:
        """Count until cancelled."""
        await asyncio.sleep(_FIRST_SECONDS)
        while True:
            await self._worker.wait_until_ready()
            with self._confined():
                self._also()
                await self.count()
            await asyncio.sleep(self._settings.interval_seconds)

    async def count(self) -> None:
        """
        Count once, if anything has changed since the last count: it costs a second on thousands of nodes.

        The series stay as they are where the worker gives no answer.
        """
        changes = self._worker.change_count
        if self._counted == (changes, self._cluster.assumptions()):
            return
        try:
            answer = await self._worker.ask_child(self._order, frames.FleetCounted)
        except WorkerError:
            return
        self._set(answer.totals)
        self.quotas = answer.quotas
        usage = self._cluster.quota_usage()
        usage.learn_unknown(answer.charges)
        usage.forget_unused(self._cluster.store.assumed_claims)
        self._counted = changes, self._asked

    def _order(self, number: int, limits: frames.IsolationLimits) -> frames.CountFleet:
        self._asked = self._cluster.assumptions()
        return frames.CountFleet(
            id=number,
            assumptions=self._asked,
            policy=self._policy,
            node_group_label=self._settings.node_group_label,
            per_node=self._settings.per_node,
            most_namespaces=self._settings.most_namespaces,
            limits=limits,
        )

    def _set(self, totals: FleetTotals) -> None:
        """Replace all values at once; nothing else runs meanwhile, no scrape either."""
        self.devices = totals.devices
        metrics = self._metrics
        for gauge in (metrics.devices, metrics.namespace_devices, metrics.node_devices):
            gauge.clear()
        for each in totals.devices:
            metrics.devices.labels(each.driver, each.device_class, each.node_group, each.state).set(each.count)
        for held in totals.namespaces:
            metrics.namespace_devices.labels(held.namespace, held.device_class).set(held.count)
        for there in totals.nodes:
            metrics.node_devices.labels(there.node, there.device_class, there.state).set(there.count)
        metrics.largest_free_block.clear()
        metrics.fragmentation.clear()
        for blocks in totals.classes:
            self._set_class(blocks)
        metrics.fleet_fragmentation.set(totals.fragmentation or 0.0)

    def _set_class(self, blocks: ClassBlocks) -> None:
        name, largest = blocks.device_class, blocks.largest
        sizes = {"claim": largest.claim, "node": largest.node, "root": largest.root, "domain": largest.domain}
        for scope, size in sizes.items():
            if size is not None:
                self._metrics.largest_free_block.labels(name, scope).set(size)
        if blocks.fragmentation is not None:
            self._metrics.fragmentation.labels(name).set(blocks.fragmentation)

"""The worker process with the mirror that it replicates, as tests start it."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from scheduler.change import Change
from scheduler.cluster import Cluster
from scheduler.worker.decision_limits import Limits
from scheduler.worker.supervisor import WorkerSupervisor
from solver.domain import Plan, Policy
from tests.support.builders import batch, claim, gpu_class, gpu_slice, node, pod
from tests.support.cluster_builders import seen
from tests.support.shell_worker import COMMAND as MISBEHAVING

LIMITS = Limits(seconds=20.0, deterministic_seconds=1.0, workers=1, memory_limit_mib=512)
WORLD = (node("n1", cpu=8), gpu_slice("n1", count=2), gpu_class(), claim("c"), claim("d"))


class Shell:
    """A worker and the mirror."""

    def __init__(self, worker: WorkerSupervisor) -> None:
        self.worker = worker
        self.cluster = Cluster()
        for each in WORLD:
            self.see(seen(each))

    def see(self, change: Change) -> None:
        if self.cluster.apply(change):
            self.worker.note(change)

    async def decide(self, *names_and_claims: tuple[str, ...]) -> Plan:
        pods = batch(*(pod(*each) for each in names_and_claims))
        answer = await self.worker.decide(pods, self.cluster.assumptions(), Policy())
        assert answer.plan is not None
        return answer.plan


@asynccontextmanager
async def running(limits: Limits = LIMITS, command: tuple[str, ...] = MISBEHAVING) -> AsyncIterator[Shell]:
    shell = Shell(WorkerSupervisor(limits, command))
    task = asyncio.create_task(shell.worker.run())
    try:
        async with asyncio.timeout(60):
            await shell.worker.wait_until_ready()
            yield shell
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

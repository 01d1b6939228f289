"""The worker process with the mirror that it replicates, as tests start it."""

import asyncio
import atexit
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import cache
from typing import Any, Final

from scheduler.change import Change
from scheduler.cluster import Cluster
from scheduler.worker.decision_limits import Limits
from scheduler.worker.fork_server import COMMAND, ForkServers, LaunchedServer
from scheduler.worker.supervisor import WorkerSupervisor
from solver.domain import Plan, Policy
from tests.support.builders import batch, claim, gpu_class, gpu_slice, node, pod
from tests.support.cluster_builders import seen
from tests.support.shell_worker import COMMAND as MISBEHAVING

LIMITS = Limits(seconds=20.0, deterministic_seconds=1.0, workers=1, memory_limit_mib=512)
WORLD = (node("n1", cpu=8), gpu_slice("n1", count=2), gpu_class(), claim("c"), claim("d"))


class SharedForkServers(ForkServers):
    """One fork server of a command for all tests: each of its workers is as new as that of a new one."""

    def __init__(self, limits: Limits, command: tuple[str, ...] = MISBEHAVING) -> None:
        super().__init__(limits.memory_limit_mib, command)
        self._key: Final = (limits.memory_limit_mib, command)

    def take(self) -> LaunchedServer:
        process: Any = _Shared()
        return LaunchedServer(process, _launched(*self._key).control.dup())


class _Shared:
    """The process of a fork server that its user does not end."""

    def poll(self) -> None:
        return None

    def kill(self) -> None:
        pass

    def wait(self) -> None:
        pass


@cache
def _launched(memory_limit_mib: int, command: tuple[str, ...]) -> LaunchedServer:
    launched = ForkServers(memory_limit_mib, command).take()
    atexit.register(launched.process.wait)
    atexit.register(launched.kill)  # what is registered last runs first
    return launched


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
    servers = SharedForkServers(limits, command) if command in {MISBEHAVING, COMMAND} else None
    shell = Shell(WorkerSupervisor(limits, command, servers=servers))
    task = asyncio.create_task(shell.worker.run())
    try:
        async with asyncio.timeout(180):  # the start of a process among many may take most of a minute
            await shell.worker.wait_until_ready()
            yield shell
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

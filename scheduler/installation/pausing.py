"""
`dovetail pause`: no replica schedules any more, and what was begun for pods that wait is taken back.

    1  mark     an annotation of the Lease makes every replica stand by
    2  wait     the leader ends its writes and gives up the Lease; a leader that is gone loses it when its time is over
    3  hold     the Lease is ours: no replica writes
    4  clean    special claims, allocations and reservations of pods that wait; our finalizers, annotations, nominations
    5  release  the Lease stays marked, so that replicas stand by until they are removed, or until `resume`
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Final, NamedTuple

from scheduler.change import Kind
from scheduler.cluster import Cluster
from scheduler.commit.bindings import PodBinder
from scheduler.commit.extended_resource_claims import ExtendedResourceClaims
from scheduler.commit.own_writes import OwnWrites
from scheduler.commit.rollback import Rollback
from scheduler.installation.installed_pods import replica_pods
from scheduler.kube import drain_writes, paths, writes
from scheduler.kube.access import ClusterAccess
from scheduler.kube.client import Client
from scheduler.kube.concurrency_limit import ConcurrencyLimit, RequestSlots
from scheduler.kube.errors import ConfigurationError, Forbidden, KubeError, LeadershipLost, NotFound
from scheduler.kube.leader_election.elector import LeaderElector, new_identity
from scheduler.kube.leader_election.lease import Timing
from scheduler.kube.writer import ApiCall, FencedError, LeaseFence, Writer
from scheduler.observe.unexpected_errors import together
from scheduler.settings import Settings
from scheduler.simulation import live_cluster
from solver.domain import FINALIZER, Claim, Pod

_WRITE_SECONDS: Final = 4.0
_KINDS: Final = (Kind.PODS, Kind.CLAIMS, Kind.POD_GROUPS, Kind.COSCHEDULING_GROUPS)

Say = Callable[[str], None]


class PauseTimeoutError(Exception):
    """The leader did not give up its Lease in time."""


class Paused(NamedTuple):
    """What was done, in objects, and what could not be done."""

    special: int
    released: int
    claims: int
    nominations: int
    running: int
    waiting: int
    problems: tuple[str, ...]


class LeaseName(NamedTuple):
    """Namespace and name of the Lease."""

    namespace: str
    name: str


def resume(access: ClusterAccess, settings: Settings, lease: LeaseName) -> bool:
    """Let replicas schedule again; return whether there is a Lease. Raise `KubeError`."""
    return asyncio.run(_resume(access, settings, lease))


def pause(access: ClusterAccess, settings: Settings, lease: LeaseName, say: Say, *, timeout_seconds: float) -> Paused:
    """Pause, and say what is being done. Raise `KubeError` or `PauseTimeoutError`."""
    return asyncio.run(_pause(access, settings, lease, say, timeout_seconds))


async def _resume(access: ClusterAccess, settings: Settings, lease: LeaseName) -> bool:
    async with access.connect() as client:
        await _require_namespace(client, lease)
        return await _elector(client, settings, lease, lambda _: None).drain(is_drained=False)


async def _require_namespace(client: Client, lease: LeaseName) -> None:
    """Raise `ConfigurationError` where the namespace of the Lease does not exist."""
    try:
        await client.request("GET", f"{paths.CORE}/namespaces/{lease.namespace}")
    except NotFound:
        raise ConfigurationError(
            f"namespace {lease.namespace} does not exist: name that of the scheduler with --dovetail-namespace, or "
            "that of its Lease with --lease-namespace"
        ) from None
    except Forbidden:
        return  # the Lease itself says whether it is there


async def _target(client: Client, settings: Settings, lease: LeaseName) -> str:
    """Say what a pause stops."""
    try:
        pods = [pod.name for pod in await replica_pods(client, lease.namespace)]
    except Forbidden:
        pods = []
    names = " and ".join(settings.scheduler_names)
    which = f": {', '.join(pods)}" if pods else ""
    return (
        f"pausing the scheduler in namespace {lease.namespace}{which}. Pods with schedulerName {names} are not placed "
        "until `dovetail resume`; pods that run go on, and no node is drained"
    )


async def _pause(
    access: ClusterAccess, settings: Settings, lease: LeaseName, say: Say, timeout_seconds: float
) -> Paused:
    async with access.connect() as client, access.connect() as lease_client:
        await _require_namespace(client, lease)
        say(await _target(client, settings, lease))
        elector = _elector(lease_client, settings, lease, lambda error: say(f"retrying: {error}"))
        is_there = await elector.drain(is_drained=True)
        if is_there:
            say(f"lease {lease.namespace}/{lease.name}: every replica stands by from now on")
            if elector.election.is_held:
                say(f"waiting for {_pod_of(elector.election.holder)} to end its writes, or for the end of its lease")
        else:
            seconds = settings.leader_election.lease_duration_seconds
            say(f"lease {lease.namespace}/{lease.name} is not there: waiting {seconds} s for a leader that had it")
        try:
            async with asyncio.timeout(timeout_seconds):
                await elector.acquire(was_led=lambda: True)
        except TimeoutError:
            raise PauseTimeoutError(_overdue(elector.election.holder, lease, timeout_seconds)) from None
        if not is_there:
            await elector.drain(is_drained=True)
        say("the lease is held; taking back what was begun for pods that wait")
        async with _held(elector):
            writer = Writer(RequestSlots(ConcurrencyLimit()), LeaseFence(elector), _WRITE_SECONDS)
            done = await _clean(client, writer, await live_cluster.fetch_by(client, _KINDS), settings)
            await writer.close()
        await elector.release()
        return done


@asynccontextmanager
async def _held(elector: LeaderElector) -> AsyncIterator[None]:
    """Hold the lease for the block. Raises LeadershipLost where it is lost."""
    holding = asyncio.create_task(elector.hold())
    try:
        yield
    except FencedError:
        raise LeadershipLost("the lease was lost before everything was taken back: pause again") from None
    finally:
        holding.cancel()
        await asyncio.gather(holding, return_exceptions=True)


def _elector(
    client: Client, settings: Settings, lease: LeaseName, on_error: Callable[[Exception], None]
) -> LeaderElector:
    election = settings.leader_election
    return LeaderElector(
        client,
        namespace=lease.namespace,
        name=lease.name,
        identity=f"pause_{new_identity()}",
        timing=Timing(
            lease_duration=election.lease_duration_seconds,
            renew_deadline=election.renew_deadline_seconds,
            retry_period=election.retry_period_seconds,
        ),
        on_error=on_error,
        drains=True,
    )


def _pod_of(holder: str) -> str:
    """Return the name of the pod in the identity of a holder, `POD_UUID`."""
    return holder.partition("_")[0]


def _overdue(holder: str, lease: LeaseName, seconds: float) -> str:
    return (
        f"{_pod_of(holder)} still holds the lease {lease.namespace}/{lease.name} after {seconds:.0f} s: it may be of a "
        "version that cannot be paused, or pods wait for their devices. Scale the Deployment to 0, and pause again"
    )


async def _clean(client: Client, writer: Writer, found: live_cluster.ClusterObjects, settings: Settings) -> Paused:
    """Take back what was begun for pods that wait, then what no allocation needs any more."""
    cluster, pods = Cluster(), []
    for change in found.changes:
        cluster.apply(change)
        if isinstance(change.value, Pod) and change.value.scheduler_name in settings.scheduler_names:
            pods.append(change.value)
    cleaner = _Cleaner(client, writer, cluster, pods)
    special, released = await cleaner.remove_special_claims(), await cleaner.release_claims()
    claims, nominations = await cleaner.tidy_claims(), await cleaner.remove_nominations()
    problems = (*(f"{kind} cannot be listed: forbidden" for kind in found.forbidden), *cleaner.problems)
    return Paused(
        special=special,
        released=released,
        claims=claims,
        nominations=nominations,
        running=sum(bool(pod.node_name) and not pod.is_terminal for pod in pods),
        waiting=len(cleaner.waiting),
        problems=problems,
    )


class _Cleaner:
    """The steps, each with the number of objects that it changed; `problems` says what could not be changed."""

    def __init__(self, client: Client, writer: Writer, cluster: Cluster, pods: Sequence[Pod]) -> None:
        self._client: Final = client
        self._writer: Final = writer
        self._cluster: Final = cluster
        self._rollback: Final = Rollback(client, writer, PodBinder(client, writer), OwnWrites(), _ignore)
        self._special: Final = ExtendedResourceClaims(client, cluster, writer, self._rollback)
        self.waiting: Final = tuple(pod for pod in pods if not pod.node_name and not pod.is_terminal)
        self.problems: Final[list[str]] = []

    async def remove_special_claims(self) -> int:
        """Delete claims that were made for extended resources of pods that wait."""
        waiting = {pod.uid for pod in self.waiting}
        orphaned = [(claim, pod) for claim, pod in self._cluster.orphaned_special_claims() if pod.uid in waiting]
        return sum(await together(self._remove(claim, pod) for claim, pod in orphaned))

    async def _remove(self, claim: Claim, pod: Pod) -> bool:
        """Delete a special claim of a pod; return whether it is gone or about to be, by a live read."""
        await self._special.remove(claim, (pod.id, pod.uid))
        try:
            live = await self._writer.read(partial(writes.read_claim, self._client, claim.id))
        except KubeError as error:
            self.problems.append(f"claim {claim.id} could not be read after its deletion: {error}")
            return False
        if live is None or live.uid != claim.uid or live.is_deleting:
            return True
        self.problems.append(f"claim {claim.id} was made for extended resources of a pod that waits, and is left")
        return False

    async def release_claims(self) -> int:
        """Remove reservations for pods that wait, and allocations that no other pod has reserved."""
        waiting, groups = {pod.uid: pod for pod in self.waiting}, self._idle_groups()
        ours = waiting.keys() | groups
        held = [each for each in self._cluster.observed_claims() if any(user.uid in ours for user in each.reserved_for)]
        return sum(await together(self._release(claim, waiting, groups) for claim in held))

    def _idle_groups(self) -> frozenset[str]:
        """Return the uids of PodGroups of pods that wait, of which no pod is bound."""
        gangs = {pod.gang for pod in self.waiting if pod.gang is not None}
        idle = [each for each in gangs if not any(pod.node_name for pod in self._cluster.gang_members(each))]
        found = (self._cluster.pod_group(each) for each in idle)
        return frozenset(each.uid for each in found if each is not None and each.uid)

    async def _release(self, claim: Claim, waiting: Mapping[str, Pod], groups: frozenset[str]) -> bool:
        pods = [(waiting[each.uid].id, each.uid) for each in claim.reserved_for if each.uid in waiting]
        if await self._rollback.release((claim.id,), pods, groups=groups):
            self.problems.append(f"claim {claim.id} is still reserved for a pod")
            return False
        return True

    async def tidy_claims(self) -> int:
        """Remove our annotation from all claims, and the finalizer from claims of waiting pods without allocation."""
        untidy = set(await drain_writes.list_adopted(self._client))
        for key in (claim for pod in self.waiting for claim in pod.claim_ids):
            claim = self._cluster.observed_claim(key)
            if claim is not None and FINALIZER in claim.finalizers:
                untidy.add(key)
        tidy = partial(drain_writes.tidy_claim, self._client)
        return sum(await together(self._insist(partial(tidy, key), f"claim {key}") for key in sorted(untidy)))

    async def remove_nominations(self) -> int:
        """Remove the nominated nodes of pods that wait."""
        remove = partial(drain_writes.remove_nomination, self._client)
        nominated = [pod for pod in self.waiting if pod.nominated_node_name]
        return sum(await together(self._insist(partial(remove, pod.id, pod.uid), f"pod {pod.id}") for pod in nominated))

    async def _insist(self, write: ApiCall[None], what: str) -> bool:
        try:
            await self._writer.insist(write)
        except NotFound:
            return False
        except KubeError as error:
            self.problems.append(f"{what} was not tidied: {error}")
            return False
        return True


def _ignore(_: Claim) -> None:
    """Nothing follows the claims."""

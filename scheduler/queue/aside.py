"""
What waits for a decision aside: pods that are costly to decide about, and pods under suspicion.

Suspects come first, since most of them are there for what another one did: in halves, until one kin is alone. Then
come costly pods, a kin or a gang at a time: of the namespaces with credit the one that was served longest ago.
"""

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from scheduler.queue.credit import Credit
from scheduler.queue.kin import Kin
from solver.domain import GangId, Pod

_MOST_TOGETHER: Final = 64
"""Pods of a kin that are decided together aside: what they cost is nearly what one costs."""

Key = tuple[str, Kin | GangId]
"""The schedulerName, and what is decided together."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """
    One decision aside: its pods, all of one scheduler name, and the others of their kin, for which it speaks too.

    `kin` is that of a costly job, None where several kin are under suspicion.
    """

    pods: tuple[Pod, ...]
    rest: tuple[Pod, ...] = ()
    kin: Kin | None = None

    @property
    def namespace(self) -> str:
        """The namespace that pays for it."""
        return self.pods[0].id.namespace


class AsideQueue:
    """The queue, by namespace. Times are seconds of the caller's monotonic clock; pods are known by uid."""

    def __init__(self, credit: Credit, kin_of: Callable[[Pod], Kin]) -> None:
        self._credit: Final = credit
        self._kin_of: Final = kin_of
        self._suspects: Final[deque[tuple[Pod, ...]]] = deque()
        self._costly: Final[dict[str, dict[Key, dict[str, Pod]]]] = {}
        self._gone: Final[set[str]] = set()

    def __len__(self) -> int:
        """Give the number of pods that wait."""
        costly = sum(len(group) for groups in self._costly.values() for group in groups.values())
        return costly + sum(len(part) for part in self._suspects)

    def add(self, pods: Iterable[Pod]) -> None:
        """Let costly pods wait."""
        for pod in pods:
            self._gone.discard(pod.uid)
            groups = self._costly.setdefault(pod.id.namespace, {})
            groups.setdefault(self._key(pod), {})[pod.uid] = pod

    def suspect(self, pods: Sequence[Pod]) -> None:
        """Let pods wait that were decided together when the process ended: in halves, one kin alone as costly."""
        self._gone.difference_update(pod.uid for pod in pods)
        groups: dict[Key, list[Pod]] = {}
        for pod in pods:
            groups.setdefault(self._key(pod), []).append(pod)
        if len(groups) == 1:
            self.add(pods)
            return
        units = list(groups.values())
        half = (len(units) + 1) // 2
        for part in (units[:half], units[half:]):
            self._suspects.extend(_by_profile([pod for unit in part for pod in unit]))

    def forget(self, uid: str) -> None:
        """Drop a pod that is gone, bound or changed, if it waits."""
        if self._costly or self._suspects:
            self._gone.add(uid)

    def due(self, now: float) -> float | None:
        """Give the time from which there may be a job: now, later, or None where nothing waits."""
        self._sweep()
        if self._suspects:
            return now
        return min((self._credit.free_at(namespace, now) for namespace in self._costly), default=None)

    def take(self, now: float) -> Job | None:
        """Take the next job; None where no namespace that has one may begin it now."""
        self._sweep()
        if self._suspects:
            return self._single(self._suspects.popleft())
        ready = [each for each in self._costly if not self._credit.is_in_debt(each, now)]
        if not ready:
            return None
        namespace = min(ready, key=self._credit.used_at)  # of those never served the one that came first
        groups = self._costly[namespace]
        key = max(groups, key=lambda each: max(pod.priority for pod in groups[each].values()))
        pods = tuple(groups.pop(key).values())
        if not groups:
            del self._costly[namespace]
        most = len(pods) if pods[0].gang is not None else _MOST_TOGETHER
        return Job(pods=pods[:most], rest=pods[most:], kin=self._kin_of(pods[0]))

    def _single(self, pods: tuple[Pod, ...]) -> Job:
        keys = {self._key(pod) for pod in pods}
        return Job(pods=pods, kin=self._kin_of(pods[0]) if len(keys) == 1 else None)

    def _key(self, pod: Pod) -> Key:
        return (pod.scheduler_name, pod.gang or self._kin_of(pod))

    def _sweep(self) -> None:
        """Drop those that are gone."""
        if not self._gone:
            return
        for namespace, groups in tuple(self._costly.items()):
            for key, group in tuple(groups.items()):
                for uid in self._gone & group.keys():
                    del group[uid]
                if not group:
                    del groups[key]
            if not groups:
                del self._costly[namespace]
        parts = [tuple(pod for pod in part if pod.uid not in self._gone) for part in self._suspects]
        self._suspects.clear()
        self._suspects.extend(part for part in parts if part)
        self._gone.clear()


def _by_profile(pods: Sequence[Pod]) -> Iterable[tuple[Pod, ...]]:
    names = dict.fromkeys(pod.scheduler_name for pod in pods)
    return (tuple(pod for pod in pods if pod.scheduler_name == name) for name in names)

"""A queue in which pods wait for devices or room, and what may free or take these."""

from collections.abc import Sequence

from scheduler.queue import SchedulingQueue
from scheduler.queue.equivalence import KeyOf
from solver.domain import Claim, Pod, Reason, ReasonCode
from tests.support.builders import allocation, claim, consumer, pod, result
from tests.support.cluster_builders import became

IN_USE = ReasonCode.DEVICES_IN_USE


def held(*devices: str, by: str = "old", share_id: str = "") -> Claim:
    """A claim that holds devices of n1, for the pod of its name."""
    results = [result("gpu", each, "n1", share_id=share_id) for each in devices]
    return claim(by, allocation=allocation(*results), reserved_for=[consumer(by)])


class WaitingPods:
    """A queue in which pods wait for what `codes` say, and their backoff is over; all of them are equal by default."""

    def __init__(self, *names: str, codes: Sequence[ReasonCode] = (IN_USE,), key_of: KeyOf = lambda _: "same") -> None:
        self.queue = SchedulingQueue(["dovetail"], key_of=key_of)
        self.now = 0.0
        self.add(*names, codes=codes)

    def add(self, *names: str, codes: Sequence[ReasonCode]) -> None:
        for name in names:
            self.queue.offer(pod(name, name, priority=1), self.now)
        self.fail(self.take(), *codes)
        self.now += 5.0

    def take(self, limit: int = 100) -> list[str]:
        return [each.id.name for each in self.queue.take_batch(self.now, limit).pods]

    def fail(self, names: Sequence[str], *codes: ReasonCode) -> None:
        for name in names:
            each = pod(name)
            self.queue.put_back(each.id, each.uid, [Reason(code=code, message="because") for code in codes], self.now)

    def free(self, *devices: str) -> None:
        """Let devices come free."""
        self.queue.wake(became(held(*devices), None))

    def place(self, name: str, device: str) -> Claim:
        """Place a pod, and assume it."""
        self.queue.placed([pod(name).id])
        given = held(device, by=name)
        self.queue.wake(became(claim(name), given))
        return given

    def take_devices(self, *devices: str, by: Pod) -> None:
        """Let a new pod of the queue take devices."""
        self.queue.offer(by, self.now)
        self.queue.wake(became(claim(by.id.name), held(*devices, by=by.id.name)))

"""Devices of new nodes come slice by slice: the attempts on the way cost a gang no backoff."""

from scheduler.backoff import MOST_EARLY, MOST_HINTED_SECONDS, TOGETHER_SECONDS
from scheduler.queue import SchedulingQueue
from scheduler.queue.gangs import QueuedGangs
from solver.domain import Pod, Reason, ReasonCode
from tests.support import builders as b
from tests.support.cluster_builders import became

REASONS = (ReasonCode.GANG_UNPLACED, ReasonCode.DEVICES_NONE)
MEMBERS = tuple(b.member(b.pod(f"p{number}"), "g") for number in range(4))


class Gang:
    """A gang that has failed `failures` times, and waits for devices."""

    def __init__(self, failures: int) -> None:
        self.queue = SchedulingQueue(["dovetail"], gangs=QueuedGangs())
        self.now = 0.0
        for pod in MEMBERS:
            self.queue.offer(pod, 0.0)
        for _ in range(failures):
            self.fail()
            self.now += 400.0

    def fail(self) -> None:
        self.put_back(self.taken())

    def put_back(self, pods: tuple[Pod, ...]) -> None:
        for pod in pods:
            self.queue.put_back(pod.id, pod.uid, [Reason(code=code, message="because") for code in REASONS], self.now)

    def taken(self) -> tuple[Pod, ...]:
        """Take the gang when it is due, which `now` is then."""
        for _ in range(3):  # a hint is due at once, and then a backoff may be left
            due = self.queue.next_due(self.now)
            assert due is not None
            self.now = due
            if found := self.queue.take_batch(self.now, 100).pods:
                return found
        return ()

    def slice_comes(self, number: int) -> None:
        self.queue.wake(became(None, b.gpu_slice(f"n{number}")))

    def attempts(self) -> set[int]:
        return {each.attempts for each in self.queue.pods()}


def test_the_last_of_four_slices_is_tried_half_a_second_later_at_most() -> None:
    gang = Gang(failures=4)  # the next backoff would be eight seconds
    for number in range(4):
        came = gang.now
        gang.slice_comes(number)
        pods = gang.taken()
        assert len(pods) == len(MEMBERS)
        assert gang.now - came <= MOST_HINTED_SECONDS + TOGETHER_SECONDS
        gang.put_back(pods)
        gang.now += 0.05
    assert gang.attempts() == {4}


def test_a_slice_that_comes_while_the_gang_is_decided_is_tried_soon() -> None:
    gang = Gang(failures=4)
    gang.slice_comes(0)
    taken, came = gang.taken(), gang.now
    gang.slice_comes(1)
    gang.put_back(taken)
    assert len(gang.taken()) == len(MEMBERS)
    assert gang.now - came <= MOST_HINTED_SECONDS + TOGETHER_SECONDS


def test_a_driver_that_publishes_without_end_does_not_keep_a_gang_from_backing_off() -> None:
    gang = Gang(failures=1)
    for number in range(MOST_EARLY + 3):
        gang.slice_comes(number)
        gang.fail()
        gang.now += 400.0
    assert gang.attempts() == {4}


def test_other_changes_cost_backoff_as_before() -> None:
    gang = Gang(failures=3)
    gang.queue.wake(became(b.gpu_slice("n0"), b.gpu_slice("n0", count=9)))
    gang.fail()
    assert gang.attempts() == {4}
    failed = gang.now
    gang.queue.wake(became(b.gpu_slice("n0", count=9), b.gpu_slice("n0")))
    gang.taken()
    assert gang.now - failed >= 8.0, "the backoff after the fourth attempt"

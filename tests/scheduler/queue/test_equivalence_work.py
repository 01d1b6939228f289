"""Terms of pods are hashed when the watch shows them, and not while a batch is formed: it may have a thousand."""

import gc
import weakref

import pytest
from msgspec.structs import replace

from scheduler.queue import EquivalenceKeys, SchedulingQueue
from solver.domain import Claim, ClaimId, Pod, Reason, ReasonCode
from tests.support.builders import allocation, claim, pod, request, toleration
from tests.support.cluster_builders import became

WIDE = 50
WAITS = (Reason(code=ReasonCode.NODE_RESOURCES, message="Insufficient cpu"),)


class Text(str):
    """A string of a term that counts how often it is hashed."""

    __slots__ = ("__weakref__",)
    hashed = 0

    def __hash__(self) -> int:
        Text.hashed += 1
        return str.__hash__(self)

    __eq__ = str.__eq__


class Namespace:
    """A queue of equal pods, each with a claim of its own and with wide terms of its own, as the API gives them."""

    def __init__(self) -> None:
        self.claims: dict[ClaimId, Claim] = {}
        keys = EquivalenceKeys(self.claims.get, lambda _: False, lambda _: False)
        self.queue = SchedulingQueue(["dovetail"], key_of=keys.of)

    def offer(self, name: str) -> None:
        self.queue.offer(wide_pod(name), 0.0)
        self.see(wide_claim(name))

    def see(self, new: Claim) -> None:
        before, self.claims[new.id] = self.claims.get(new.id), new
        self.queue.wake(became(before, new))

    def fail(self, now: float) -> int:
        """Take all active pods, and put them back; return how many."""
        taken = self.queue.take_batch(now, 10_000).pods
        for each in taken:
            self.queue.put_back(each.id, each.uid, WAITS, now)
        return len(taken)


def wide_pod(name: str) -> Pod:
    return replace(pod(name, name), tolerations=tuple(toleration(Text(f"k{number}")) for number in range(WIDE)))


def wide_claim(name: str) -> Claim:
    requests = tuple(request(Text(f"r{number}")) for number in range(WIDE))
    return claim(name, *requests, owner_pod_uid=f"uid-default-{name}")


@pytest.fixture
def namespace() -> Namespace:
    waiting = Namespace()
    waiting.offer("first")
    assert waiting.fail(0.0) == 1
    return waiting


@pytest.mark.parametrize("count", [250, 500, 1000])
def test_a_batch_of_equal_pods_without_claims_hashes_none_of_their_terms(count: int) -> None:
    waiting = Namespace()
    waiting.queue.offer(replace(wide_pod("first"), claims=()), 0.0)
    assert waiting.fail(0.0) == 1
    for number in range(count):
        waiting.queue.offer(replace(wide_pod(f"p{number}"), claims=()), 0.1)

    Text.hashed = 0
    assert waiting.fail(0.1) == count
    assert Text.hashed == 0


@pytest.mark.parametrize("count", [250, 500, 1000])
def test_a_batch_of_equal_pods_hashes_none_of_their_terms(namespace: Namespace, count: int) -> None:
    Text.hashed = 0
    for number in range(count):
        namespace.offer(f"p{number}")
    assert 0 < Text.hashed <= count * 2 * WIDE  # each term of a pod and of its claim, once

    Text.hashed = 0
    assert namespace.fail(0.1) == count
    assert Text.hashed == 0
    assert namespace.queue.take_batch(0.2, 10_000).pods == ()


def test_each_version_is_hashed_once_and_one_that_shares_its_terms_not(namespace: Namespace) -> None:
    Text.hashed = 0
    namespace.queue.offer(wide_pod("first"), 0.1)
    assert 0 < Text.hashed <= 2 * WIDE
    Text.hashed = 0
    namespace.see(wide_claim("first"))
    assert 0 < Text.hashed <= WIDE

    Text.hashed = 0
    known = namespace.claims[ClaimId("default", "first")]
    namespace.see(replace(known, allocation=allocation()))
    namespace.see(known)
    assert namespace.fail(10.0) == 1
    assert Text.hashed == 0


def test_an_equal_pod_that_comes_when_all_others_were_offered_again_joins_their_class(namespace: Namespace) -> None:
    for _ in range(2):
        namespace.queue.offer(wide_pod("first"), 0.1)
        namespace.see(wide_claim("first"))
        gc.collect()
        namespace.fail(20.0)
    namespace.offer("second")
    assert namespace.fail(20.0) == 1
    keys = [each.equivalence_class for each in namespace.queue.pods()]
    assert keys[0] is keys[1] is not None


def test_terms_are_forgotten_with_the_last_pod_that_has_them(namespace: Namespace) -> None:
    namespace.offer("second")
    namespace.fail(0.1)
    kept = [weakref.ref(each.pod.tolerations[0].key) for each in namespace.queue.pods()]
    kept += [weakref.ref(each.requests[0].name) for each in namespace.claims.values()]
    for name in ("first", "second"):
        namespace.queue.remove(pod(name).id)
    namespace.claims.clear()
    namespace.queue.take_batch(30.0, 10)
    gc.collect()
    assert [each() for each in kept] == [None] * 4

"""
Every change that is offered starts the pod and what must start with it.

Each is read from its text, made in the cluster, and decided again. Where the text says that other waiting pods may
start first, the pod and its gang are decided alone.
"""

import re
from collections.abc import Callable, Iterable
from typing import NamedTuple

from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from solver import explain_pod, solve
from solver.domain import (
    Batch,
    Claim,
    Gang,
    NearestChange,
    Node,
    Plan,
    Pod,
    Policy,
    Request,
    Snapshot,
    SubRequest,
    Taint,
    Toleration,
)
from tests.support import builders as b
from tests.support import solver_problems as p

ROOT = "resource.kubernetes.io/pcieRoot"
RACK = "example.com/rack"
TAINT = "example.com/broken"
AWAY = "node.kubernetes.io/unreachable"
SLOW = settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large], max_examples=50)
MAY_LOSE = "; other waiting pods may start first"


class World(NamedTuple):
    snapshot: Snapshot
    batch: Batch


@st.composite
def worlds(draw: st.DrawFn) -> World:
    """Two to four nodes with GPUs that running pods hold in part, and pods that wait: single, in a gang, sharing."""
    objects: list[b.SnapshotObject] = [b.gpu_class()]
    running: list[Pod] = []
    for number in range(draw(st.integers(2, 4))):
        name, gpus = f"n{number}", draw(st.integers(0, 4))
        tainted = draw(st.sampled_from((*[()] * 8, (b.taint("example.com/team", "a"),), (b.taint(AWAY),))))
        node = b.node(
            name, cpu=draw(st.integers(1, 6)), labels={RACK: draw(st.sampled_from(("r1", "r2")))}, taints=tainted
        )
        objects.append(replace(node, is_unschedulable=draw(st.integers(0, 5)) == 0))
        broken = draw(st.integers(-3, 3))
        devices = [
            b.device(
                f"gpu-{each}",
                attributes={ROOT: f"root-{each // 2}"},
                taints=(b.taint(TAINT),) if each == broken else (),
            )
            for each in range(gpus)
        ]
        objects += [b.resource_slice(name, *devices)] if devices else []
        left = [each for each in range(gpus) if draw(st.booleans())]
        while left:
            count = draw(st.integers(1, len(left)))
            held, left = left[:count], left[count:]
            user = f"u-{name}-{held[0]}"
            claim = b.held(user, *(b.result("gpu", f"gpu-{each}", name) for each in held), node_name=name)
            objects.append(replace(claim, reserved_for=(b.consumer(user),)))
            pod = b.pod(user, user, cpu=draw(st.integers(0, 1)), node_name=name, priority=5)
            running.append(b.member(pod, f"old-{draw(st.integers(0, 1))}") if draw(st.integers(0, 2)) == 0 else pod)
    pods, gangs = draw(waiting(objects))
    return World(b.snapshot(objects, running), b.batch(*pods, gangs=gangs))


@st.composite
def waiting(draw: st.DrawFn, objects: list[b.SnapshotObject]) -> tuple[list[Pod], list[Gang]]:
    pods: list[Pod] = []
    gangs: list[Gang] = []
    for unit in range(draw(st.integers(1, 3))):
        kind = draw(st.sampled_from(("single", "gang", "sharing")))
        size = 1 if kind == "single" else draw(st.integers(2, 3))
        cpu, count = draw(st.integers(0, 3)), draw(st.integers(1, 4))
        constraints = (b.match(ROOT),) if draw(st.integers(0, 2)) == 0 else ()
        selector = {RACK: draw(st.sampled_from(("r1", "r2", "r22")))} if draw(st.integers(0, 3)) == 0 else {}
        priority = draw(st.integers(0, 1))
        for number in range(size):
            name = f"p{unit}-{number}"
            claim = f"p{unit}" if kind == "sharing" else name
            if kind != "sharing" or number == 0:
                objects.append(b.claim(claim, b.request("r", count=count), constraints=constraints))
            pod = b.pod(name, claim, cpu=cpu, priority=priority, node_selector=selector)
            pods.append(b.member(pod, f"g{unit}") if kind == "gang" else pod)
        if kind == "gang":
            levels = (b.by_label(RACK),) if draw(st.booleans()) else ()
            gangs.append(b.gang(f"g{unit}", draw(st.integers(1, size)), *levels))
    return pods, gangs


def changed_pods(world: World, pod: Pod, change: Callable[[Pod], Pod]) -> World:
    """Change a pod, and all pods of its gang: they have one template."""
    members = {each.id for each in world.batch.pods if each.id == pod.id or (pod.gang and each.gang == pod.gang)}
    pods = tuple(change(each) if each.id in members else each for each in world.batch.pods)
    return world._replace(batch=replace(world.batch, pods=pods))


def changed_claims(world: World, pod: Pod, change: Callable[[Claim], Claim]) -> World:
    members = [each for each in world.batch.pods if each.id == pod.id or (pod.gang and each.gang == pod.gang)]
    own = {claim for each in members for claim in each.claim_ids}
    claims = tuple(change(each) if each.id in own else each for each in world.snapshot.claims)
    return world._replace(snapshot=replace(world.snapshot, claims=claims))


def changed_nodes(world: World, names: Iterable[str], change: Callable[[Node], Node]) -> World:
    nodes = tuple(change(each) if each.name in names else each for each in world.snapshot.nodes)
    return world._replace(snapshot=replace(world.snapshot, nodes=nodes))


def ended(world: World, names: list[str]) -> World:
    """End pods and gangs of these names: their claims are free."""
    snapshot = world.snapshot
    gone = [
        pod
        for pod in snapshot.pods
        if str(pod.id) in names or (pod.gang and f"{pod.gang.namespace}/{pod.gang.name}" in names)
    ]
    assert gone, names
    uids = {pod.uid for pod in gone}
    claims = tuple(
        replace(each, allocation=None, reserved_for=()) if {one.uid for one in each.reserved_for} & uids else each
        for each in snapshot.claims
    )
    pods = tuple(pod for pod in snapshot.pods if pod.uid not in uids)
    return world._replace(snapshot=replace(snapshot, pods=pods, claims=claims))


def with_count(claim: Claim, count: int) -> Claim:
    return asking(claim, lambda each: replace(each, count=count))


def asking(claim: Claim, change: Callable[[SubRequest], SubRequest]) -> Claim:
    def of_request(request: Request) -> Request:
        return replace(request, alternatives=tuple(map(change, request.alternatives)))

    return replace(claim, requests=tuple(map(of_request, claim.requests)))


def taint_of(text: str) -> Taint:
    pair, _, effect = text.rpartition(":")
    key, _, value = pair.partition("=")
    return Taint(key=key, value=value, effect=effect)


def tolerated(text: str) -> Toleration:
    taint = taint_of(text)
    return Toleration(key=taint.key, operator="Exists", effect=taint.effect)


def room(world: World, node: str, resource: str, needed: str, left: str) -> World:
    lacking = b.whole(resource, needed) - b.whole(resource, left)

    def larger(each: Node) -> Node:
        has = dict(each.allocatable)
        return replace(each, allocatable=tuple(sorted({**has, resource: has.get(resource, 0) + lacking}.items())))

    return changed_nodes(world, [node], larger)


def uncordoned(node: Node) -> Node:
    return replace(node, is_unschedulable=False)


def returned(node: Node) -> Node:
    return replace(node, taints=tuple(each for each in node.taints if each.key != AWAY))


def selecting(pod: Pod, old: str, new: str) -> Pod:
    pairs = {key: value for key, value in pod.node_selector if f"{key}={value}" != old}
    key, _, value = new.partition("=")
    return replace(pod, node_selector=tuple(sorted((pairs | ({key: value} if key else {})).items())))


def _tolerate_devices(world: World, pod: Pod, taint: str) -> World:
    added = tolerated(taint)
    return changed_claims(
        world, pod, lambda claim: asking(claim, lambda each: replace(each, tolerations=(*each.tolerations, added)))
    )


def _tolerate_nodes(world: World, pod: Pod, taint: str) -> World:
    added = tolerated(taint)
    return changed_pods(world, pod, lambda each: replace(each, tolerations=(*each.tolerations, added)))


MAKERS: dict[str, Callable[..., World]] = {
    r"\d+ more free devices?(?: under one .*?)?, now held by (.*)": lambda w, _, names: ended(w, names.split(", ")),
    r"when (.*?) ends?(?:: .*)?": lambda world, _, names: ended(world, names.split(", ")),
    r"tolerate the device taint (\S+) in the request: .*": _tolerate_devices,
    r"(\d+) instead of \d+ for request r: in a new claim.*": lambda world, pod, count: changed_claims(
        world, pod, lambda claim: with_count(claim, int(count))
    ),
    r"without the same \S+: in a new claim.*": lambda world, pod: changed_claims(
        world, pod, lambda claim: replace(claim, constraints=())
    ),
    r"tolerate taint (\S+) of the node": _tolerate_nodes,
    r"uncordon nodes? (.*)": lambda world, _, names: changed_nodes(world, names.split(", "), uncordoned),
    r"get nodes? (.*) ready again": lambda world, _, names: changed_nodes(world, names.split(", "), returned),
    r"(\S+) instead of (\S+) in its nodeSelector": lambda world, pod, new, old: changed_pods(
        world, pod, lambda each: selecting(each, old, new)
    ),
    r"without (\S+) in its nodeSelector": lambda world, pod, old: changed_pods(
        world, pod, lambda each: selecting(each, old, "")
    ),
    r"without its nodeSelector and node affinity": lambda world, pod: changed_pods(
        world, pod, lambda each: replace(each, node_selector=())
    ),
}
"""How each kind of change is made from what its text names."""
ROOM = r"room for (\S+) on the node \((\S+) needed, (\S+) left\)"


def made(world: World, pod: Pod, change: NearestChange) -> World | None:
    """Make a change as its message says; None for one that does not name all pods."""
    message = change.message.removesuffix(MAY_LOSE)
    if re.search(r" and \d+ more", message):
        return None
    if found := re.fullmatch(ROOM, message):
        return room(world, change.node, *found.groups())
    known = ((re.fullmatch(pattern, message), make) for pattern, make in MAKERS.items())
    found, make = next(((match, make) for match, make in known if match), (None, None))
    assert found is not None, message
    assert make is not None
    event(found.re.pattern)
    return make(world, pod, *found.groups())


def decided(world: World) -> Plan:
    return solve(world.snapshot, world.batch, Policy(), p.PATIENT)


def starts(plan: Plan, world: World, pod: Pod) -> bool:
    """Whether a pod starts, or its gang without it: of more pods than the minimum, others may be chosen."""
    placed = {each.pod for each in plan.placements}
    members = [each.id for each in world.batch.pods if pod.gang is not None and each.gang == pod.gang]
    return pod.id in placed or not placed.isdisjoint(members)


def alone(world: World, pod: Pod) -> World:
    pods = tuple(each for each in world.batch.pods if each.id == pod.id or (pod.gang and each.gang == pod.gang))
    return world._replace(batch=Batch(pods=pods, gangs=world.batch.gangs_of(pods)))


@SLOW
@given(world=worlds())
def test_each_offered_change_starts_the_pod(world: World) -> None:
    plan = decided(world)
    placed = {each.pod for each in plan.placements}
    for pod in world.batch.pods:
        if pod.id in placed:
            continue
        for change in explain_pod(world.snapshot, world.batch, pod, Policy(), p.PATIENT).changes:
            then = made(world, pod, change)
            if then is None:
                continue
            asked = alone(then, pod) if change.message.endswith(MAY_LOSE) else then
            assert starts(decided(asked), asked, pod), (pod.id, change)


@SLOW
@given(world=worlds())
def test_each_hinted_count_starts_the_pod(world: World) -> None:
    for each in decided(world).unplaced:
        pod = next(one for one in world.batch.pods if one.id == each.pod)
        for reason in each.reasons:
            found = re.search(r"hint: (\d+) of \d+ would fit now", reason.message)
            if found:
                then = changed_claims(world, pod, lambda claim, count=int(found[1]): with_count(claim, count))  # type: ignore[misc]
                assert starts(decided(then), then, pod), (pod.id, reason.message)


@SLOW
@given(world=worlds())
def test_a_gang_starts_when_what_it_waits_for_has_ended(world: World) -> None:
    plan = decided(world)
    placed = {each.pod for each in plan.placements}
    for each in plan.unplaced:
        pod = next(one for one in world.batch.pods if one.id == each.pod)
        for reason in each.reasons:
            found = re.search(r"it can start when (?:gang |pod )?(.*?) ends?(?::|;|$)", reason.message)
            if found and " more" not in found[1]:
                event("named")
                then = ended(world, found[1].split(", "))
                pods = tuple(one for one in then.batch.pods if one.id in placed or one.gang == pod.gang)
                asked = then._replace(batch=Batch(pods=pods, gangs=then.batch.gangs_of(pods)))
                assert starts(decided(asked), asked, pod), (pod.id, reason.message)


def test_with_a_device_comes_the_cpu_of_the_pod_that_holds_it() -> None:
    """The pod needs a device alone, the one before it also the cpu that comes free when its holder ends."""
    holder = b.held("holder", b.result("gpu", "gpu-0", "n0"), node_name="n0")
    running = b.pod("holder", "holder", cpu=1, node_name="n0", priority=5)
    claims = (b.claim(name, b.request("r")) for name in ("first", "second"))
    held = replace(holder, reserved_for=(b.consumer("holder"),))
    node = b.node("n0", cpu=1)
    snapshot = b.snapshot([b.gpu_class(), node, b.resource_slice("n0", b.device("gpu-0")), held, *claims], [running])
    first, second = b.pod("first", "first", cpu=1), b.pod("second", "second")
    found = explain_pod(snapshot, b.batch(first, second), second, Policy(), p.PATIENT).changes
    assert [each.message for each in found] == [f"1 more free device, now held by default/holder{MAY_LOSE}"]

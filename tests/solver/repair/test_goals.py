"""What is wrong with a fleet: waiting pods, failed devices, nodes that go, scattered devices."""

from msgspec.structs import replace

from solver.domain import (
    SUSPECT_TAINT,
    Batch,
    DeviceId,
    DeviceTaintRule,
    GoalKind,
    PodId,
    RepairGoal,
    RepairTargets,
    Snapshot,
    Taint,
    UnhealthyDevice,
)
from solver.repair.goals import goal_of_devices, goal_of_nodes, goal_of_pods, goals_of
from tests.support import builders as b
from tests.support.repair_cases import POLICY, fleet, gang, gang_id, holder, member, moved, plan, waiting_gang

NO_BATCH = Batch(pods=())
TARGETS = RepairTargets(maintenance_taints=("example.com/maintenance",))


def rule(name: str, node: str, device: str, *, key: str = "broken", effect: str = "NoSchedule") -> DeviceTaintRule:
    taint = Taint(key=key, value="", effect=effect)
    return DeviceTaintRule(name=name, taint=taint, driver=b.GPU_DRIVER, pool=node, device=device)


def found(snapshot: Snapshot, batch: Batch = NO_BATCH, targets: RepairTargets = TARGETS) -> list[RepairGoal]:
    return list(goals_of(snapshot, batch, POLICY, targets))


def leavers(goals: list[RepairGoal]) -> list[tuple[str, list[str]]]:
    return [(goal.subject, [pod.name for pod in goal.leaving]) for goal in goals]


def test_a_whole_fleet_has_no_goal() -> None:
    assert found(b.snapshot(*fleet(2, 2, holder("a", "n0", "gpu-0")))) == []


def test_waiting_pods_of_one_priority_are_one_goal_and_then_goals_of_their_own() -> None:
    pods, claims = waiting_gang("g", 2, 1)
    high = b.pod("high", priority=5)
    batch = Batch(pods=(high, *pods, b.pod("single")), gangs=(gang("g", 2),))

    goals = found(b.snapshot(*fleet(1, 1), claims), batch)

    assert [goal.subject for goal in goals] == [
        "pod default/high",
        "2 waiting pods and gangs of priority 0",
        "gang default/g",
        "pod default/single",
    ]
    assert {goal.kind for goal in goals} == {GoalKind.WAITING}
    assert [len(goal.wanted.pods) for goal in goals] == [1, 3, 2, 1]


def test_waiting_pods_of_a_group_that_ties_nothing_are_goals_of_their_own() -> None:
    pods, claims = waiting_gang("g", 2, 1)

    goals = found(b.snapshot(*fleet(1, 1), claims), Batch(pods=tuple(pods), gangs=(gang("g", 2, minimum=0),)))

    assert [goal.subject for goal in goals] == [
        "2 waiting pods and gangs of priority 0",
        "pod default/g-0",
        "pod default/g-1",
    ]


def test_tainted_suspect_and_unhealthy_devices_are_left() -> None:
    held = [holder(name, "n0", f"gpu-{number}", owner=name) for number, name in enumerate(("a", "c", "d", "e"))]
    report = UnhealthyDevice(entry="c-d", request="", resource_id="")
    held[2] = replace(held[2][0], unhealthy=(report,)), held[2][1]
    snapshot = b.snapshot(*fleet(1, 5, *held))
    rules = (rule("one", "n0", "gpu-0"), rule("two", "n0", "gpu-1", key=SUSPECT_TAINT, effect="None"))

    goals = found(replace(snapshot, taint_rules=rules))

    assert leavers(goals) == [("pod default/a", ["a"]), ("pod default/c", ["c"]), ("pod default/d", ["d"])]
    assert [sorted(device.device for device in goal.devices) for goal in goals] == [["gpu-0", "gpu-1", "gpu-2"]] * 3
    assert "gpu-0: it has the taint broken:NoSchedule" in goals[0].value


def test_a_tolerated_taint_and_other_effects_harm_nobody() -> None:
    pod, claim = holder("a", "n0", "gpu-0")
    assert claim.allocation is not None
    results = tuple(replace(each, tolerations=(b.toleration("broken"),)) for each in claim.allocation.results)
    tolerated = replace(claim, allocation=replace(claim.allocation, results=results))
    snapshot = b.snapshot(*fleet(1, 1, (pod, tolerated)))

    assert found(replace(snapshot, taint_rules=(rule("one", "n0", "gpu-0"),))) == []
    other = (rule("one", "n0", "gpu-0", key="note", effect="None"), rule("two", "n1", "gpu-0", key="x"))
    assert found(replace(b.snapshot(*fleet(1, 1, holder("a", "n0", "gpu-0"))), taint_rules=other)) == []


def test_of_a_gang_only_the_member_on_the_failed_device_leaves() -> None:
    held = [member(f"m{number}", f"n{number}", "gpu-0") for number in range(2)]
    snapshot = replace(b.snapshot(*fleet(3, 1, *held)), gangs=(gang("g", 2, running_count=2),))
    snapshot = replace(snapshot, taint_rules=(rule("one", "n1", "gpu-0"),))

    (goal,) = found(snapshot)
    members = [pod for pod in snapshot.pods if pod.gang == gang_id("g")]

    assert leavers([goal]) == [("gang default/g", ["m1"])]
    assert goal_of_pods(snapshot, NO_BATCH, members, "gang default/g") == goal
    assert moved(plan(snapshot, goal)) == ["m1"]


def test_a_device_that_is_to_go_is_left_by_all_its_pods_and_taken_by_none() -> None:
    """The report names the pod of another scheduler; the next device of the node failed, so no pod comes to it."""
    held = [holder("a", "n0", "gpu-0"), holder("c", "n0", "gpu-2"), holder("d", "n1", "gpu-1")]
    snapshot = b.snapshot(*fleet(2, 3, *held))
    foreign = replace(snapshot.pods[0], id=PodId("default", "x"), uid="x", scheduler_name="default-scheduler")
    snapshot = replace(snapshot, pods=(*snapshot.pods, foreign), taint_rules=(rule("one", "n1", "gpu-1"),))
    going = DeviceId("gpu.example.com", "n0", "gpu-0")

    goal = goal_of_devices(snapshot, [going], "device n0/gpu-0")

    assert goal.kind is GoalKind.DEVICES
    assert [pod.name for pod in goal.leaving] == ["a", "x"]
    assert goal.devices == (going, DeviceId("gpu.example.com", "n1", "gpu-1"))
    relocation = plan(snapshot, replace(goal, leaving=goal.leaving[:1]))
    assert moved(relocation) == ["a"]
    taken = {result.device for move in relocation.moves for _, each in move.allocations for result in each.results}
    assert taken
    assert not taken & set(goal.devices)
    nothing = goal_of_devices(snapshot, [DeviceId("gpu.example.com", "n1", "gpu-2")], "device n1/gpu-2")
    assert (nothing.leaving, nothing.devices) == ((), ())


def test_cordoned_nodes_and_those_with_a_maintenance_taint_are_emptied() -> None:
    daemon = replace(holder("daemon", "n0", "gpu-1")[0], claims=())
    assert daemon.controller is not None
    daemon = replace(daemon, controller=replace(daemon.controller, kind="DaemonSet"))
    snapshot = b.snapshot(*fleet(4, 2, holder("a", "n0", "gpu-0"), holder("c", "n1", "gpu-0")), daemon)
    taints = (Taint(key="example.com/maintenance", value="tonight", effect="PreferNoSchedule"),)
    nodes = {
        "n0": replace(snapshot.nodes[0], is_unschedulable=True),
        "n1": replace(snapshot.nodes[1], taints=taints),
        "n2": replace(snapshot.nodes[2], is_unschedulable=True),
    }
    snapshot = replace(snapshot, nodes=tuple(nodes.get(node.name, node) for node in snapshot.nodes))

    goals = found(snapshot)

    assert leavers(goals) == [("node n0", ["a"]), ("node n1", ["c"])]
    assert "it has the taint example.com/maintenance=tonight:PreferNoSchedule" in goals[1].value
    assert plan(snapshot, goals[1]).moves[0].target == "n3"
    both = goal_of_nodes(snapshot, ("n1", "n0"), POLICY, "domain x=y")
    assert (both.nodes, moved(plan(snapshot, both))) == (("n0", "n1"), ["a", "c"])


def test_scattered_devices_are_brought_together_for_the_typical_request() -> None:
    """Two devices are asked for at a time, and each of three nodes has one left."""
    held = [holder(f"p{number}", f"n{number}", "gpu-0") for number in range(3)]
    wanted = b.claim("typical", b.request(count=2))
    snapshot = b.snapshot(*fleet(3, 2, *held), wanted)

    (goal,) = found(snapshot, targets=RepairTargets(most_fragmentation=0.2))

    assert (goal.kind, goal.subject) == (GoalKind.FRAGMENTATION, "2 devices of class gpu on one node")
    assert len(plan(snapshot, goal).moves) == 1
    assert found(snapshot, targets=RepairTargets(most_fragmentation=0.9)) == []
    assert found(b.snapshot(*fleet(3, 2, *held[:2]), wanted), targets=RepairTargets(most_fragmentation=0.2)) == []

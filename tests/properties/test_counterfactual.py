"""Whatever happens in the real cluster, the counterfactual one keeps every rule and forgets what has left it."""

from typing import NamedTuple

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from solver.domain import Snapshot
from tests.support import builders as b
from tests.support.cluster_builders import gone, seen
from tests.support.observed_scene import ObservedScene

NODES, DEVICES = 2, 2
NAMES = ("p0", "p1")  # few, so that steps meet
WORDS = (*("create", "bind", "decide") * 3, "end", "delete", "lose node", "add node")


class Step(NamedTuple):
    word: str
    pod: str
    number: int
    seconds: int


STEP = st.builds(Step, st.sampled_from(WORDS), st.sampled_from(NAMES), st.integers(1, 3), st.integers(0, 20))


def taken(scene: ObservedScene, step: Step, now: float, uid: str) -> None:
    """Let a step happen where it can."""
    node, pod = f"n{step.number % NODES}", scene.pods.get(step.pod)
    if step.word == "create" and pod is None:
        scene.create(now, b.pod(step.pod, uid=uid, priority=step.number), gpus=step.number)
    elif step.word == "bind" and pod is not None and not pod.node_name:
        scene.bind(now, step.pod, node, *free_devices(scene, node)[: step.number])
    elif step.word == "end" and pod is not None and pod.node_name:
        scene.end(now, step.pod)
    elif step.word == "delete" and pod is not None:
        scene.delete(now, step.pod)
    elif step.word == "lose node":
        scene.compared.apply(gone(b.node(node)), now)
    elif step.word == "add node":
        scene.compared.apply(seen(b.node(node)), now)
    elif step.word == "decide":
        scene.decide(now)  # checks the plan independently


def free_devices(scene: ObservedScene, node: str) -> list[str]:
    """Return what no claim really holds of a node."""
    found = (each.allocation.results for each in scene.claims.values() if each.allocation is not None)
    held = {result.device for results in found for result in results}
    return [name for name in (f"gpu-{each}" for each in range(DEVICES)) if b.device_id(name, node) not in held]


def check(scene: ObservedScene) -> None:
    """Each device has one holder, and each placed pod its claims."""
    assert [holders for holders in scene.held.values() if len(holders) > 1] == []
    cluster = scene.compared.counterfactual.cluster
    assert cluster.contested_devices() == ()
    for life in scene.compared.counterfactual.lives:
        for key in life.claims:
            claim = cluster.claim(key)
            assert claim is not None
            assert claim.allocation is not None


@given(before=st.lists(STEP, max_size=10), after=st.lists(STEP, min_size=10, max_size=40))
@settings(max_examples=100, suppress_health_check=[HealthCheck.too_slow])
def test_the_counterfactual_cluster_keeps_every_rule_and_forgets_what_has_left(
    before: list[Step], after: list[Step]
) -> None:
    scene = ObservedScene(NODES, DEVICES)
    now = 0.0
    for number, step in enumerate(each for each in before if each.word != "decide"):
        now += step.seconds
        taken(scene, step, now, f"uid-{number}")
    scene.begin(now)
    check_start(scene)
    for number, step in enumerate(after, len(before)):
        now += step.seconds
        taken(scene, step, now, f"uid-{number}")
        check(scene)
    for name in tuple(scene.pods):
        scene.delete(now, name)
    for each in range(NODES):
        scene.compared.apply(seen(b.node(f"n{each}")), now)
    for _ in range(8):  # one after the other, where they do not fit together
        scene.decide(now)
        now += 1e6
    scene.decide(now)
    left = [life.pod.id.name for life in scene.compared.counterfactual.lives]
    asked = {each.id.name: each.requests[0].alternatives[0].count for each in snapshot(scene).claims}
    assert {asked[name] for name in left} <= {DEVICES + 1}  # they fit nowhere, and wait
    assert {each.id.name for each in snapshot(scene).pods} == set()
    assert set(asked) == set(left)


def snapshot(scene: ObservedScene) -> Snapshot:
    return scene.compared.counterfactual.cluster.snapshot()


def check_start(scene: ObservedScene) -> None:
    """What really runs at the start holds what it really holds, also where two hold one device."""
    really = {name for name, pod in scene.pods.items() if pod.node_name}
    assert {life.pod.id.name for life in scene.compared.counterfactual.lives if life.node} == really

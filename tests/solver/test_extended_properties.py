"""Extended resources in small random clusters: every plan is right, and no better one exists."""

from itertools import product

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from solver import solve, solve_greedily, verify
from solver.domain import Budget, ContainerRequests, Node, Pod, Policy, ResourceSlice
from tests.support import builders as b
from tests.support.extended_builders import RESOURCE, container, gpu_class, init, pod, sidecar

IMPLICIT = f"deviceclass.resource.kubernetes.io/{b.GPU_CLASS}"
COUNTS = st.integers(0, 2)


@st.composite
def _containers(draw: st.DrawFn) -> tuple[ContainerRequests, ...]:
    makers = draw(st.lists(st.sampled_from((init, sidecar)), max_size=3))
    before = [make(f"i{index}", gpu=draw(COUNTS)) for index, make in enumerate(makers)]
    lasting = [container(f"c{index}", gpu=draw(COUNTS)) for index in range(draw(st.integers(1, 2)))]
    return (*before, *lasting)


@st.composite
def _pods(draw: st.DrawFn) -> list[Pod]:
    resources = st.sampled_from((RESOURCE, RESOURCE, IMPLICIT))
    return [
        pod(f"p{index}", *draw(_containers()), resource=draw(resources)) for index in range(draw(st.integers(1, 4)))
    ]


@st.composite
def _nodes(draw: st.DrawFn) -> list[tuple[Node, int]]:
    """Nodes, some of which offer the resource themselves, each with so many devices."""
    return [
        (b.node(f"n{index}", extended={RESOURCE: draw(st.integers(0, 3))}), draw(st.integers(0, 3)))
        for index in range(draw(st.integers(1, 3)))
    ]


def _slices(nodes: list[tuple[Node, int]]) -> list[ResourceSlice]:
    return [b.gpu_slice(each.name, count=count) for each, count in nodes if count]


def _most(nodes: list[tuple[Node, int]], pods: list[Pod], policy: Policy) -> int:
    """How many pods fit at most: plugins and devices of every node are two rooms, and one of them serves a resource."""
    places = range(-1, len(nodes))
    best = 0
    for where in product(places, repeat=len(pods)):
        plugin = [dict(node.allocatable)[RESOURCE] for node, _ in nodes]
        devices = [count for _, count in nodes]
        offered = [amount > 0 for amount in plugin]
        for each, at in zip(pods, where, strict=True):
            for resource, amount in each.requests if at >= 0 else ():
                if resource == RESOURCE and offered[at]:
                    plugin[at] -= amount
                elif offered[at] and amount and not policy.allocates_where_plugins_serve:
                    devices[at] = -1
                else:
                    devices[at] -= amount
        if min(*plugin, *devices) >= 0:
            best = max(best, sum(at >= 0 for at in where))
    return best


@settings(max_examples=80, suppress_health_check=[HealthCheck.too_slow])
@given(_nodes(), _pods(), st.booleans().map(lambda allows: Policy(allocates_where_plugins_serve=allows)))
def test_as_many_pods_are_placed_as_possible_and_every_rule_holds(
    nodes: list[tuple[Node, int]], pods: list[Pod], policy: Policy
) -> None:
    snapshot = b.snapshot(*(each for each, _ in nodes), *_slices(nodes), gpu_class())
    batch = b.batch(*pods)

    found = solve(snapshot, batch, policy, Budget(seconds=60.0))
    greedy = solve_greedily(snapshot, batch, policy, Budget(seconds=60.0))

    assert verify.check(snapshot, batch, found, policy) == ()
    assert verify.check(snapshot, batch, greedy, policy) == ()
    assert len(found.placements) == _most(nodes, pods, policy)
    assert all(each.reasons for each in found.unplaced)

"""Small clusters whose pods have rules about each other, generated."""

from typing import NamedTuple

from hypothesis import strategies as st

from solver.domain import (
    Batch,
    HostPort,
    LabelRequirement,
    LabelSelector,
    Namespace,
    Node,
    Pod,
    PodAffinityTerm,
    Snapshot,
    TopologySpreadConstraint,
)
from tests.support import builders as b
from tests.support.neighbour_builders import HOST, ZONE, neighbour, selector, zoned

APPS = ("web", "db")
SPACES = (b.NAMESPACE, "lab")


class Neighbourhood(NamedTuple):
    """A cluster and what is to be placed."""

    snapshot: Snapshot
    batch: Batch


@st.composite
def selectors(draw: st.DrawFn) -> LabelSelector | None:
    kind = draw(st.sampled_from(("app", "app", "app", "app", "not", "exists", "all", "none")))
    app = draw(st.sampled_from(APPS))
    match kind:
        case "app":
            return selector(app=app)
        case "not":
            return selector(LabelRequirement(key="app", operator="NotIn", values=(app,)))
        case "exists":
            return selector(LabelRequirement(key="tier", operator="Exists"))
        case "all":
            return selector()
        case _:
            return None


@st.composite
def terms(draw: st.DrawFn) -> PodAffinityTerm:
    by_label = draw(st.sampled_from((None, None, None, selector(team="x"), selector())))
    names = draw(st.sampled_from((("default",), ("default",), ("lab",), ("default", "lab"))))
    return PodAffinityTerm(
        topology_key=draw(st.sampled_from((HOST, ZONE, ZONE, "rack"))),
        selector=draw(selectors()),
        namespaces=() if by_label is not None else names,
        namespace_selector=by_label,
    )


@st.composite
def constraints(draw: st.DrawFn) -> TopologySpreadConstraint:
    return TopologySpreadConstraint(
        topology_key=draw(st.sampled_from((HOST, ZONE, ZONE, "rack"))),
        max_skew=draw(st.integers(1, 2)),
        is_required=draw(st.sampled_from((True, True, True, False))),
        selector=draw(selectors()),
        min_domains=draw(st.sampled_from((1, 1, 2, 3))),
        honours_affinity=draw(st.booleans()),
        honours_taints=draw(st.booleans()),
    )


def ports() -> st.SearchStrategy[HostPort]:
    return st.builds(
        HostPort,
        address=st.sampled_from(("0.0.0.0", "10.0.0.1", "10.0.0.2")),
        protocol=st.sampled_from(("TCP", "TCP", "UDP")),
        port=st.integers(80, 81),
    )


def some(strategy: st.SearchStrategy[object], most: int = 1) -> st.SearchStrategy[list[object]]:
    """None more often than not."""
    return st.one_of(st.just([]), st.lists(strategy, min_size=1, max_size=most), st.just([]))


@st.composite
def nodes(draw: st.DrawFn) -> tuple[Node, ...]:
    found = []
    for index in range(draw(st.integers(2, 4))):
        made = zoned(f"n{index}", draw(st.sampled_from(("a", "b", "b", ""))), cpu=draw(st.integers(1, 3)))
        if draw(st.booleans()):
            labels = (*made.labels, ("rack", draw(st.sampled_from("12"))))
            made = b.node(
                made.name,
                cpu=draw(st.integers(1, 3)),
                labels=dict(labels),
                taints=[b.taint("keep-off")] if draw(st.integers(0, 4)) == 0 else [],
            )
        found.append(made)
    return tuple(found)


@st.composite
def pods(draw: st.DrawFn, name: str, *, on: str = "", claim: str = "") -> Pod:
    return neighbour(
        name,
        *([claim] if claim else []),
        app=draw(st.sampled_from(("", *APPS, "web"))),
        on=on,
        namespace=draw(st.sampled_from((*SPACES, b.NAMESPACE))) if not claim else b.NAMESPACE,
        cpu=draw(st.integers(0, 1)),
        priority=draw(st.sampled_from((0, 0, 1))),
        ports=draw(some(ports(), 2)),  # type: ignore[arg-type]
        affinity=draw(some(terms(), 2)),  # type: ignore[arg-type]
        anti_affinity=draw(some(terms(), 2)),  # type: ignore[arg-type]
        spread=draw(some(constraints(), 2)),  # type: ignore[arg-type]
        node_selector=draw(st.sampled_from((None, None, None, {ZONE: "b"}))),
        is_deleting=bool(on) and draw(st.integers(0, 3)) == 0,
        **({"tier": "x"} if draw(st.booleans()) else {}),
    )


@st.composite
def neighbourhoods(draw: st.DrawFn, *, with_devices: bool = False, most_pods: int = 5) -> Neighbourhood:
    """2–4 nodes in up to two zones, up to three running pods and up to five that wait."""
    cluster = draw(nodes())
    names = [node.name for node in cluster]
    running = [draw(pods(f"old{i}", on=draw(st.sampled_from(names)))) for i in range(draw(st.integers(0, 3)))]
    waiting = []
    objects: list[object] = []
    if with_devices:
        objects += [b.gpu_class(), *(b.gpu_slice(name, count=draw(st.integers(0, 2))) for name in names)]
    alike = draw(st.booleans())
    first: Pod | None = None
    for index in range(draw(st.integers(1, most_pods))):
        claim = f"c{index}" if with_devices and draw(st.booleans()) else ""
        if claim:
            objects.append(b.claim(claim, b.request("gpus", count=draw(st.integers(1, 2)))))
        made = draw(pods(f"p{index}", claim=claim))
        if alike and first is not None and draw(st.booleans()):
            made = neighbour(
                made.id.name,
                *([claim] if claim else []),
                namespace=first.id.namespace if not claim else b.NAMESPACE,
                ports=first.host_ports,
                affinity=first.affinity,
                anti_affinity=first.anti_affinity,
                spread=first.spread,
                **dict(first.labels),  # type: ignore[arg-type]
            )
        first = first or made
        waiting.append(made)
    spaces = (Namespace(name="default"), Namespace(name="lab", labels=(("team", "x"),)))
    return Neighbourhood(b.snapshot(cluster, spaces, running, objects), Batch(pods=tuple(waiting)))  # type: ignore[arg-type]

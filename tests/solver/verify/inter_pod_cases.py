"""A valid plan with every kind of rule between pods, and what breaks each of them."""

from collections.abc import Callable

from msgspec.structs import replace

from solver.domain import EVERY_PORT, Namespace
from solver.verify import Rule
from tests.solver.verify import cases as c
from tests.support import builders as b
from tests.support.neighbour_builders import HOST, ZONE, neighbour, port, requirement, selector, spread, term, zoned

WEB = spread(app="web")


def company() -> c.Case:
    """
    Two zones, n1 in a, n2 and n3 in b, n4 without one; `db` runs on n2 and `loner`, which wants no noise, on n1.

    `web-0` and `web-1` keep apart by node and spread over the zones, `client` goes to `db`, `mate-0` and `mate-1` go
    together though none of them runs yet, and `server` takes a port of n1.
    """
    web = {"app": "web", "anti_affinity": [term(HOST, app="web")], "spread": [WEB]}
    mate = {"app": "mate", "affinity": [term(ZONE, app="mate")]}
    pods = {
        "web-0": (neighbour("web-0", **web), "n1"),  # type: ignore[arg-type]
        "web-1": (neighbour("web-1", **web), "n2"),  # type: ignore[arg-type]
        "client": (neighbour("client", affinity=[term(ZONE, app="db")]), "n3"),
        "mate-0": (neighbour("mate-0", **mate), "n2"),  # type: ignore[arg-type]
        "mate-1": (neighbour("mate-1", **mate), "n3"),  # type: ignore[arg-type]
        "server": (neighbour("server", ports=[port(80)]), "n1"),
    }
    return c.Case(
        b.snapshot(
            zoned("n1", "a"),
            zoned("n2", "b"),
            zoned("n3", "b"),
            zoned("n4"),
            Namespace(name="default"),
            Namespace(name="lab", labels=(("team", "x"),)),
            neighbour("db", app="db", on="n2", ports=[port(90, "10.0.0.1")]),
            neighbour("loner", on="n1", anti_affinity=[term(ZONE, app="noise")]),
            neighbour("stranger", app="web", on="n3", namespace="lab"),
        ),
        b.batch(*(pod for pod, _ in pods.values())),
        b.plan(*(b.placement(pod, node) for pod, node in pods.values())),
    )


def labelled(name: str, **labels: str) -> c.Change:
    return c.pod(name, labels=tuple(sorted(labels.items())))


def relabelled(node: str, **labels: str) -> c.Change:
    return c.node(node, labels=tuple(sorted(labels.items())))


def _unmatched(operator: str) -> c.Change:
    """Let the client want pods by a requirement that no pod in its zone meets."""
    wanted = requirement("app", operator, "db", "web", "mate") if operator == "NotIn" else requirement("gone", operator)
    return c.pod("client", affinity=(term(ZONE, wanted, requirement("app", "Exists")),))


def _bound(name: str, **changes: object) -> c.Change:
    return c.pod(name, spread=(replace(WEB, **changes),))


AFFINITY, ANTI, SPREAD = {Rule.POD_AFFINITY}, {Rule.POD_ANTI_AFFINITY}, {Rule.TOPOLOGY_SPREAD}

BROKEN: tuple[tuple[str, Callable[[], c.Case], c.Change, set[Rule]], ...] = (
    ("two pods take one port", company, c.pod("web-0", host_ports=(port(80),)), {Rule.NODE_PORTS}),
    ("a pod takes a running one's port", company, c.pod("web-1", host_ports=(port(90),)), {Rule.NODE_PORTS}),
    ("a running one's ports are not known", company, c.running("loner", host_ports=(EVERY_PORT,)), {Rule.NODE_PORTS}),
    (
        "a pod takes a port on an address where another has it on every one",
        company,
        c.pod("web-0", host_ports=(port(80, "10.0.0.1"),)),
        {Rule.NODE_PORTS},
    ),
    (
        "two pods that keep apart share a node",
        company,
        c.both(c.placement("web-1", node="n1"), c.pod("web-0", spread=()), c.pod("web-1", spread=())),
        ANTI,
    ),
    (
        "only one of two keeps apart",
        company,
        c.both(c.placement("web-1", node="n1"), c.pod("web-0", spread=(), anti_affinity=()), c.pod("web-1", spread=())),
        ANTI,
    ),
    ("a pod keeps apart from a running one", company, c.pod("client", anti_affinity=(term(ZONE, app="db"),)), ANTI),
    ("a running one keeps apart from a pod", company, labelled("server", app="noise"), ANTI),
    (
        "a pod keeps apart from one of a namespace that its term selects",
        company,
        c.pod("client", anti_affinity=(term(HOST, namespaces=[], of=selector(team="x"), app="web"),)),
        ANTI,
    ),
    (
        "a pod keeps apart from one of any namespace",
        company,
        c.pod("client", anti_affinity=(term(HOST, namespaces=[], of=selector(), app="web"),)),
        ANTI,
    ),
    ("no pod is there that a pod wants to be with", company, c.placement("client", node="n1"), AFFINITY),
    ("the company has gone", company, c.removed("pods", "db"), AFFINITY),
    (
        "the company is in another namespace",
        company,
        c.pod("client", affinity=(term(ZONE, app="db", namespaces=["lab"]),)),
        AFFINITY,
    ),
    ("the node lacks the label of the term", company, c.placement("client", node="n4"), AFFINITY),
    ("there are two first ones", company, c.placement("mate-1", node="n1"), AFFINITY),
    (
        "there is a first one although company runs elsewhere",
        company,
        c.running("loner", labels=(("app", "mate"),)),
        AFFINITY,
    ),
    (
        "the first ones are not what they want",
        company,
        c.both(labelled("mate-0", app="x"), labelled("mate-1", app="x")),
        AFFINITY,
    ),
    (
        "no pod is what all terms want",
        company,
        c.pod("client", affinity=(term(ZONE, app="db"), term(ZONE, app="web"))),
        AFFINITY,
    ),
    ("a term excludes the value of every pod there", company, _unmatched("NotIn"), AFFINITY),
    ("a term wants a label that no pod has", company, _unmatched("Exists"), AFFINITY),
    (
        "a term without a selector wants no pod",
        company,
        c.pod("client", affinity=(replace(term(ZONE), selector=None),)),
        AFFINITY,
    ),
    (
        "a zone has two more than the other",
        company,
        c.both(c.placement("web-0", node="n3"), c.pod("web-0", anti_affinity=()), c.pod("web-1", anti_affinity=())),
        SPREAD,
    ),
    (
        "two running pods are too many",
        company,
        c.added(neighbour("old-0", app="web", on="n3"), neighbour("old-1", app="web", on="n3")),
        SPREAD,
    ),
    ("a node without the label", company, c.both(c.placement("web-0", node="n4")), SPREAD),
    (
        "there are too few zones",
        company,
        c.both(_bound("web-1", min_domains=3), c.added(neighbour("old", app="web", on="n3"))),
        SPREAD,
    ),
    (
        "a zone that the pod cannot use counts",
        company,
        c.both(
            c.pod("web-0", spread=(), node_selector=()),
            _bound("web-1", honours_affinity=False),
            c.pod("web-1", node_selector=((ZONE, "b"),), spread=(replace(WEB, honours_affinity=False),)),
            c.placement("web-0", node="n3"),
        ),
        SPREAD,
    ),
    (
        "a tainted zone counts",
        company,
        c.both(
            c.node("n1", taints=(b.taint("gone"),)), c.placement("server", node="n3"), c.placement("web-0", node="n3")
        ),
        SPREAD,
    ),
)

KEPT: tuple[tuple[str, c.Change], ...] = (
    ("as it is", c.both()),
    ("a running pod that counts within the skew", c.added(neighbour("old", app="web", on="n3"))),
    (
        "one port on other addresses",
        c.both(c.pod("web-0", host_ports=(port(80, "10.0.0.1"),)), c.pod("server", host_ports=(port(80, "10.0.0.2"),))),
    ),
    ("one port of other protocols", c.pod("web-0", host_ports=(port(80, protocol="UDP"),))),
    ("keeping apart by a label that the node lacks", c.both(c.pod("client", anti_affinity=(term("rack", app="db"),)))),
    (
        "a pod that is leaving does not count",
        c.added(neighbour("old-0", app="web", on="n3", is_deleting=True), neighbour("old-1", app="web", on="n3")),
    ),
    (
        "a soft constraint",
        c.both(c.placement("web-0", node="n3"), _bound("web-0", is_required=False), _bound("web-1", is_required=False)),
    ),
    ("more skew", c.both(c.placement("web-0", node="n3"), _bound("web-0", max_skew=2), _bound("web-1", max_skew=2))),
    (
        "a zone that the pod cannot use does not count",
        c.both(
            c.pod("web-0", spread=()), c.pod("web-1", node_selector=((ZONE, "b"),)), c.placement("web-0", node="n3")
        ),
    ),
    (
        "a tainted zone does not count where taints are honoured",
        c.both(
            c.node("n1", taints=(b.taint("gone"),)),
            c.placement("server", node="n3"),
            c.placement("web-0", node="n3"),
            _bound("web-0", honours_taints=True),
            _bound("web-1", honours_taints=True),
        ),
    ),
    (
        "a selector for everything counts no pod",
        c.both(
            c.placement("web-0", node="n3"), _bound("web-0", selector=selector()), _bound("web-1", selector=selector())
        ),
    ),
    (
        "the first ones may go where their own company is in the batch",
        c.both(labelled("client", app="mate"), c.placement("client", node="n3")),
    ),
)

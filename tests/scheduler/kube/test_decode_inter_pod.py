from typing import Any

import pytest

from scheduler.change import Kind
from scheduler.kube.decode.objects import decode, read
from solver.domain import (
    ALL_POD_SLOTS,
    EVERY_PORT,
    HostPort,
    LabelRequirement,
    LabelSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    Pod,
    PodAffinityTerm,
    TopologySpreadConstraint,
    WeightedPodAffinityTerm,
)
from tests.support.kube_objects import container, encoded, pod

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
WEB = {"matchLabels": {"app": "web"}}
IS_WEB = LabelRequirement(key="app", operator="In", values=("web",))


def decoded(**fields: Any) -> Pod:
    found = decode(Kind.PODS, encoded(pod(**fields)))
    assert isinstance(found, Pod)
    assert not found.invalid
    return found


def anti(*terms: dict[str, Any], labels: dict[str, str] | None = None) -> tuple[PodAffinityTerm, ...]:
    return decoded(affinity={"podAntiAffinity": {REQUIRED: terms}}, meta={"labels": labels or {}}).anti_affinity


def test_host_ports_of_all_that_keeps_running_are_read() -> None:
    found = decoded(
        initContainers=[
            {"name": "once", "ports": [{"containerPort": 1, "hostPort": 1}]},
            {"name": "side", "restartPolicy": "Always", "ports": [{"containerPort": 2, "hostPort": 2}]},
        ],
        containers=[
            {
                "name": "a",
                "ports": [
                    {"containerPort": 80, "hostPort": 80, "hostIP": "10.0.0.1", "protocol": "UDP"},
                    {"containerPort": 81},
                    {"containerPort": 2, "hostPort": 2, "hostIP": "0.0.0.0", "protocol": "TCP"},
                ],
            }
        ],
    )

    assert found.host_ports == (HostPort(port=2), HostPort(address="10.0.0.1", protocol="UDP", port=80))


def test_terms_name_their_pods_namespace_where_they_name_none() -> None:
    by_label = {"matchLabels": {"team": "x"}}
    found = anti(
        {"topologyKey": "zone", "labelSelector": WEB},
        {"topologyKey": "zone", "labelSelector": WEB, "namespaces": ["a", "b"]},
        {"topologyKey": "zone", "labelSelector": WEB, "namespaceSelector": by_label},
        {"topologyKey": "zone", "labelSelector": {}, "namespaceSelector": {}},
        {"topologyKey": "zone"},
    )

    web = LabelSelector(requirements=(IS_WEB,))
    team = LabelSelector(requirements=(LabelRequirement(key="team", operator="In", values=("x",)),))
    assert found == (
        PodAffinityTerm(topology_key="zone", selector=web, namespaces=("ml",)),
        PodAffinityTerm(topology_key="zone", selector=web, namespaces=("a", "b")),
        PodAffinityTerm(topology_key="zone", selector=web, namespace_selector=team),
        PodAffinityTerm(topology_key="zone", selector=LabelSelector(), namespace_selector=LabelSelector()),
        PodAffinityTerm(topology_key="zone", selector=None, namespaces=("ml",)),
    )


def test_label_keys_are_merged_where_the_server_has_not_done_so() -> None:
    keys = {"matchLabelKeys": ["hash", "gone"], "mismatchLabelKeys": ["tenant"]}
    labels = {"hash": "1", "tenant": "t"}
    done = {
        **WEB,
        "matchExpressions": [
            {"key": "hash", "operator": "In", "values": ["0"]},
            {"key": "tenant", "operator": "NotIn", "values": ["t"]},
        ],
    }

    (plain,) = anti({"topologyKey": "zone", "labelSelector": WEB, **keys}, labels=labels)
    (merged,) = anti({"topologyKey": "zone", "labelSelector": done, **keys}, labels=labels)
    (absent,) = anti({"topologyKey": "zone", **keys}, labels=labels)

    tenant = LabelRequirement(key="tenant", operator="NotIn", values=("t",))
    own = LabelRequirement(key="hash", operator="In", values=("1",))
    then = LabelRequirement(key="hash", operator="In", values=("0",))
    assert plain.selector == LabelSelector(requirements=(IS_WEB, own, tenant))
    assert merged.selector == LabelSelector(requirements=(IS_WEB, then, tenant))  # what the pod had when it was made
    assert absent.selector is None


def test_what_is_only_preferred_has_its_weight() -> None:
    term = {"topologyKey": "zone", "labelSelector": WEB}
    wanted = {"matchExpressions": [{"key": "disk", "operator": "In", "values": ["ssd"]}]}
    found = decoded(
        affinity={
            "podAffinity": {PREFERRED: [{"weight": 5, "podAffinityTerm": term}]},
            "podAntiAffinity": {PREFERRED: [{"weight": 7, "podAffinityTerm": term}]},
            "nodeAffinity": {PREFERRED: [{"weight": 9, "preference": wanted}]},
        }
    )

    read = PodAffinityTerm(topology_key="zone", selector=LabelSelector(requirements=(IS_WEB,)), namespaces=("ml",))
    ssd = NodeSelectorRequirement(key="disk", operator="In", values=("ssd",))
    assert found.preferred_affinity == (WeightedPodAffinityTerm(weight=5, term=read),)
    assert found.preferred_anti_affinity == (WeightedPodAffinityTerm(weight=7, term=read),)
    assert found.preferred_node_affinity == ((9, NodeSelectorTerm(match_expressions=(ssd,))),)
    assert found.affinity == found.anti_affinity == ()


@pytest.mark.parametrize(
    ("wire", "read"),
    [
        pytest.param({}, TopologySpreadConstraint(topology_key="zone", max_skew=2), id="defaults"),
        pytest.param(
            {"whenUnsatisfiable": "ScheduleAnyway"},
            TopologySpreadConstraint(topology_key="zone", max_skew=2, is_required=False),
            id="soft",
        ),
        pytest.param(
            {"minDomains": 3, "nodeAffinityPolicy": "Ignore", "nodeTaintsPolicy": "Honor", "labelSelector": WEB},
            TopologySpreadConstraint(
                topology_key="zone",
                max_skew=2,
                selector=LabelSelector(requirements=(IS_WEB,)),
                min_domains=3,
                honours_affinity=False,
                honours_taints=True,
            ),
            id="everything",
        ),
        pytest.param(
            {"labelSelector": {}, "matchLabelKeys": ["hash", "gone"]},
            TopologySpreadConstraint(
                topology_key="zone",
                max_skew=2,
                selector=LabelSelector(requirements=(LabelRequirement(key="hash", operator="In", values=("1",)),)),
            ),
            id="label keys",
        ),
    ],
)
def test_spread_constraints(wire: dict[str, Any], read: TopologySpreadConstraint) -> None:
    constraint = {"topologyKey": "zone", "maxSkew": 2, "whenUnsatisfiable": "DoNotSchedule", **wire}

    assert decoded(topologySpreadConstraints=[constraint], meta={"labels": {"hash": "1"}}).spread == (read,)


# Limits


def many(count: int, **term: Any) -> list[dict[str, Any]]:
    return [{"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": f"a{i}"}}, **term} for i in range(count)]


def wide(count: int) -> list[dict[str, Any]]:
    return [{"key": f"k{i}", "operator": "DoesNotExist"} for i in range(count)]


OWN_BOUND = "use at most 64 terms with 1000 of these together"
WIDE_BOUND = "use at most 16 terms about other namespaces with 128 of these together"
TOO_MANY = [
    pytest.param(many(65), "65 terms with 195", OWN_BOUND, id="own terms"),
    pytest.param(
        many(1, labelSelector={"matchExpressions": wide(1000)}), "1 terms with 1001", OWN_BOUND, id="own parts"
    ),
    pytest.param(
        many(17, namespaces=["other"]), "17 terms about other namespaces with 51", WIDE_BOUND, id="wide terms"
    ),
    pytest.param(many(1, namespaces=[f"n{i}" for i in range(127)]), "with 129", WIDE_BOUND, id="namespaces"),
    pytest.param(many(1, namespaceSelector={"matchExpressions": wide(127)}), "with 129", WIDE_BOUND, id="wide parts"),
]


@pytest.mark.parametrize("kind", ["podAffinity", "podAntiAffinity"])
@pytest.mark.parametrize(("terms", "given", "bound"), TOO_MANY)
def test_more_required_terms_than_can_be_looked_at_are_refused_with_what_to_write(
    kind: str, terms: list[dict[str, Any]], given: str, bound: str
) -> None:
    found = decode(Kind.PODS, encoded(pod(affinity={kind: {REQUIRED: terms}})))
    assert isinstance(found, Pod)
    assert found.invalid.startswith(f"spec.affinity.{kind}.{REQUIRED}: ")
    assert given in found.invalid
    assert bound in found.invalid


def test_terms_that_name_their_own_namespace_are_no_wide_ones() -> None:
    assert len(anti(*many(20, namespaces=["ml", "ml"]))) == 20


def test_more_spread_constraints_than_can_be_looked_at_are_refused_with_what_to_write() -> None:
    given = [{"topologyKey": f"k{i}", "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"} for i in range(65)]
    found = decode(Kind.PODS, encoded(pod(topologySpreadConstraints=given)))
    assert isinstance(found, Pod)
    assert "spec.topologySpreadConstraints: 65 constraints" in found.invalid


EVERYTHING = LabelSelector()
OWN = PodAffinityTerm(topology_key="zone", selector=EVERYTHING, namespaces=("ml",))
EVERY = PodAffinityTerm(topology_key="zone", selector=EVERYTHING, namespace_selector=EVERYTHING)


def seated(*terms: dict[str, Any]) -> tuple[PodAffinityTerm, ...]:
    return decoded(nodeName="n1", affinity={"podAntiAffinity": {REQUIRED: terms}}).anti_affinity


def test_a_seated_pod_of_more_anti_affinity_than_can_be_looked_at_keeps_every_pod_away_that_it_may_mean() -> None:
    assert seated(*many(64)) != (OWN,)
    assert seated(*many(65)) == (OWN,)
    assert seated(*many(65), *many(17, namespaces=["other"])) == (OWN, EVERY)
    assert seated(*many(1, namespaceSelector={"matchExpressions": wide(127)})) == (EVERY,)
    assert len(seated(*(many(1, topologyKey=f"k{i}")[0] for i in range(500)))) == 64


def test_of_anti_affinity_of_a_seated_pod_to_other_namespaces_less_can_be_looked_at() -> None:
    assert EVERY not in seated(*many(16, namespaces=["other"]), *many(64))
    found = seated(*many(17, namespaces=["other"]), *many(40))
    assert (found[-1], len(found)) == (EVERY, 41)
    assert len(seated(*(many(1, namespaceSelector={}, topologyKey=f"k{i}")[0] for i in range(60)))) == 16


def test_a_seated_pod_that_cannot_be_read_elsewhere_keeps_every_pod_away_too() -> None:
    spec: dict[str, Any] = {
        "nodeName": "n1",
        "affinity": {"podAntiAffinity": {REQUIRED: many(65)}},
        "topologySpreadConstraints": 5,
    }
    found = decode(Kind.PODS, encoded(pod(**spec)))
    assert isinstance(found, Pod)
    assert found.invalid
    assert found.anti_affinity == (OWN,)


def preferred(*weighted: tuple[int, dict[str, Any]]) -> tuple[WeightedPodAffinityTerm, ...]:
    terms = [{"weight": weight, "podAffinityTerm": each} for weight, each in weighted]
    return decoded(affinity={"podAffinity": {PREFERRED: terms}}).preferred_affinity


def sized(parts: int, **term: Any) -> dict[str, Any]:
    return {"topologyKey": "zone", "labelSelector": {"matchExpressions": wide(parts)}, **term}


def test_of_more_preferences_than_can_be_looked_at_the_heaviest_count() -> None:
    found = preferred(*((1 + i % 100, each) for i, each in enumerate(many(200))))
    assert (len(found), min(each.weight for each in found)) == (64, 69)


def test_of_preferences_with_more_parts_than_can_be_looked_at_the_heaviest_that_fit_count() -> None:
    found = preferred(*((1 + i, sized(31)) for i in range(40)))
    assert [each.weight for each in found] == list(range(10, 41))  # 31 times 32, with the namespace, are 992
    assert [each.weight for each in preferred((9, sized(1000)), (8, sized(1)))] == [8]


def test_preferences_about_other_namespaces_have_a_bound_of_their_own() -> None:
    found = preferred((9, sized(900)), *((1 + i, sized(40, namespaceSelector={})) for i in range(4)))
    assert [each.weight for each in found] == [9, 2, 3, 4]


def ports(count: int) -> dict[str, Any]:
    return container("a") | {"ports": [{"containerPort": 1 + i, "hostPort": 1 + i} for i in range(count)]}


def test_more_host_ports_than_can_be_looked_at_are_refused_with_what_to_write() -> None:
    assert len(decoded(containers=[ports(256)]).host_ports) == 256

    waiting = decode(Kind.PODS, encoded(pod(containers=[ports(257)])))
    assert isinstance(waiting, Pod)
    assert waiting.invalid == ("spec.containers.ports: 257 host ports are above the limit: use at most 256")
    assert waiting.host_ports == ()


def test_a_seated_pod_of_more_host_ports_than_can_be_looked_at_takes_every_port_of_its_node() -> None:
    waiting = read(Kind.PODS, encoded(pod(containers=[ports(257)]))).value
    for last in (None, waiting):
        found = read(Kind.PODS, encoded(pod(containers=[ports(257)], nodeName="n1")), last).value
        assert isinstance(found, Pod)
        assert found.host_ports == (EVERY_PORT,)
        assert found.requests == ()


def test_what_was_not_readable_before_a_pod_had_a_node_counts_as_the_most_once_it_has_one() -> None:
    odd = [container("a", memory="much")]
    waiting = read(Kind.PODS, encoded(pod(containers=odd))).value
    found = read(Kind.PODS, encoded(pod(containers=odd, nodeName="n1")), waiting).value
    assert isinstance(found, Pod)
    assert found.requests == ALL_POD_SLOTS
    assert not found.is_preemptible

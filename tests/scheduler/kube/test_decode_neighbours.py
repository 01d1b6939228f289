from typing import Any

import pytest

from scheduler.change import Kind
from scheduler.kube.decode.objects import decode
from solver.domain import (
    HostPort,
    LabelRequirement,
    LabelSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
    Pod,
    PodTerm,
    SpreadConstraint,
    WeightedPodTerm,
)
from tests.support.kube_objects import encoded, pod

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
WEB = {"matchLabels": {"app": "web"}}
IS_WEB = LabelRequirement(key="app", operator="In", values=("web",))


def decoded(**fields: Any) -> Pod:
    found = decode(Kind.PODS, encoded(pod(**fields)))
    assert isinstance(found, Pod)
    assert not found.invalid
    return found


def anti(*terms: dict[str, Any], labels: dict[str, str] | None = None) -> tuple[PodTerm, ...]:
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
        PodTerm(topology_key="zone", selector=web, namespaces=("ml",)),
        PodTerm(topology_key="zone", selector=web, namespaces=("a", "b")),
        PodTerm(topology_key="zone", selector=web, namespace_selector=team),
        PodTerm(topology_key="zone", selector=LabelSelector(), namespace_selector=LabelSelector()),
        PodTerm(topology_key="zone", selector=None, namespaces=("ml",)),
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

    read = PodTerm(topology_key="zone", selector=LabelSelector(requirements=(IS_WEB,)), namespaces=("ml",))
    ssd = NodeSelectorRequirement(key="disk", operator="In", values=("ssd",))
    assert found.preferred_affinity == (WeightedPodTerm(weight=5, term=read),)
    assert found.preferred_anti_affinity == (WeightedPodTerm(weight=7, term=read),)
    assert found.preferred_node_affinity == ((9, NodeSelectorTerm(match_expressions=(ssd,))),)
    assert found.affinity == found.anti_affinity == ()


@pytest.mark.parametrize(
    ("wire", "read"),
    [
        pytest.param({}, SpreadConstraint(topology_key="zone", max_skew=2), id="defaults"),
        pytest.param(
            {"whenUnsatisfiable": "ScheduleAnyway"},
            SpreadConstraint(topology_key="zone", max_skew=2, is_required=False),
            id="soft",
        ),
        pytest.param(
            {"minDomains": 3, "nodeAffinityPolicy": "Ignore", "nodeTaintsPolicy": "Honor", "labelSelector": WEB},
            SpreadConstraint(
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
            SpreadConstraint(
                topology_key="zone",
                max_skew=2,
                selector=LabelSelector(requirements=(LabelRequirement(key="hash", operator="In", values=("1",)),)),
            ),
            id="label keys",
        ),
    ],
)
def test_spread_constraints(wire: dict[str, Any], read: SpreadConstraint) -> None:
    constraint = {"topologyKey": "zone", "maxSkew": 2, "whenUnsatisfiable": "DoNotSchedule", **wire}

    assert decoded(topologySpreadConstraints=[constraint], meta={"labels": {"hash": "1"}}).spread == (read,)


# More than can be looked at for every pod


def many(count: int, **term: Any) -> list[dict[str, Any]]:
    return [{"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": f"a{i}"}}, **term} for i in range(count)]


@pytest.mark.parametrize("terms", [many(65), many(1, namespaces=[f"n{i}" for i in range(1000)])])
def test_more_required_affinity_than_can_be_looked_at_is_refused_with_what_to_write(
    terms: list[dict[str, Any]],
) -> None:
    found = decode(Kind.PODS, encoded(pod(affinity={"podAffinity": {REQUIRED: terms}})))
    assert isinstance(found, Pod)
    assert f"spec.affinity.podAffinity.{REQUIRED}: {len(terms)} terms with" in found.invalid
    assert "use at most 64 terms with 1000 of these together" in found.invalid


def test_more_spread_constraints_than_can_be_looked_at_are_refused_with_what_to_write() -> None:
    given = [{"topologyKey": f"k{i}", "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"} for i in range(65)]
    found = decode(Kind.PODS, encoded(pod(topologySpreadConstraints=given)))
    assert isinstance(found, Pod)
    assert "spec.topologySpreadConstraints: 65 constraints" in found.invalid


def test_more_anti_affinity_than_can_be_looked_at_keeps_every_pod_away_that_it_may_mean() -> None:
    everything = LabelSelector()
    own = PodTerm(topology_key="zone", selector=everything, namespaces=("ml",))
    every = PodTerm(topology_key="zone", selector=everything, namespace_selector=everything)
    assert anti(*many(64)) != (own,)
    assert anti(*many(65)) == (own,)
    assert anti(*many(65), *many(1, namespaces=["other"])) == (own, every)
    assert anti(*many(1, namespaceSelector={"matchExpressions": wide(1000)})) == (every,)
    assert len(anti(*(many(1, topologyKey=f"k{i}")[0] for i in range(500)))) == 64


def test_of_anti_affinity_to_other_namespaces_less_can_be_looked_at() -> None:
    everything = LabelSelector()
    every = PodTerm(topology_key="zone", selector=everything, namespace_selector=everything)
    assert every not in anti(*many(16, namespaces=["other"]), *many(40))
    found = anti(*many(17, namespaces=["other"]), *many(40))
    assert (found[-1], len(found)) == (every, 41)
    assert len(anti(*(many(1, namespaceSelector={}, topologyKey=f"k{i}")[0] for i in range(60)))) == 16


def wide(count: int) -> list[dict[str, Any]]:
    return [{"key": f"k{i}", "operator": "DoesNotExist"} for i in range(count)]


def test_of_more_preferences_than_can_be_looked_at_the_heaviest_count() -> None:
    weighted = [{"weight": 1 + i % 100, "podAffinityTerm": each} for i, each in enumerate(many(200))]
    found = decoded(affinity={"podAffinity": {PREFERRED: weighted}}).preferred_affinity
    assert (len(found), min(each.weight for each in found)) == (16, 93)

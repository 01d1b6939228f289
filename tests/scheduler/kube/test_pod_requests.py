from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.change import Kind
from scheduler.kube.decode.objects import decode
from scheduler.kube.decode.pod_requests import Amounts, ContainerAmounts, PodAmounts, total
from solver.domain import ContainerRequests, Pod
from tests.support.kube_objects import container, encoded, pod
from tests.support.work import counted


def decoded(**spec: Any) -> Pod:
    found = decode(Kind.PODS, encoded(pod(**spec)))
    assert isinstance(found, Pod)
    assert not found.invalid
    return found


def requests_of(**spec: Any) -> dict[str, int]:
    return dict(decoded(**spec).requests)


INIT = "initContainers"
GPUS: dict[str, Any] = {"example.com/gpu": "2"}
ODD: dict[str, Any] = {"hugepages-2Mi": "4Mi", "storage": "1Gi", "pods": "1", "example.com/x": "0"}
SIDECAR: dict[str, Any] = {"sidecar": True}


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        pytest.param({}, {}, id="nothing asked for"),
        pytest.param(
            {"containers": [container("a", cpu="250m", memory="1Gi"), container("b", cpu="1", memory="512Mi")]},
            {"cpu": 1250, "memory": 1610612736},
            id="containers add up",
        ),
        pytest.param({"containers": [container("a", cpu="1n")]}, {"cpu": 1}, id="cpu is rounded up to a millicore"),
        pytest.param(
            {"containers": [container("a", cpu="500u"), container("b", cpu="500u")]},
            {"cpu": 1},
            id="rounded once, after the sum",
        ),
        pytest.param({"containers": [container("a", memory="1500m")]}, {"memory": 2}, id="bytes are rounded up"),
        pytest.param({"containers": [container("a", cpu="1e-100")]}, {"cpu": 1}, id="however little is a millicore"),
        pytest.param(
            {"containers": [container("a", memory="1e66", cpu="1e30"), container("b", memory="1Gi")]},
            {"cpu": 2**63 - 1, "memory": 2**63 - 1},
            id="more than 64 bits hold is more than any node has",
        ),
        pytest.param(
            {"nodeName": "n1", "containers": [container("a", memory="1e66", cpu="1e30"), container("b", memory="1Gi")]},
            {"memory": 2**30},
            id="no kubelet counts what 64 bits do not hold",
        ),
        pytest.param(
            {"containers": [container("a", cpu="1")], INIT: [container("i", cpu="3", memory="1Gi")]},
            {"cpu": 3000, "memory": 2**30},
            id="an init container is a maximum",
        ),
        pytest.param(
            {"containers": [container("a", cpu="2")], INIT: [container("i", cpu="1"), container("j", cpu="1")]},
            {"cpu": 2000},
            id="init containers run one after the other",
        ),
        pytest.param(
            {"containers": [container("a", cpu="2")], INIT: [container("s", cpu="1", **SIDECAR)]},
            {"cpu": 3000},
            id="a sidecar runs beside the containers",
        ),
        pytest.param(
            {
                "containers": [container("a", cpu="1")],
                INIT: [container("s", cpu="2", **SIDECAR), container("i", cpu="3")],
            },
            {"cpu": 5000},
            id="a sidecar runs beside the init containers after it",
        ),
        pytest.param(
            {
                "containers": [container("a", cpu="1")],
                INIT: [container("i", cpu="3"), container("s", cpu="2", **SIDECAR)],
            },
            {"cpu": 3000},
            id="a sidecar does not run beside the init containers before it",
        ),
        pytest.param(
            {"containers": [container("a", cpu="1")], "overhead": {"cpu": "250m", "memory": "64Mi"}},
            {"cpu": 1250, "memory": 64 * 2**20},
            id="overhead comes on top",
        ),
        pytest.param(
            {
                "containers": [container("a", cpu="1", memory="1Gi", **GPUS)],
                "resources": {"requests": {"cpu": "4", "example.com/gpu": "7"}},
                "overhead": {"cpu": "1"},
            },
            {"cpu": 5000, "memory": 2**30, "example.com/gpu": 2},
            id="pod level replaces cpu, memory and huge pages only",
        ),
        pytest.param(
            {
                "containers": [container("a", **ODD)],
                "resources": {"requests": {"hugepages-2Mi": "8Mi"}},
            },
            {"hugepages-2Mi": 8 * 2**20},
            id="what no node counts and zeros are left out",
        ),
    ],
)
def test_requests_add_up_as_kube_scheduler_does(spec: dict[str, Any], expected: dict[str, int]) -> None:
    assert requests_of(**spec) == expected


def resized(actual: str, allocated: str, *, name: str = "a") -> dict[str, Any]:
    return {"name": name, "resources": {"requests": {"cpu": actual}}, "allocatedResources": {"cpu": allocated}}


@pytest.mark.parametrize(
    ("status", "cpu"),
    [
        pytest.param({"containerStatuses": [resized("3", "2")]}, 3000, id="what is in force is larger"),
        pytest.param({"containerStatuses": [resized("1", "4")]}, 4000, id="what is admitted is larger"),
        pytest.param({"containerStatuses": [resized("500m", "500m")]}, 2000, id="the wish is larger"),
        pytest.param(
            {
                "containerStatuses": [resized("500m", "1")],
                "conditions": [{"type": "PodResizePending", "reason": "Infeasible"}],
            },
            1000,
            id="a wish that the node refused does not count",
        ),
        pytest.param(
            {
                "containerStatuses": [resized("500m", "1")],
                "conditions": [{"type": "PodResizePending", "reason": "Deferred"}],
            },
            2000,
            id="a wish that has to wait counts",
        ),
        pytest.param(
            {"containerStatuses": [{"name": "a", "allocatedResources": {"cpu": "9"}}]}, 2000, id="no report yet"
        ),
        pytest.param({"containerStatuses": [resized("9", "9", name="other")]}, 2000, id="another container's report"),
    ],
)
def test_a_resize_in_place_counts_the_largest_of_wish_report_and_admission(status: dict[str, Any], cpu: int) -> None:
    assert requests_of(containers=[container("a", cpu="2")], status=status) == {"cpu": cpu}


GI = {"memory": 2**30}


@pytest.mark.parametrize(
    ("spec", "status"),
    [
        pytest.param({INIT: [container("i", memory="1e66")]}, {}, id="init container"),
        pytest.param({INIT: [container("s", memory="1e66", **SIDECAR)]}, {}, id="sidecar"),
        pytest.param({INIT: [container("i", memory="16Ei")]}, {}, id="just beyond"),
        pytest.param({INIT: [container("i", cpu="1e17")]}, {}, id="cpu is read in millicores"),
        pytest.param({"overhead": {"memory": "1e66"}}, {}, id="overhead"),
        pytest.param({"resources": {"requests": {"memory": "1e66"}}}, {}, id="pod level"),
        pytest.param({}, {"containerStatuses": ["1e66", "1Gi"]}, id="in force"),
        pytest.param({}, {"containerStatuses": ["1Gi", "1e66"]}, id="admitted"),
        pytest.param({}, {"nodeAllocatableResourceClaimStatuses": [{"resources": {"memory": "1e66"}}]}, id="claim"),
        pytest.param(
            {INIT: [container("s", memory="7Ei", **SIDECAR), container("t", memory="7Ei", **SIDECAR)]}, {}, id="sum"
        ),
    ],
)
def test_what_no_kubelet_counts_of_a_seated_pod_hides_nothing_else_of_it(
    spec: dict[str, Any], status: dict[str, Any]
) -> None:
    spec = {"nodeName": "n1", "containers": [container("a", memory="1Gi")], **spec}
    reported = status.get("containerStatuses")
    if reported:
        actual, allocated = ({"memory": each} for each in reported)
        status = {
            "containerStatuses": [{"name": "a", "resources": {"requests": actual}, "allocatedResources": allocated}]
        }

    assert requests_of(**spec, status=status) == GI


def test_a_resize_of_a_plain_init_container_does_not_count() -> None:
    status = {"initContainerStatuses": [resized("9", "9", name="i")]}
    assert requests_of(initContainers=[container("i", cpu="2")], status=status) == {"cpu": 2000}


def test_a_resize_of_a_sidecar_counts() -> None:
    status = {"initContainerStatuses": [resized("9", "9", name="i")]}
    assert requests_of(initContainers=[container("i", sidecar=True, cpu="2")], status=status) == {"cpu": 9000}


def test_a_resize_at_pod_level_counts() -> None:
    status = {"resources": {"requests": {"cpu": "6"}}, "allocatedResources": {"cpu": "5"}}
    assert requests_of(resources={"requests": {"cpu": "4"}}, status=status) == {"cpu": 6000}


def test_node_allocatable_claims_come_on_top_of_the_containers() -> None:
    status = {"nodeAllocatableResourceClaimStatuses": [{"resourceClaimName": "c", "resources": {"cpu": "2"}}]}
    assert requests_of(containers=[container("a", cpu="1")], nodeName="n1", status=status) == {"cpu": 3000}


def test_overhead_of_claims_comes_on_top_once_for_the_pod_and_for_each_container_that_uses_them() -> None:
    claim = {
        "resourceClaimName": "c",
        "containers": ["a", "b"],
        "mapping": [{"name": "cpu", "quantity": "2"}],
        "overhead": [{"name": "cpu", "perPod": "1", "perContainer": "250m"}, {"name": "memory", "perContainer": "1Mi"}],
    }
    other = {"resourceClaimName": "d", "overhead": [{"name": "cpu", "perPod": "5", "perContainer": "100"}]}
    found = requests_of(
        containers=[container("a", cpu="1")],
        nodeName="n1",
        status={"nodeAllocatableResourceClaimStatuses": [claim, other]},
    )
    assert found == {"cpu": 9500, "memory": 2 << 20}


def test_what_an_earlier_attempt_left_in_the_status_of_a_pod_without_a_node_does_not_count() -> None:
    status = {"nodeAllocatableResourceClaimStatuses": [{"resourceClaimName": "c", "resources": {"cpu": "2"}}]}
    assert requests_of(containers=[container("a", cpu="1")], status=status) == {"cpu": 1000}


def test_pod_level_requests_leave_room_for_claims() -> None:
    found = decoded(
        containers=[container("a", cpu="1", memory="1Gi")],
        resources={"requests": {"cpu": "3"}},
        resourceClaims=[{"name": "c", "resourceClaimName": "c"}],
    )
    assert (found.level_slack, dict(found.requests)["cpu"]) == ((("cpu", 2000),), 3000)


def test_pod_level_limits_leave_room_for_the_claims_of_a_container() -> None:
    """Not of init containers, and not of huge pages, whose requests are their limits."""
    limited = container("a", cpu="1", memory="1Gi")
    limited["resources"] |= {"limits": {"cpu": "1", "memory": "1Gi", "hugepages-2Mi": "2Mi", "example.com/x": "1"}}
    level = {"limits": {"cpu": "2500m", "hugepages-2Mi": "4Mi", "memory": "1Gi"}, "requests": {"cpu": "1"}}
    found = decoded(
        containers=[limited, container("b", cpu="1")],
        initContainers=[{**limited, "name": "init"}],
        resources=level,
        resourceClaims=[{"name": "c", "resourceClaimName": "c"}],
    )
    slack = {each.name: each.limit_slack for each in found.containers}
    assert slack == {"init": (), "a": (("cpu", 1500), ("memory", 0)), "b": ()}


def test_each_container_has_its_own_requests_init_containers_first() -> None:
    found = decoded(
        containers=[container("main", cpu="1")],
        initContainers=[container("side", sidecar=True, memory="1Ki"), container("init")],
    )
    assert found.containers == (
        ContainerRequests(name="side", requests=(("memory", 1024),), is_init=True, is_sidecar=True),
        ContainerRequests(name="init", is_init=True),
        ContainerRequests(name="main", requests=(("cpu", 1000),)),
    )


def slow_total(containers: list[Amounts], init: list[tuple[Amounts, bool]]) -> Amounts:
    """Sum up each step of a pod whole: its containers with all sidecars, and each init container with those before."""
    sidecars: list[Amounts] = []
    steps: list[list[Amounts]] = []
    for amounts, is_sidecar in init:
        steps.append([*sidecars, amounts])
        sidecars += [amounts] if is_sidecar else []
    steps.append([*containers, *sidecars])
    names = {name for step in steps for amounts in step for name in amounts}
    return {name: max(sum(amounts.get(name, 0) for amounts in step) for step in steps) for name in names}


AMOUNTS = st.dictionaries(st.sampled_from("abcd"), st.integers(0, 5), max_size=3)


@given(st.lists(AMOUNTS, max_size=3), st.lists(st.tuples(AMOUNTS, st.booleans()), max_size=5))
def test_any_containers_add_up_as_their_steps_do(
    containers: list[dict[str, int]], init: list[tuple[dict[str, int], bool]]
) -> None:
    pod = PodAmounts(
        containers=[ContainerAmounts(each) for each in containers],
        init_containers=[(ContainerAmounts(each), is_sidecar) for each, is_sidecar in init],
        overhead={},
        pod_level=None,
        extra=(),
        is_infeasible=False,
    )
    assert {name: nano for name, nano in total(pod).items() if nano} == {
        name: nano for name, nano in slow_total(containers, init).items() if nano
    }


def test_many_init_containers_beside_a_sidecar_with_many_resources_cost_what_they_name() -> None:
    wide = {f"example.com/{number}": "1" for number in range(200)}

    def work(count: int) -> int:
        sidecar = {"name": "s", "restartPolicy": "Always", "resources": {"requests": wide}}
        init = [sidecar, *({"name": f"i{number}", "resources": {}} for number in range(count))]
        raw = encoded(pod(initContainers=init))
        with counted() as work:
            decode(Kind.PODS, raw)
        return work.lines

    assert work(400) < 2.5 * work(200)
    assert work(200) < 100 * 200

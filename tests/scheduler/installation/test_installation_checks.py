"""The lines of `dovetail check`, by what was read."""

import io
import json
from typing import Any

import pytest

from scheduler.change import Kind
from scheduler.installation import check_output, installation_checks, installed_pods
from scheduler.installation.installation_checks import CheckLine, CheckResult
from scheduler.installation.trial_pod import TrialStep
from scheduler.kube.discovery import DiscoveredKinds
from tests.scheduler.installation.test_findings import EVICTIONS, HEALTHY, LEASE, PODS

PAUSED = LEASE._replace(is_drained=True, is_renewed=False, holder="")
SERVED = DiscoveredKinds(paths=((Kind.TAINT_RULES, "/x"),), minor=37, git_version="v1.37.2")


def server(served: DiscoveredKinds, **gates: bool | None) -> list[tuple[CheckResult, str, str]]:
    return [(each.result, each.check, each.message) for each in installation_checks.of_server(served, gates)]


def installed(**changed: Any) -> dict[str, tuple[CheckResult, str]]:
    lines = installation_checks.of_installation(HEALTHY._replace(**changed), "dovetail-system")
    return {each.check: (each.result, each.message) for each in lines}


def test_a_server_that_is_too_old_ends_the_checks() -> None:
    assert server(DiscoveredKinds(problem="it does not serve deviceclasses", minor=33)) == [
        (CheckResult.FAILED, "server", "it does not serve deviceclasses")
    ]


@pytest.mark.parametrize(
    ("minor", "result"), [(34, CheckResult.PASSED), (37, CheckResult.PASSED), (38, CheckResult.WARNING)]
)
def test_versions_that_are_tested(minor: int, result: CheckResult) -> None:
    served = DiscoveredKinds(minor=minor, git_version=f"v1.{minor}.0")
    assert server(served)[0][0] is result


def test_gates_and_kinds_are_named() -> None:
    found = server(SERVED, DRADeviceTaints=True, DRAConsumableCapacity=False, DRAPrioritizedList=None)
    assert found[1] == (
        CheckResult.PASSED,
        "gates",
        "on: DRADeviceTaints; off: DRAConsumableCapacity (shares of devices). The API server drops their fields",
    )
    assert found[2][2].startswith("served: DeviceTaintRules; not served: PodGroups, PodGroups of the Coscheduling")
    assert server(SERVED, DRADeviceTaints=None)[1][0] is CheckResult.SKIPPED


def test_an_installation_that_works() -> None:
    found = installed()
    assert {result for result, _ in found.values()} == {CheckResult.PASSED}
    assert found["replicas"][1] == "2 of 2 replicas ready"


@pytest.mark.parametrize(
    ("changed", "check", "result"),
    [
        ({"replicas": (), "lease": None}, "installed", CheckResult.SKIPPED),
        ({"replicas": None}, "installed", CheckResult.SKIPPED),
        ({"replicas": (PODS[0]._replace(is_ready=False, why="ErrImagePull: x"),)}, "image", CheckResult.FAILED),
        ({"replicas": (PODS[0]._replace(is_ready=False, why="CrashLoopBackOff"),)}, "replicas", CheckResult.FAILED),
        ({"missing": (EVICTIONS._replace(purpose=""),)}, "roles", CheckResult.FAILED),
        ({"missing": (EVICTIONS,)}, "roles", CheckResult.WARNING),
        ({"missing": None}, "roles", CheckResult.SKIPPED),
        ({"lease": LEASE._replace(is_renewed=False)}, "leader", CheckResult.FAILED),
        ({"lease": LEASE._replace(is_drained=True)}, "leader", CheckResult.FAILED),
        ({"lease": PAUSED, "replicas": ()}, "leader", CheckResult.FAILED),
        ({"replicas": (PODS[0]._replace(is_ready=False, node=""),)}, "image", CheckResult.SKIPPED),
    ],
)
def test_what_is_wrong_with_an_installation(changed: dict[str, Any], check: str, result: CheckResult) -> None:
    assert installed(**changed)[check][0] is result


def test_the_fence() -> None:
    of_fence = installation_checks.of_fence
    assert of_fence(True, ()).result is CheckResult.PASSED  # noqa: FBT003 - whether the policy is there
    assert of_fence(None, ()).result is CheckResult.SKIPPED
    line = of_fence(False, ())  # noqa: FBT003
    assert line.message == "Nothing stops another scheduler from allocating these devices (none has so far)"
    assert line.next_step.startswith("kubectl apply -k deploy/admission/allocations")
    assert of_fence(False, ("default-scheduler",)).message.startswith("pods of default-scheduler hold devices")  # noqa: FBT003


def test_a_pod_without_a_node_says_who_has_to_give_it_one() -> None:
    raw = {"metadata": {"name": "p"}, "spec": {"containers": [{"image": "i"}]}, "status": {"phase": "Pending"}}
    (pod,) = installed_pods.decoded_pods(json.dumps({"items": [raw]}).encode(), "dovetail-system")
    assert pod.why == "Pending: no scheduler has given it a node (the pods of Dovetail need kube-scheduler)"


def test_a_step_that_failed_says_what_to_do() -> None:
    line = installation_checks.of_step(TrialStep("removed", is_good=False, message="pod x is still there"), "team")
    assert line.next_step == "kubectl -n team delete pod,resourceclaim -l dovetail.dev/check"
    assert (
        installation_checks.of_step(TrialStep("started", None, "it was not bound"), "team").result
        is CheckResult.SKIPPED
    )


def test_warnings_are_counted_as_such() -> None:
    to, line = io.StringIO(), CheckLine(CheckResult.WARNING, "fence", "none")
    check_output.show_end([line, line, CheckLine(CheckResult.PASSED, "server", "")], to)
    assert to.getvalue() == "\n1 passed, 2 warnings\n"


def test_lines_are_whole_in_a_pipe_and_the_end_counts_them() -> None:
    to = io.StringIO()
    line = CheckLine(CheckResult.FAILED, "image", "no such image\x1b[31m", "push it")
    check_output.show_line(line, to)
    check_output.show_end([line, line], to)
    assert to.getvalue().splitlines() == [
        "failed   image       no such image\\x1b[31m",
        "                     → push it",
        "",
        "2 failed",
    ]

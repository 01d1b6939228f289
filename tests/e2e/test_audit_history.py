"""The history of allocations from an audit log: each rule is broken once, and what is allowed is left alone."""

from pathlib import Path
from typing import Final

import pytest

from e2e.audit.__main__ import main
from e2e.audit.reading import Finding, Key
from e2e.audit.writes import read_writes
from tests.support.audit_log import AuditLog, device

POD: Final = {"resource": "pods", "name": "p", "uid": "pod-p"}


@pytest.fixture
def log() -> AuditLog:
    log = AuditLog()
    log.lead("one")
    return log


def test_the_holders_of_a_device_from_when_to_when_are_known(log: AuditLog) -> None:
    log.claim("a", device(), reserved=[POD])
    log.claim("a")
    log.claim("b", device())
    first, second = log.history().holdings
    assert (first.claim, first.device, first.consumers) == (Key("ml", "a"), ("d", "n1", "gpu-0"), ("pods/p",))
    assert (first.since, first.until, second.since, second.until) == (2, 3, 4, 0)
    assert (first.until_seconds - first.since_seconds, log.rules()) == (1, [])


def test_versions_and_not_the_order_of_the_log_say_which_claim_was_first(log: AuditLog) -> None:
    log.claim("a", device())
    log.claim("a")
    log.claim("b", device())
    log.lines[1:] = reversed(log.lines[1:])
    assert log.rules() == []


def test_a_device_with_two_holders_is_found_once(log: AuditLog) -> None:
    for name in ("a", "b", "c"):
        log.claim(name, device())
    (finding,) = log.history().findings
    assert (finding.rule, finding.subject) == ("twice", "d/n1/gpu-0")
    assert "since version 3 of claim ml/b" in finding.message


def test_an_object_that_is_nested_too_deep_for_python_hides_no_write(log: AuditLog) -> None:
    log.claim("a", device())
    deep = '{"text": "a quote \\" and [", "deep": ' + "[{}, " * 9_000 + "]" * 9_000 + "}"
    log.lines[-1] = log.lines[-1].replace('"uid": "a"', f'"uid": "a", "annotations": {deep}, "labels": {{"a": "b"}}')
    log.claim("b", device())
    assert log.rules() == ["twice"]
    assert log.writes()[1].stored["metadata"]["labels"] == {"a": "b"}


def test_a_device_of_a_claim_that_is_deleted_is_free(log: AuditLog) -> None:
    log.claim("a", device())
    log.claim("a", device(), verb="delete")
    log.claim("b", device())
    assert log.rules() == []


def test_a_device_of_a_claim_whose_deletion_waits_for_a_finalizer_is_not(log: AuditLog) -> None:
    log.claim("a", device())
    log.lines[-1] = log.lines[-1].replace('"uid": "a"', '"uid": "a", "finalizers": ["x"]')
    log.claim("a", device(), verb="delete")
    log.lines[-1] = log.lines[-1].replace('"uid": "a"', '"uid": "a", "finalizers": ["x"]')
    log.claim("b", device())
    assert log.rules() == ["twice"]


def test_more_shares_than_capacity_are_found(log: AuditLog) -> None:
    log.slice({"name": "gpu-0", "allowMultipleAllocations": True, "capacity": {"memory": {"value": "40Gi"}}})
    for name in ("a", "b", "c"):
        log.claim(name, device(shareID=name, consumedCapacity={"memory": "16Gi"}))
    assert log.rules() == ["capacity"]
    assert log.history().holdings[0].consumed == ("memory=16Gi",)


def test_counters_over_budget_are_found(log: AuditLog) -> None:
    draws = [{"counterSet": "gpu-0", "counters": {"slices": {"value": "4"}}}]
    counters = [{"name": "gpu-0", "counters": {"slices": {"value": "7"}}}]
    log.slice(*({"name": f"mig-{index}", "consumesCounters": draws} for index in range(2)), sharedCounters=counters)
    log.claim("a", device("mig-0"))
    assert log.rules() == []
    log.claim("b", device("mig-1"))
    assert log.rules() == ["counter"]
    assert log.history().holdings[0].counters == ("gpu-0/slices=4",)


def test_a_late_write_of_a_former_leader_is_found(log: AuditLog) -> None:
    log.lead("two")
    log.claim("a", device("gpu-0"), by="one")
    assert log.rules() == []  # the new leader waits for such writes
    log.claim("b", device("gpu-1"), by="two")
    log.claim("c", device("gpu-2"), by="one")
    (finding,) = log.history().findings
    assert finding == Finding("former", "ml/c", "a former leader wrote resourceclaims/status at version 5")


def test_a_claim_that_a_former_leader_makes_late_holds_nothing(log: AuditLog) -> None:
    log.lead("two")
    log.claim("b", device("gpu-1"), by="two")
    log.claim("late", verb="create", by="one")
    assert log.rules() == []


def test_a_late_binding_of_a_former_leader_is_found(log: AuditLog) -> None:
    log.lead("two")
    log.claim("b", device("gpu-1"), by="two")
    log.add("create", "pods", "p", None, subresource="binding", by="one", code=201)
    assert log.rules() == ["former"]


def test_a_late_write_that_the_server_refuses_or_that_changes_nothing_is_none(log: AuditLog) -> None:
    log.claim("a", device(), by="one")
    log.lead("two")
    log.claim("b", device("gpu-1"), by="two")
    log.add("patch", "resourceclaims", "c", None, subresource="status", by="one", code=409)
    log.lines.append(log.lines[1].replace("00:00:02", "00:01:00"))
    trial = {"deleteOptions": {"dryRun": ["All"]}}
    log.add("create", "pods", "p", None, subresource="eviction", by="one", code=201, asked=trial)
    assert log.rules() == []


def test_an_answer_without_a_version_is_no_stored_object(log: AuditLog) -> None:
    log.claim("a", device(), by="one")
    answer = '"responseObject": {"kind": "Pod", "metadata": {"name": "p"}}'
    log.add("create", "pods", "p", None, code=201)
    log.lines[-1] = log.lines[-1].replace('"responseObject": {"kind": "Status"}', answer)
    assert answer in log.lines[-1]
    assert log.rules() == []
    *_, made = read_writes(log.lines)
    assert (made.resource, made.stored, made.version) == ("pods", {}, log.version)


def test_a_write_after_the_lease_was_given_up_is_found(log: AuditLog) -> None:
    log.claim("a", device())
    log.lead("")
    log.claim("b", device("gpu-1"))
    assert [each.message for each in log.history().findings] == [
        "the leader that had given up the Lease wrote resourceclaims/status at version 4"
    ]


def test_a_write_of_a_process_that_never_led_is_found(log: AuditLog) -> None:
    log.claim("a", device(), by="standby")
    assert log.rules() == ["former"]


def test_a_leader_that_leads_again_may_write(log: AuditLog) -> None:
    for holder in ("two", "one"):
        log.lead(holder)
        log.claim(f"of-{holder}", device(holder), by=holder)
    assert log.rules() == []


@pytest.mark.parametrize("end", ["finished", "deleted", "evicted", "collected"])
def test_an_allocation_that_is_not_taken_back_after_its_pods_ended_is_found(log: AuditLog, end: str) -> None:
    log.pod("create")
    log.claim("a", device(), reserved=[POD])
    if end == "finished":
        log.pod("patch", "Succeeded")
    elif end == "evicted":
        log.add("create", "pods", "p", None, subresource="eviction", code=201)
    elif end == "deleted":
        log.pod("delete", deletionTimestamp="2026-01-01T00:00:05Z", finalizers=["x"])
    else:
        log.pod("delete")
    log.seconds += 25
    log.claim("b", device("gpu-1"))
    assert log.rules() == []
    log.seconds += 25
    log.claim("a")
    (finding,) = (each for each in log.history().findings if each.subject == "ml/a")
    assert finding.rule == "left"


def test_an_allocation_of_which_one_pod_still_runs_is_not(log: AuditLog) -> None:
    log.pod("create")
    log.claim("a", device(), reserved=[POD, {"resource": "pods", "name": "q", "uid": "pod-q"}])
    log.pod("patch", "Failed")
    log.seconds += 100
    log.pod("delete")
    assert log.rules() == []


def test_an_allocation_for_no_pod_is_found_at_the_end(log: AuditLog) -> None:
    log.claim("a", device())
    log.seconds += 40
    log.lead("one")
    assert log.rules() == ["left"]


def test_a_write_of_unknown_outcome_frees_its_claim_until_the_next_one(log: AuditLog) -> None:
    log.claim("a", device())
    log.add("patch", "resourceclaims", "a", None, subresource="status", code=504)
    log.claim("b", device())
    assert log.rules() == []
    log.claim("a", device())
    assert log.rules() == ["twice"]


def test_a_last_line_that_is_cut_off_is_left_out_and_others_are_not(log: AuditLog) -> None:
    log.claim("a", device())
    log.lines[-1] = log.lines[-1][:40]
    assert len(log.writes()) == 1
    log.lines[0] = "{\n"
    with pytest.raises(ValueError, match="property name"):
        log.writes()


def test_the_command_lists_the_holders_of_a_device_and_what_is_wrong(
    log: AuditLog, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log.claim("a", device(), reserved=[POD])
    log.claim("b", device())
    (tmp_path / "audit.log").write_text("".join(log.lines))
    assert main(["--log", str(tmp_path / "audit.log"), "--about", "gpu-0"]) == 1
    printed = capsys.readouterr().out.splitlines()
    assert printed[0].startswith("d/n1/gpu-0: ml/a for pods/p, ")
    assert printed[2].startswith("twice      d/n1/gpu-0: it is held by ml/a, ml/b, since version 3")
    assert printed[-1] == "2 allocations in 3 writes; findings: 1"

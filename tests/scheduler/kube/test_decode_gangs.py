"""PodGroups of both kinds, and what labels and annotations of pods say of gangs."""

import json

import pytest

from scheduler.kube.decode import gangs as d
from scheduler.kube.decode.pods import decode_pod
from scheduler.kube.decode.shared_fields import MalformedError
from solver.domain import MINIMUM_ANNOTATION, ClaimId, GangAnnotations, GangId, GangLevel

METADATA = {"name": "g", "namespace": "ml", "uid": "u", "generation": 3, "creationTimestamp": "2026-01-01T00:00:00Z"}


def raw(body: object) -> bytes:
    return json.dumps(body).encode()


def test_a_pod_group_with_everything() -> None:
    group = d.decode_pod_group(
        raw(
            {
                "metadata": {**METADATA, "annotations": {d.TOPOLOGY_ANNOTATION: "preferred:label:row"}},
                "spec": {
                    "schedulingPolicy": {"gang": {"minCount": 8}},
                    "schedulingConstraints": {"topology": [{"key": "rack"}]},
                    "resourceClaims": [
                        {"name": "named", "resourceClaimName": "c"},
                        {"name": "made", "resourceClaimTemplateName": "t"},
                        {"name": "unmade", "resourceClaimTemplateName": "t"},
                    ],
                    "priority": 7,
                    "priorityClassName": "gold",
                    "preemptionPolicy": "Never",
                    "disruptionMode": {"single": {}},
                    "workloadRef": {"workloadName": "w", "templateName": "t"},
                },
                "status": {
                    "conditions": [
                        {"type": "PodGroupInitiallyScheduled", "status": "True", "reason": "Scheduled"},
                        {"type": "PodGroupScheduled", "status": "False", "reason": "Unschedulable", "message": "m"},
                        {"type": "DisruptionTarget", "status": "True"},
                    ],
                    "resourceClaimStatuses": [{"name": "made", "resourceClaimName": "g-made-x"}],
                },
            }
        )
    )
    assert group.id == GangId("ml", "g", "scheduling.k8s.io")
    assert (group.min_count, group.priority, group.preemption_policy, group.generation) == (8, 7, "Never", 3)
    assert group.levels == (GangLevel(node_label="rack"), GangLevel(node_label="row", is_required=False))
    assert group.claims == (
        ("named", ClaimId("ml", "c"), ""),
        ("made", ClaimId("ml", "g-made-x"), "t"),
        ("unmade", None, "t"),
    )
    assert group.conditions == (
        ("PodGroupInitiallyScheduled", "True", "Scheduled", ""),
        ("PodGroupScheduled", "False", "Unschedulable", "m"),
    )


def test_the_basic_policy_ties_nothing() -> None:
    assert d.decode_pod_group(raw({"metadata": METADATA, "spec": {"schedulingPolicy": {"basic": {}}}})).min_count == 0


def test_a_coscheduling_group() -> None:
    group = d.decode_coscheduling_group(
        raw({"metadata": METADATA, "spec": {"minMember": 4, "scheduleTimeoutSeconds": 9}})
    )
    assert (group.id.source, group.min_count) == ("scheduling.x-k8s.io", 4)


@pytest.mark.parametrize(
    ("pod_group", "labels", "expected"),
    [
        ("g", {d.GANG_LABEL: "x"}, GangId("ml", "g", "scheduling.k8s.io")),
        ("", {d.COSCHEDULING_LABEL: "c", d.GANG_LABEL: "x"}, GangId("ml", "c", "scheduling.x-k8s.io")),
        ("", {d.GANG_LABEL: "x"}, GangId("ml", "x", "dovetail.dev")),
        ("", {d.GANG_LABEL: ""}, None),
        ("", None, None),
    ],
)
def test_whose_member_a_pod_is(pod_group: str, labels: dict[str, str] | None, expected: GangId | None) -> None:
    assert d.gang_of("ml", pod_group, labels) == expected


@pytest.mark.parametrize(
    ("annotations", "expected"),
    [
        (None, None),
        ({"other": "x"}, None),
        ({MINIMUM_ANNOTATION: "4"}, GangAnnotations(min_count=4)),
        (
            {d.TOPOLOGY_ANNOTATION: "label:rack, preferred:device:gpu.example.com/clique"},
            GangAnnotations(
                levels=(
                    GangLevel(node_label="rack"),
                    GangLevel(device_attribute="gpu.example.com/clique", is_required=False),
                )
            ),
        ),
    ],
)
def test_what_annotations_say(annotations: dict[str, str] | None, expected: GangAnnotations | None) -> None:
    assert d.gang_note(annotations) == expected


@pytest.mark.parametrize("minimum", ["0", "-1", "four", "", "²", "100001", "9" * 4_301, "9" * 250_000])
def test_a_minimum_that_is_no_number_is_reported(minimum: str) -> None:
    note = d.gang_note({MINIMUM_ANNOTATION: minimum})
    assert note is not None
    assert "is not a number of pods: write 1 to 100000" in note.invalid
    assert len(note.invalid) < 200, "a message holds the beginning of a long text"


@pytest.mark.parametrize("text", ["rack", "label:", "device:clique", "zone:x", "label:a,,label:b", "device:/"])
def test_levels_that_cannot_be_read_are_named(text: str) -> None:
    with pytest.raises(MalformedError, match="is neither label:KEY nor device:DOMAIN/NAME"):
        d.levels_of(text)
    note = d.gang_note({d.TOPOLOGY_ANNOTATION: text})
    assert note is not None
    assert note.invalid.startswith(d.TOPOLOGY_ANNOTATION)


def test_a_pod_carries_its_gang_and_what_it_says_of_it() -> None:
    pod = decode_pod(
        raw(
            {
                "metadata": {
                    "name": "p",
                    "namespace": "ml",
                    "labels": {d.GANG_LABEL: "g"},
                    "annotations": {MINIMUM_ANNOTATION: "2"},
                },
                "spec": {},
            }
        )
    )
    assert (pod.gang, pod.gang_note) == (GangId("ml", "g", "dovetail.dev"), GangAnnotations(min_count=2))


@pytest.mark.parametrize(
    ("mode", "expected"),
    [
        ({"single": {}}, "single"),
        ({"all": {}}, "all"),
        ({}, "single"),
        ("Pod", "single"),
        ("PodGroup", "all"),
        ("", ""),
        (None, ""),
    ],
)
def test_how_a_group_may_be_disrupted(mode: object, expected: str) -> None:
    assert d.decode_pod_group(raw({"metadata": METADATA, "spec": {"disruptionMode": mode}})).disruption == expected
    assert d.decode_pod_group(raw({"metadata": METADATA, "spec": {}})).disruption == ""


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        ({}, (7, "Never", "")),
        ({"disruptionMode": "Pod"}, (None, "", "")),
        ({"parentCompositePodGroupName": "serving"}, (None, "", "serving")),
    ],
    ids=["1.37", "1.36", "part of a composite group"],
)
def test_whether_the_priority_of_a_group_binds_its_pods(more: dict[str, str], expected: object) -> None:
    spec = {"priority": 7, "preemptionPolicy": "Never", **more}
    group = d.decode_pod_group(raw({"metadata": METADATA, "spec": spec}))
    assert (group.priority, group.preemption_policy, group.parent) == expected

"""
A change that lets a waiting pod in hints one of the pod's reasons.

The clusters and pods are those of the differential test. One object is added, removed, or takes a field of another
object of its kind. The API server would refuse some of these changes, such as new ports of a pod: they are left out.
"""

import random
from collections.abc import Iterator
from copy import deepcopy
from typing import Any

import pytest

from e2e.differential import groups
from e2e.differential.shapes import namespaces
from e2e.objects import Manifest
from scheduler.change import Change, Transition
from scheduler.cluster import Cluster
from scheduler.queue.cluster_events import claim_of, events_of
from scheduler.queue.queueing_hints import CLAIM_EVENTS, QUEUEING_HINTS, RETRIED
from scheduler.simulation.manifests import decoding
from scheduler.simulation.manifests.documents import Document
from solver import SolverCache, solve
from solver.domain import Batch, Budget, Pod, PodId, Policy, Reason, ReasonCode

CHANGES = 16
PODS = 12
BUDGET = Budget(seconds=20.0, deterministic_seconds=0.5)
FIXED = {"volumeName", "claimRef", "nodeName", "pool", "driver", "perDeviceNodeSelection", "csi", "local", "containers"}
"""Fields that no object takes of another: they say which object it is, or are never written again."""


def change(manifest: Manifest, version: int) -> Change:
    """Decode an object as the API server would give it."""
    body = deepcopy(manifest)
    metadata, spec = body["metadata"], body.get("spec", {})
    metadata.setdefault("uid", f"{body['kind']}-{metadata.get('namespace', '')}-{metadata['name']}")
    metadata |= {"resourceVersion": str(version), "creationTimestamp": "2026-01-01T00:00:00Z"}
    match body["kind"]:
        case "PersistentVolumeClaim":
            body.setdefault("status", {"phase": "Bound" if spec.get("volumeName") else "Pending"})
        case "PersistentVolume":
            owner = spec.get("claimRef")
            if owner is not None:
                owner["uid"] = f"PersistentVolumeClaim-{owner['namespace']}-{owner['name']}"
            body.setdefault("status", {"phase": "Available" if owner is None else "Bound"})
        case "Pod":
            body.setdefault("status", {"phase": "Running" if spec.get("nodeName") else "Pending"})
        case _:
            pass
    found, problem = decoding.decoded(decoding.KINDS[decoding.of(body)], Document("generated", body))
    assert found is not None, problem
    return found


def changed(draw: random.Random, objects: list[Manifest]) -> tuple[Manifest | None, Manifest | None]:
    """Draw an object, as it is before and after."""
    kind = draw.choice(sorted({each["kind"] for each in objects}))
    alike = [each for each in objects if each["kind"] == kind]
    one, other = draw.choice(alike), draw.choice(alike)
    mixed = deepcopy(one)
    for part, fields in (
        ("metadata", ("labels",)),
        ("spec", other.get("spec", {})),
        ("status", other.get("status", {})),
    ):
        for field in set(fields) - FIXED if draw.random() < 1 / 2 else ():
            if draw.random() < 1 / 2 and field in other.get(part, {}):
                mixed.setdefault(part, {})[field] = deepcopy(other[part][field])
            else:
                mixed.get(part, {}).pop(field, None)
    return draw.choice(((None, one), (one, None), (one, mixed), (mixed, one)))


def waiting(cluster: Cluster, pods: list[Pod]) -> dict[PodId, tuple[Reason, ...]]:
    """Return the reasons of the pods that fit nowhere, each decided alone."""
    snapshot, cache = cluster.snapshot(), SolverCache()
    plans = (solve(snapshot, Batch(pods=(pod,)), Policy(), BUDGET, cache) for pod in pods)
    return {each.pod: each.reasons for plan in plans for each in plan.unplaced}


def hints(transition: Transition, pod: Pod) -> Iterator[ReasonCode]:
    """Return the reasons of a pod that a transition hints."""
    for event in events_of(transition):
        if event not in CLAIM_EVENTS or claim_of(transition) in (*pod.claim_ids, *pod.volume_claims):
            yield from QUEUEING_HINTS[event]


def unhinted(seed: int) -> Iterator[str]:
    """Return the pods that a change lets in without a hint."""
    draw, group = random.Random(seed), groups.group(seed)  # noqa: S311 - no secret
    objects = [*namespaces(), *(each for phase in group.cluster for each in phase)]
    own = [each for case in group.cases[:PODS] for each in case.objects]
    asked = [case.pod for case in group.cases[:PODS] if "schedulingGates" not in case.pod["spec"]]
    for _ in range(CHANGES):
        before, after = changed(draw, objects)
        cluster, name = Cluster(), key_of(before or after)
        for each in (*objects, *own, *asked):
            if key_of(each) != name:
                cluster.apply(change(each, 1))
        if before is not None:
            cluster.apply(change(before, 2))
        then = change(after or before or {}, 3)
        pods = [pod for each in asked if isinstance(pod := change(each, 1).value, Pod)]
        reasons = waiting(cluster, pods)
        transitions = cluster.apply(then if after is not None else Change(kind=then.kind, key=then.key, value=None))
        silent = []
        for pod in pods:
            codes = {each.code for each in reasons.get(pod.id, ())}
            is_hinted = any(codes.intersection(hints(each, pod)) for each in transitions)
            silent += [pod] if codes and not (codes & RETRIED or is_hinted) else []
        still = waiting(cluster, silent)
        yield from (f"{pod.id}: {name}: {reasons[pod.id]}" for pod in silent if pod.id not in still)


def key_of(manifest: Any) -> tuple[str, str, str]:
    """Return what names an object."""
    return manifest["kind"], manifest["metadata"].get("namespace", ""), manifest["metadata"]["name"]


@pytest.mark.parametrize("seed", range(6))
def test_a_pod_that_a_change_lets_in_is_hinted(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(groups, "NODES", 4)
    assert list(unhinted(seed)) == []

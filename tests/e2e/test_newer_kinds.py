"""What a rollout says of objects that a newer version wrote: it must be able to find what is lost."""

from typing import Any, cast

import pytest

from e2e.controlplane.plane import ControlPlane
from e2e.upgrade import newer_kinds

Json = dict[str, Any]
KEPT = {"metadata": {"name": "newer"}, "spec": {"ofANewerVersion": "kept"}}


class Plane:
    """Stands where the API server is asked: one object of each kind, and the pod that has to wait."""

    def __init__(self, quota: str = "Unreadable", pod: str = "QuotaExceeded", **lost: str) -> None:
        self.lost = lost
        self.quota = {**KEPT, "status": {"conditions": [{"type": "Valid", "reason": quota}]}}
        self.pod: Json = {"spec": {}, "status": {"conditions": [{"type": "PodScheduled", "reason": pod}]}}
        self.deleted: list[str] = []

    def request(self, verb: str, path: str, *_: object) -> Any:
        if verb == "DELETE":
            self.deleted.append(path)
        name = path.rpartition("/")[2]
        if name == "kept-back":
            return self.pod
        if name == "newer":
            return self.quota
        return {"items": [] if name in self.lost else [KEPT]}


def problems(plane: Plane, monkeypatch: pytest.MonkeyPatch, *, leads: bool = True) -> list[str]:
    monkeypatch.setattr(newer_kinds, "_SECONDS", 0.01)
    monkeypatch.setattr("time.sleep", lambda _: None)
    return list(newer_kinds.problems(cast("ControlPlane", plane), leads=leads))


def test_nothing_is_found_where_all_is_kept_and_said(monkeypatch: pytest.MonkeyPatch) -> None:
    plane = Plane()
    assert problems(plane, monkeypatch) == []
    assert plane.deleted == ["/api/v1/namespaces/newer/pods/kept-back"]


@pytest.mark.parametrize("kind", ["devicequotas", "deviceholds", "repairplans"])
def test_an_object_that_lost_what_is_new_is_found_whoever_leads(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert problems(Plane(**{kind: "lost"}), monkeypatch, leads=False) == [
        f"{kind} newer: what a newer version wrote is gone"
    ]


def test_what_is_not_said_and_a_pod_that_is_bound_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    plane = Plane(quota="Consistent", pod="Unschedulable")
    plane.pod["spec"]["nodeName"] = "n0"
    assert [each.rpartition(", and ")[2] for each in problems(plane, monkeypatch)] == [
        "Valid has not the reason Unreadable",
        "PodScheduled has not the reason QuotaExceeded",
        "its pod is bound all the same",
    ]

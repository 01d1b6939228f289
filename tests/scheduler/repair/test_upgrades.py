"""When replicas of Dovetail are being replaced."""

import pytest

from scheduler.repair.upgrades import rollout
from solver.domain import Controller, Pod, PodId

LABELS = (("app.kubernetes.io/name", "dovetail"),)


def replica(
    name: str, revision: str, *, namespace: str = "dovetail-system", is_terminal: bool = False, labels: object = LABELS
) -> Pod:
    controller = Controller(kind="ReplicaSet", uid=revision)
    return Pod(
        id=PodId(namespace, name),
        uid=name,
        labels=labels,  # type: ignore[arg-type]
        controller=controller,
        is_terminal=is_terminal,
    )


def test_replicas_of_two_revisions_are_an_upgrade() -> None:
    pods = [replica("a", "old"), replica("b", "old"), replica("c", "new")]

    assert rollout(pods, "dovetail-system") == "an upgrade runs: there are replicas of Dovetail of 2 revisions"
    assert rollout(pods[:2], "dovetail-system") == ""


@pytest.mark.parametrize(
    "other",
    [
        replica("c", "new", namespace="team"),
        replica("c", "new", is_terminal=True),
        replica("c", "new", labels=(("app.kubernetes.io/name", "kueue"),)),
        Pod(id=PodId("dovetail-system", "c"), uid="c", labels=LABELS),
    ],
    ids=["of another namespace", "that has ended", "of another program", "of nobody"],
)
def test_other_pods_are_none(other: Pod) -> None:
    assert rollout([replica("a", "old"), other], "dovetail-system") == ""

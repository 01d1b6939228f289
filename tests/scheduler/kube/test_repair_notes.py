"""What the annotations of a pod say about moving it."""

import pytest

from scheduler.kube.decode.disruption import repair_note
from solver.domain import RepairNote

DO_NOT_DISRUPT = "karpenter.sh/do-not-disrupt"
SAFE_TO_EVICT = "cluster-autoscaler.kubernetes.io/safe-to-evict"


@pytest.mark.parametrize(
    ("annotations", "expected"),
    [
        (None, None),
        ({"team": "ml"}, None),
        ({DO_NOT_DISRUPT: "true"}, RepairNote(kept_by=DO_NOT_DISRUPT)),
        ({DO_NOT_DISRUPT: "30m"}, RepairNote(kept_by=DO_NOT_DISRUPT)),
        ({DO_NOT_DISRUPT: "False"}, None),
        ({SAFE_TO_EVICT: "false"}, RepairNote(kept_by=SAFE_TO_EVICT)),
        ({SAFE_TO_EVICT: "true"}, None),
        ({"dovetail.dev/checkpointed-at": "1970-01-01T00:01:40Z"}, RepairNote(checkpointed=100)),
        ({"dovetail.dev/checkpointed-at": "yesterday"}, None),
        ({"dovetail.dev/checkpointed-at": "1960-01-01T00:00:00Z"}, None),
        ({"dovetail.dev/restarts": "gang"}, RepairNote(restarts="gang")),
        ({"dovetail.dev/restarts": "all"}, None),
    ],
)
def test_annotations_about_moves(annotations: dict[str, str] | None, expected: RepairNote | None) -> None:
    assert repair_note(annotations) == expected

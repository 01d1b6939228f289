"""A condition that an earlier leader left False is mended by the next one."""

import pytest

from tests.scheduler.status.test_pod_groups import SCHEDULED, Scene

NO_ROOM = (SCHEDULED, "False", "Unschedulable", "no room")


@pytest.mark.parametrize(
    ("minimum", "bound", "said", "name", "statuses"),
    [
        (0, 1, (NO_ROOM,), "dovetail", ["True"]),
        (2, 2, (NO_ROOM,), "dovetail", ["True"]),
        (2, 2, (), "dovetail", ["True"]),
        (0, 0, (NO_ROOM,), "dovetail", []),
        (2, 1, (NO_ROOM,), "dovetail", []),
        (2, 2, ((SCHEDULED, "True", "Scheduled", ""),), "dovetail", []),
        (2, 2, (NO_ROOM,), "another", []),
    ],
)
async def test_a_new_leader_mends_what_an_earlier_one_left_false(
    minimum: int, bound: int, said: tuple[tuple[str, str, str, str], ...], name: str, statuses: list[str]
) -> None:
    scene = Scene(bound=bound, minimum=minimum, conditions=said)
    scene.groups.inherit({name})
    assert [each["status"] for _, each in await scene.written()] == statuses

"""What `dovetail pause` counts as done: by live reads, not by what it has sent."""

from typing import Any, cast

import pytest

from scheduler.change import Change, Kind
from scheduler.installation import pausing
from scheduler.kube.client import Client
from scheduler.kube.concurrency_limit import ConcurrencyLimit, RequestSlots
from scheduler.kube.decode.claims import SPECIAL
from scheduler.kube.errors import Forbidden, NotFound
from scheduler.kube.writer import NoFence, Writer
from scheduler.settings import load
from scheduler.simulation.live_cluster import ClusterObjects
from solver.domain import Claim, ClaimId
from tests.support import builders as b
from tests.support.kube_objects import encoded

POD = b.pod("p")
SPECIAL_CLAIM = Claim(
    id=ClaimId(b.NAMESPACE, "p-extended-resources-abcde"),
    uid="u",
    owner_pod_uid=POD.uid,
    is_extended_resource_claim=True,
)


class Server:
    """In the place of a client: one special claim, which may be deleted or not."""

    def __init__(self, *, may_delete: bool) -> None:
        self._may_delete = may_delete
        self._is_there = True

    async def request(self, method: str, path: str, **_: Any) -> bytes:
        name = SPECIAL_CLAIM.id.name
        if "/pods/" in path:
            raise NotFound(404)
        if not path.endswith(name):
            return encoded({"metadata": {}, "items": []})
        if method == "DELETE" and not self._may_delete:
            raise Forbidden(403, "Forbidden", "no right")
        if method == "DELETE":
            self._is_there = False
        elif not self._is_there:
            raise NotFound(404)
        metadata: dict[str, object] = {"name": name, "namespace": b.NAMESPACE, "uid": "u", "resourceVersion": "1"}
        metadata |= {"annotations": {SPECIAL: "true"}}
        return encoded({"metadata": metadata, "spec": {}})


@pytest.mark.parametrize(
    ("may_delete", "deleted", "problems"),
    [(True, 1, 0), (False, 0, 1)],
    ids=["deleted", "refused"],
)
async def test_a_special_claim_that_is_still_there_is_no_success(
    *, may_delete: bool, deleted: int, problems: int
) -> None:
    client = cast("Client", Server(may_delete=may_delete))
    writer = Writer(RequestSlots(ConcurrencyLimit()), NoFence())
    changes = (
        Change(kind=Kind.PODS, key=str(POD.id), value=POD),
        Change(kind=Kind.CLAIMS, key=str(SPECIAL_CLAIM.id), value=SPECIAL_CLAIM),
    )
    done = await pausing._clean(client, writer, ClusterObjects(changes=changes), load(None))  # noqa: SLF001
    assert (done.special, len(done.problems)) == (deleted, problems)
    if problems:
        assert str(SPECIAL_CLAIM.id) in done.problems[0]

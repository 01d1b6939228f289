"""Live reads: of objects that cannot be decoded, and answers that were damaged on their way."""

from typing import Any, cast

import pytest

from scheduler.kube.client import Client
from scheduler.kube.errors import AnswerLost, Unreachable
from scheduler.kube.writes import adopt, read_claim, read_pod
from solver.domain import ClaimId, PodId
from tests.support import builders as b


class Answers:
    """In the place of a client: gives the same answer to every request."""

    def __init__(self, answer: bytes) -> None:
        self.answer = answer

    async def request(self, *_: object, **__: Any) -> bytes:
        return self.answer


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(b'{"metadata": {"name": "c", "managedFields": [{"a": \x17\x03]}', id="goes on as something else"),
        pytest.param(b'{"kind": "Status", "status": "Success"}', id="another object"),
        pytest.param(
            b'{"metadata": {"name": "another", "namespace": "ml", "uid": "u"}, "spec": {}}', id="another name"
        ),
        pytest.param(b"<html>", id="a page of a proxy"),
    ],
)
async def test_an_answer_that_is_no_object_counts_as_none_so_that_it_is_read_again(answer: bytes) -> None:
    client = cast("Client", Answers(answer))
    with pytest.raises(Unreachable, match="cannot be read"):
        await read_claim(client, ClaimId("ml", "c"))
    with pytest.raises(Unreachable, match="cannot be read"):
        await read_pod(client, PodId("ml", "p"))


async def test_a_write_whose_answer_is_another_object_has_no_answer() -> None:
    with pytest.raises(AnswerLost, match="the answer is another object"):
        await adopt(cast("Client", Answers(b'{"kind": "Status", "status": "Success"}')), b.claim("c"))


@pytest.mark.parametrize("node", ["", "n1"])
@pytest.mark.parametrize(
    "rest",
    [
        pytest.param('"containers": [{"name": "c", "resources": {"requests": {"cpu": "zzz"}}}]', id="a quantity"),
        pytest.param('"containers": 7', id="a type"),
        pytest.param('"schedulerName": "\\ud800"', id="a lone surrogate"),
        pytest.param(f'"x": {"[" * 5000}{"]" * 5000}', id="too deep"),
    ],
)
async def test_a_pod_that_cannot_be_decoded_tells_where_it_is_bound(node: str, rest: str) -> None:
    """Its unit would stay in flight for ever."""
    body = f'{{"metadata": {{"name": "p", "uid": "u"}}, "spec": {{"nodeName": "{node}", {rest}}}}}'
    found = await read_pod(cast("Client", Answers(body.encode())), PodId("ml", "p"))

    assert found is not None
    assert (found.uid, found.node_name, found.is_deleting) == ("u", node, False)

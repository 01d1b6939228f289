"""Lists that no watch continues, and pods of which replicas have most in common."""

import secrets
from collections.abc import Iterator, Sequence

import msgspec
import pytest

from e2e.hostile.objects.draw import written
from e2e.hostile.objects.generator import generate
from e2e.hostile.offline.rounds import served
from scheduler.change import Change, Kind, Object
from scheduler.kube.decode import pods
from scheduler.kube.decode.json_parts import read_page
from scheduler.kube.decode.objects import read, read_all
from scheduler.kube.watching.list_watch import ListWatch
from tests.support.received import take_page


def lists(seed: int) -> Iterator[tuple[Kind, bytes]]:
    """Hostile objects as the API server lists them, by kind; each name once."""
    found: dict[Kind, list[bytes]] = {}
    for number in range(500):
        made = generate(seed, number)
        found.setdefault(made.kind, []).append(written(served(made.manifest, number)))
    for kind, items in found.items():
        yield kind, b'{"metadata": {"resourceVersion": "1"}, "items": [' + b",".join(items) + b"]}"


@pytest.mark.parametrize("seed", [1, 2])
def test_a_list_gives_what_a_watch_begins_with(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(secrets, "token_hex", lambda size: "0" * 2 * size)  # the same marks in both
    for kind, body in lists(seed):
        listed = ListWatch(kind)
        listed.start_listing()
        received, found = take_page(listed, body), read_all(kind, read_page(body))
        assert latest(found.changes) == latest(received.changes)
        assert {str(each) for each in received.problems} <= {str(each) for each in found.problems}


def latest(changes: Sequence[Change]) -> dict[str, Object | None]:
    return {each.key: each.value for each in changes}


@pytest.mark.parametrize("seed", [1, 2])
def test_a_pod_is_decoded_alike_whatever_was_decoded_before(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    made = ((number, generate(seed, number)) for number in range(500))
    raws = [written(served(each.manifest, number)) for number, each in made if each.kind is Kind.PODS]
    after_others = [read(Kind.PODS, raw) for raw in (*raws, *raws)]
    monkeypatch.setattr(pods, "_MOST_TEMPLATES", 0)
    for raw, found in zip((*raws, *raws), after_others, strict=True):
        pods._templates.clear()  # noqa: SLF001 - what is remembered is what is tested
        alone = read(Kind.PODS, raw)
        assert alone.value == found.value
        assert str(alone.problem) == str(found.problem)


def test_replicas_share_what_they_have_in_common_and_little_is_remembered() -> None:
    pods._templates.clear()  # noqa: SLF001 - as above
    first, second = (pods.decode_pod(replica(name)) for name in ("one", "two"))
    assert first.id.name == "one"
    assert second.id.name == "two"
    assert first.containers is second.containers
    for number in range(3 * pods._MOST_TEMPLATES):  # noqa: SLF001 - as above
        pods.decode_pod(replica("other", cpu=number))
    pods.decode_pod(replica("large", image="x" * 10_000))
    assert len(pods._templates) <= pods._MOST_TEMPLATES  # noqa: SLF001 - as above
    assert max(map(len, pods._templates)) <= pods._LONGEST_KEY  # noqa: SLF001 - as above


def replica(name: str, *, cpu: int = 1, image: str = "app") -> bytes:
    container = {"name": "main", "image": image, "resources": {"requests": {"cpu": str(cpu)}}}
    return msgspec.json.encode(
        {"metadata": {"name": name, "namespace": "team", "uid": name}, "spec": {"containers": [container]}}
    )

"""The check before the first write: volumes of one pod that another pod came to use."""

from msgspec.structs import replace

from solver.domain import Pod, PodVolume, ReasonCode
from tests.support.builders import node, placement, pod
from tests.support.cluster_builders import cluster_of, seen, unit
from tests.support.volume_builders import using, volume_claim

SAID = "volume claim default/data is for one pod, and pod default/other on node n2 uses it"


def objections(mode: str, *since: Pod) -> list[str]:
    """Decide for a pod with the claim `data`, let pods come, and ask."""
    new = using(pod("new"), "data")
    claim = replace(volume_claim("data", bound="v"), access_modes=(mode,))
    cluster = cluster_of(node("n1"), node("n2"), claim, new)
    planned = unit(placement(new, "n1"))
    cluster.assume(planned)
    for each in since:
        cluster.apply(seen(each))
    found = cluster.check(planned)
    assert {each.code for each in found} <= {ReasonCode.CONFLICT}
    return [each.message for each in found]


def test_a_claim_of_one_pod_that_another_pod_uses_by_now() -> None:
    other = using(pod("other", node_name="n2"), "data")

    assert objections("ReadWriteOncePod") == []
    assert objections("ReadWriteOncePod", other) == [SAID]
    assert objections("ReadWriteOnce", other) == []


def test_a_pod_without_a_node_or_with_another_claim_takes_nothing() -> None:
    waiting, elsewhere = using(pod("other"), "data"), using(pod("other", node_name="n2"), "more")
    ended = replace(using(pod("other", node_name="n2"), "data"), is_terminal=True)
    made = replace(elsewhere, volumes=tuple(replace(each, is_ephemeral=True) for each in _data()))

    assert [objections("ReadWriteOncePod", each) for each in (waiting, elsewhere, ended, made)] == [[], [], [], []]


def _data() -> tuple[PodVolume, ...]:
    return using(pod("any"), "data").volumes

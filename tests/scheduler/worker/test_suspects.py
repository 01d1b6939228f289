"""The search for the pod that ends the solver's process."""

from hypothesis import given
from hypothesis import strategies as st

from scheduler.worker.suspects import Suspects
from solver.domain import Batch, Pod
from tests.support.builders import batch, member, pod

PODS = tuple(pod(f"p{number}") for number in range(8))


def accused(suspects: Suspects, of: Batch, times: int = 2) -> tuple[Pod, ...]:
    found: tuple[Pod, ...] = ()
    for _ in range(times):
        found = suspects.accuse(of)
    return found


def test_a_batch_without_suspects_stays_whole() -> None:
    assert Suspects().divide(batch(*PODS)) == (batch(*PODS),)


def test_an_empty_batch_has_no_parts() -> None:
    assert Suspects().divide(batch()) == ()


def test_one_death_divides_nothing_yet() -> None:
    suspects = Suspects()

    accused(suspects, batch(*PODS), times=1)

    assert suspects.divide(batch(*PODS)) == (batch(*PODS),)


def test_a_batch_with_which_the_process_ended_twice_comes_back_in_halves() -> None:
    suspects = Suspects()

    accused(suspects, batch(*PODS))

    assert suspects.divide(batch(*PODS)) == (batch(*PODS[:4]), batch(*PODS[4:]))


def test_pods_without_suspicion_are_kept_apart_from_suspects() -> None:
    suspects, others = Suspects(), (pod("a"), pod("b"))
    accused(suspects, batch(*PODS[:2]))

    assert suspects.divide(batch(others[0], *PODS[:2], others[1])) == (
        batch(*others),
        batch(PODS[0]),
        batch(PODS[1]),
    )


def test_a_half_that_the_process_survives_is_cleared() -> None:
    suspects = Suspects()
    accused(suspects, batch(*PODS))

    suspects.clear(batch(*PODS[:4]))

    assert suspects.divide(batch(*PODS)) == (batch(*PODS[:4]), batch(*PODS[4:]))
    assert suspects.divide(batch(*PODS[:4])) == (batch(*PODS[:4]),)


def test_a_pod_with_which_the_process_ended_twice_alone_is_guilty() -> None:
    suspects = Suspects()

    assert accused(suspects, batch(PODS[3])) == (PODS[3],)
    assert suspects.is_guilty(PODS[3])


def test_a_guilty_pod_is_kept_apart_from_everybody() -> None:
    suspects = Suspects()
    accused(suspects, batch(PODS[3]))

    assert suspects.divide(batch(*PODS[:5])) == (batch(*PODS[:3], PODS[4]), batch(PODS[3]))


def test_a_pod_that_left_the_queue_is_not_suspected_when_it_comes_again() -> None:
    suspects = Suspects()
    accused(suspects, batch(PODS[3]))

    suspects.forget((PODS[3].uid,))

    assert not suspects.is_guilty(PODS[3])
    assert suspects.divide(batch(*PODS[:5])) == (batch(*PODS[:5]),)


@given(size=st.integers(1, 40), data=st.data())
def test_the_guilty_pod_is_found_alone(size: int, data: st.DataObject) -> None:
    pods = tuple(pod(f"p{number}") for number in range(size))
    guilty = data.draw(st.sampled_from(pods))
    suspects = Suspects()

    found: tuple[Pod, ...] = ()
    for _ in range(40):
        for part in suspects.divide(batch(*pods)):
            if found:
                break
            if guilty in part.pods:
                found = suspects.accuse(part)
            else:
                suspects.clear(part)

    assert found == (guilty,)


@given(st.data())
def test_every_pod_is_in_exactly_one_part(data: st.DataObject) -> None:
    suspects = Suspects()
    for accused_pods in data.draw(st.lists(st.lists(st.sampled_from(PODS), min_size=1, unique=True), max_size=6)):
        suspects.accuse(batch(*accused_pods))

    parts = suspects.divide(batch(*PODS))

    assert sorted(each.uid for part in parts for each in part.pods) == sorted(each.uid for each in PODS)


def test_a_gang_is_never_halved_and_is_guilty_as_a_whole() -> None:
    gang = tuple(member(each, "g") for each in PODS[:5])
    suspects = Suspects()
    accused(suspects, batch(*gang, *PODS[5:]))
    assert sorted(len(part.pods) for part in suspects.divide(batch(*gang, *PODS[5:]))) == [3, 5]
    assert accused(suspects, batch(*gang)) == gang
    assert suspects.is_guilty(gang[0])

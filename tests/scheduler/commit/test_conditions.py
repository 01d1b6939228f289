"""What a waiting pod's owner reads, and how often it is written."""

from scheduler.commit.conditions import Conditions, condition_message, condition_reason, shortened
from solver.domain import Reason, ReasonCode

CPU = Reason(code=ReasonCode.NODE_RESOURCES, message="Insufficient cpu", node_count=4)
TAINT = Reason(code=ReasonCode.NODE_TAINT, message="node(s) had untolerated taint.", node_count=8)
GPUS = Reason(code=ReasonCode.DEVICES_IN_USE, message="request gpus: 12 devices match, 3 are free, 4 needed")


def fewer(count: int) -> Reason:
    return Reason(code=ReasonCode.DEVICES_IN_USE, message=f"request gpus: 12 devices match, {count} are free, 4 needed")


def test_the_histogram_of_nodes_stands_first_and_the_devices_follow() -> None:
    message = condition_message((GPUS, CPU, TAINT), 12)

    assert message == (
        "0/12 nodes are available: 8 node(s) had untolerated taint, 4 Insufficient cpu. "
        "request gpus: 12 devices match, 3 are free, 4 needed."
    )


def test_reasons_that_are_not_about_nodes_need_no_histogram() -> None:
    assert condition_message((GPUS,), 3).startswith("0/3 nodes are available. request gpus:")


def test_a_very_long_message_is_cut() -> None:
    many = tuple(Reason(code=ReasonCode.DEVICES_NONE, message=f"request {n}: nothing matches") for n in range(1000))

    assert len(condition_message(many, 3).encode()) <= 8 * 1024


def test_a_text_is_cut_at_a_character() -> None:
    assert shortened("ä" * 10, 11) == "äää ..."


def test_a_pod_that_fits_nowhere_is_unschedulable() -> None:
    assert condition_reason((GPUS, CPU)) == "Unschedulable"


def test_a_refused_write_is_an_error_of_the_scheduler() -> None:
    refused = Reason(code=ReasonCode.API_ERROR, message="403 Forbidden")

    assert condition_reason((refused, CPU)) == "SchedulerError"


def test_the_same_text_is_written_once() -> None:
    told = Conditions()
    told.next("uid", (GPUS,), 12, 0.0)

    assert told.next("uid", (GPUS,), 12, 500.0) is None


def test_other_numbers_for_the_same_reason_wait_for_a_minute() -> None:
    told = Conditions()
    told.next("uid", (fewer(3),), 12, 0.0)

    assert told.next("uid", (fewer(2),), 12, 59.0) is None


def test_other_numbers_for_the_same_reason_are_written_after_a_minute() -> None:
    told = Conditions()
    told.next("uid", (fewer(3),), 12, 0.0)

    again = told.next("uid", (fewer(2),), 12, 60.0)

    assert again is not None
    assert "2 are free" in again.message


def test_another_reason_is_written_at_once() -> None:
    told = Conditions()
    told.next("uid", (GPUS,), 12, 0.0)

    assert told.next("uid", (GPUS, CPU), 12, 0.1) is not None


def test_a_pod_that_was_forgotten_is_told_again() -> None:
    told = Conditions()
    told.next("uid", (GPUS,), 12, 0.0)
    told.forget(("uid",))

    assert told.next("uid", (GPUS,), 12, 0.1) is not None


def test_a_text_that_fits_is_left_alone() -> None:
    assert shortened("ä" * 5, 10) == "ä" * 5

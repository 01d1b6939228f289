"""What a waiting pod's owner reads."""

from scheduler.status.conditions import condition_message, truncated
from solver.domain import Reason, ReasonCode

CPU = Reason(code=ReasonCode.NODE_RESOURCES, message="Insufficient cpu", node_count=4)
TAINT = Reason(code=ReasonCode.NODE_TAINT, message="node(s) had untolerated taint.", node_count=8)
GPUS = Reason(code=ReasonCode.DEVICES_IN_USE, message="request gpus: 12 devices match, 3 are free, 4 needed")


def test_the_histogram_of_nodes_stands_first_and_the_devices_follow() -> None:
    message = condition_message((GPUS, CPU, TAINT), 12)

    assert message == (
        "0/12 nodes are available: 8 node(s) had untolerated taint, 4 Insufficient cpu. "
        "request gpus: 12 devices match, 3 are free, 4 needed."
    )


def test_reasons_that_are_not_about_nodes_need_no_histogram() -> None:
    assert condition_message((GPUS,), 3).startswith("0/3 nodes are available. request gpus:")


def test_a_write_that_failed_says_nothing_of_nodes() -> None:
    failed = Reason(code=ReasonCode.API_ERROR, message="what was decided could not be written: PATCH /x: 500 Oops")

    assert condition_message((failed,), 3) == "what was decided could not be written: PATCH /x: 500 Oops."


def test_a_very_long_message_is_cut() -> None:
    many = tuple(Reason(code=ReasonCode.DEVICES_NONE, message=f"request {n}: nothing matches") for n in range(1000))

    assert len(condition_message(many, 3).encode()) <= 8 * 1024


def test_a_text_is_cut_at_a_character() -> None:
    assert truncated("ä" * 10, 11) == "äää ..."


def test_a_text_that_fits_is_left_alone() -> None:
    assert truncated("ä" * 5, 10) == "ä" * 5


def test_a_user_s_long_text_is_cut_and_leaves_room_for_the_other_reasons() -> None:
    hostile = Reason(code=ReasonCode.SELECTOR_INVALID, message="\x1b[2J\n" * 500_000)
    message = condition_message((hostile, hostile, CPU, GPUS), 12)
    assert len(message.encode()) <= 8 * 1024
    assert message.isprintable()
    assert "needed" in message
    assert "Insufficient cpu" in message


def test_half_a_surrogate_pair_is_written_as_an_escape() -> None:
    assert truncated("a\ud800b", 100) == "a\\ud800b"

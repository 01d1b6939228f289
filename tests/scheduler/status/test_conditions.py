"""What a waiting pod's owner reads."""

from msgspec.structs import replace

from scheduler.status.conditions import condition_message, truncated, with_binding_failure
from solver.domain import Reason, ReasonCode
from solver.feasibility.claims import spec_objections
from tests.support import builders as b

CPU = Reason(code=ReasonCode.NODE_RESOURCES, message="Insufficient cpu", node_count=4)
TAINT = Reason(
    code=ReasonCode.NODE_TAINT,
    message="node(s) had untolerated taint {gpu: a}.",
    node_count=3,
    status="node(s) had untolerated taint(s)",
)
GPUS = Reason(code=ReasonCode.DEVICES_IN_USE, message="request gpus: 12 devices match, 3 are free, 4 needed")
DEVICES = replace(GPUS, node_count=12, status="cannot allocate all claims")
NOT_FOUND = 'persistentvolumeclaim "data" not found'


def test_the_nodes_are_counted_in_kube_scheduler_s_words_and_order_and_the_details_follow() -> None:
    message = condition_message((DEVICES, CPU, TAINT), 19)

    assert message == (
        "0/19 nodes are available: 12 cannot allocate all claims, 3 node(s) had untolerated taint(s), "
        "4 Insufficient cpu. request gpus: 12 devices match, 3 are free, 4 needed; "
        "3 node(s) had untolerated taint {gpu: a}."
    )


def test_reasons_that_are_not_about_nodes_need_no_histogram() -> None:
    assert condition_message((GPUS,), 3).startswith("0/3 nodes are available. request gpus:")


def test_nodes_of_reasons_with_the_same_words_are_added_up() -> None:
    other = replace(CPU, code=ReasonCode.NODE_TOO_SMALL, node_count=2)
    assert condition_message((CPU, other), 6) == "0/6 nodes are available: 6 Insufficient cpu."


def test_what_excludes_all_nodes_at_once_is_said_in_kube_scheduler_s_words_and_then_in_ours() -> None:
    claim = Reason(code=ReasonCode.CLAIM_FULL, message="claim c has 256 consumers", status="resourceclaim in use")
    assert condition_message((claim,), 8) == (
        "0/8 nodes are available: resourceclaim in use. claim c has 256 consumers."
    )


def test_the_first_of_several_plugins_that_exclude_all_nodes_speaks_and_no_reason_is_lost() -> None:
    volumes = [
        Reason(code=ReasonCode.VOLUME_CLAIM_MISSING, message=text, status=text)
        for text in (NOT_FOUND, NOT_FOUND.replace("data", "logs"))
    ]
    assert condition_message(volumes, 8) == (
        '0/8 nodes are available: persistentvolumeclaim "data" not found. persistentvolumeclaim "logs" not found.'
    )


def test_a_cluster_without_nodes_is_said_in_kube_scheduler_s_words() -> None:
    none = Reason(code=ReasonCode.NO_NODES, message="no nodes available to schedule pods")
    assert condition_message((none,), 0) == "no nodes available to schedule pods."


def test_a_gang_that_cannot_be_placed_is_said_in_kube_scheduler_s_words() -> None:
    gang = Reason(code=ReasonCode.GANG_UNPLACED, message="gang g: 2 pods must run together", status="pod group is …")
    assert condition_message((gang, CPU), 4) == (
        "0/4 nodes are available: 4 Insufficient cpu. pod group is …. gang g: 2 pods must run together."
    )


def test_what_kube_scheduler_says_of_a_gang_is_said_once() -> None:
    gang = Reason(code=ReasonCode.GANG_UNPLACED, message="gang g: 2 pods must run together", status="pod group is …")
    assert condition_message((gang,), 4) == "0/4 nodes are available: pod group is …. gang g: 2 pods must run together."


def test_a_hint_stands_behind_kube_scheduler_s_words_and_before_the_details() -> None:
    gang = Reason(code=ReasonCode.GANG_UNPLACED, message="gang g: 2 pods must run together", status="pod group is …")
    hinted = replace(DEVICES, message=f"{GPUS.message}; hint: did you mean 3?")
    assert condition_message((gang, hinted), 12) == (
        "0/12 nodes are available: 12 cannot allocate all claims. pod group is …. Hint: did you mean 3? "
        f"gang g: 2 pods must run together; {GPUS.message}."
    )


def test_a_class_that_does_not_exist_is_said_once() -> None:
    request = b.claim("c", b.request("gpu", "gpu.nvida.com"))
    reasons = spec_objections("c", request.requests, {"gpu.nvidia.com": b.device_class("gpu.nvidia.com")})
    assert condition_message(reasons, 8) == (
        "0/8 nodes are available: request gpu: device class gpu.nvida.com does not exist. "
        "Hint: did you mean gpu.nvidia.com?"
    )


def test_devices_that_did_not_get_ready_are_no_matter_of_nodes() -> None:
    failed = Reason(
        code=ReasonCode.BINDING_FAILED, message="binding timeout: ready of device d was not True within 6 s"
    )
    assert condition_message((failed,), 3) == failed.message + "."


def test_a_binding_failure_fits_beside_a_long_message() -> None:
    message = with_binding_failure("x" * 10_000, "binding timeout: ready of device d")
    assert message.endswith("x ... Before that: binding timeout: ready of device d.")
    assert len(message.encode()) == 8 * 1024


def test_a_write_that_failed_says_nothing_of_nodes() -> None:
    failed = Reason(code=ReasonCode.API_ERROR, message="the decision could not be written: PATCH /x: 500 Oops")

    assert condition_message((failed,), 3) == "the decision could not be written: PATCH /x: 500 Oops."


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

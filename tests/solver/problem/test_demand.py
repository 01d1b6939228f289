"""How a device answers a request, whatever is in use."""

import pytest

from solver.domain import Device, OwnedDevices, SubRequest
from solver.problem.requests import demand
from solver.problem.requests.demand import Answers, Verdict
from tests.support import builders as b
from tests.support import solver_problems as s

ROOT = "device.attributes['x.io'].root == 'p'"


def answers(device: Device, wanted: SubRequest, owned: OwnedDevices | None = None) -> Answers:
    stock = s.inventory(b.node("n1"), b.resource_slice("n1", device), owned=owned)
    return demand.ask(stock, demand.key_of(wanted, {"gpu": b.gpu_class(), "none": b.device_class("none", "false")}))


PLAIN = b.device("d")
TAINTED = b.device("d", taints=(b.taint("t"),))
SHARED = b.device("d", is_shareable=True, capacities={"memory": b.capacity(8, default=2)})
ELSEWHERE = OwnedDevices(drivers=("other",))

VERDICTS: tuple[tuple[str, Device, SubRequest, OwnedDevices | None, Verdict | None], ...] = (
    ("a device of the class", PLAIN, b.alternative(), None, Verdict.YES),
    ("a device of no class", PLAIN, b.alternative("", "none"), None, None),
    ("a selector that is false", PLAIN, b.alternative(selectors=("false",)), None, None),
    ("a selector that fails", PLAIN, b.alternative(selectors=(ROOT,)), None, Verdict.FAILED),
    ("a false selector ahead of one that fails", PLAIN, b.alternative(selectors=("false", ROOT)), None, None),
    (
        "a selector that fails ahead of a false one",
        PLAIN,
        b.alternative(selectors=(ROOT, "false")),
        None,
        Verdict.FAILED,
    ),
    (
        "a class that is false ahead of a failing selector",
        PLAIN,
        b.alternative("", "none", selectors=(ROOT,)),
        None,
        None,
    ),
    ("a taint", TAINTED, b.alternative(), None, Verdict.TAINTED),
    ("a taint that is tolerated", TAINTED, b.alternative(tolerations=(b.toleration("t"),)), None, Verdict.YES),
    ("a taint under admin access", TAINTED, b.alternative(is_admin=True), None, Verdict.TAINTED),
    ("too small", SHARED, b.alternative(capacity={"memory": 9}), None, Verdict.CAPACITY),
    ("another scheduler's", PLAIN, b.alternative(), ELSEWHERE, Verdict.NOT_OWNED),
)


@pytest.mark.parametrize(
    ("device", "wanted", "owned", "verdict"), [row[1:] for row in VERDICTS], ids=[row[0] for row in VERDICTS]
)
def test_a_device_answers(
    device: Device, wanted: SubRequest, owned: OwnedDevices | None, verdict: Verdict | None
) -> None:
    assert list(answers(device, wanted, owned).verdicts.values()) == ([] if verdict is None else [verdict])


def test_what_a_share_consumes_is_kept() -> None:
    assert list(answers(SHARED, b.alternative()).consumption.values()) == [(("memory", 2 * 10**9),)]


def test_an_exclusive_device_consumes_nothing() -> None:
    assert answers(PLAIN, b.alternative()).consumption == {}


def test_the_first_failure_is_quoted_with_its_device() -> None:
    failure = answers(PLAIN, b.alternative(selectors=(ROOT,))).failure
    assert failure.startswith("on device gpu.example.com/n1/d: ")


def test_requests_that_ask_the_same_share_a_key() -> None:
    classes = {"gpu": b.gpu_class()}
    one, other = (demand.key_of(b.alternative(name, count=count), classes) for name, count in (("a", 1), ("b", 2)))
    assert one == other


DIFFERENT = (
    b.alternative(selectors=("true",)),
    b.alternative(tolerations=(b.toleration("t"),)),
    b.alternative(is_admin=True),
    b.alternative(mode="All"),
    b.alternative(capacity={"memory": 1}),
)


@pytest.mark.parametrize("wanted", DIFFERENT, ids=["selectors", "tolerations", "admin", "all", "capacity"])
def test_requests_that_ask_otherwise_have_keys_of_their_own(wanted: SubRequest) -> None:
    classes = {"gpu": b.gpu_class()}
    assert demand.key_of(wanted, classes) != demand.key_of(b.alternative(), classes)

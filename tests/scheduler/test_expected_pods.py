"""`profiles[].expectedPods`: what the solver reads of it, and what is said of mistakes."""

import re
from pathlib import Path

import pytest
import yaml

from scheduler.settings import SettingsError, parse
from solver.domain import ExpectedPod, Request, SubRequest
from solver.domain.quantity import parse as quantity

HEAD = "apiVersion: config.dovetail.dev/v1alpha1\nkind: DovetailConfiguration\n"
PAGE = Path(__file__).parents[2] / "docs" / "policies.md"


def written(*kinds: object) -> str:
    return HEAD + yaml.safe_dump({"profiles": [{"expectedPods": list(kinds)}]})


def gpus(**more: object) -> dict[str, object]:
    return {"deviceClassName": "gpu", **more}


def test_the_example_of_the_docs_is_what_the_solver_expects() -> None:
    found = re.findall(r"```yaml\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    (example,) = (each for each in found if "expectedPods" in each)
    whole, shared = parse(HEAD + example, "file").policy("dovetail").expected
    four = SubRequest(device_class="gpu.example.com", count=4)
    part = SubRequest(
        device_class="gpu.example.com",
        selectors=("device.attributes['gpu.example.com'].model == 'A100'",),
        capacity_requests=(("memory", quantity("20Gi")),),
    )
    assert whole == ExpectedPod(
        share=300,
        requests=(("cpu", 32_000), ("memory", 256 << 30)),
        device_requests=(Request(name="devices-0", alternatives=(four,)),),
    )
    assert shared.requests == (("cpu", 8_000), ("memory", 32 << 30))
    assert shared.device_requests == (Request(name="devices-0", alternatives=(part,)),)


def test_amounts_are_rounded_up_as_those_of_pods_are() -> None:
    kind = {"requests": {"cpu": "0.0001", "memory": "100m"}, "devices": [gpus()]}
    (found,) = parse(written(kind), "file").policy("dovetail").expected
    assert found.requests == (("cpu", 1), ("memory", 1))


MISTAKES = {
    "no devices": ({"share": 5}, "profiles[0].expectedPods[0].devices: is empty, write what these pods ask for"),
    "no class": ({"devices": [{}]}, "expectedPods[0].devices[0].deviceClassName: is empty, write the name"),
    "a share": ({"share": 1001, "devices": [gpus()]}, "profiles[0].expectedPods[0].share: 1001 is out of range"),
    "a count": ({"devices": [gpus(count=0)]}, "profiles[0].expectedPods[0].devices[0].count: 0 is out of range"),
    "a selector": (
        {"devices": [gpus(selectors=["device.driver =="])]},
        "profiles[0].expectedPods[0].devices[0].selectors[0]: ",
    ),
    "an amount": (
        {"requests": {"cpu": "8 cores"}, "devices": [gpus()]},
        "profiles[0].expectedPods[0].requests.cpu: '8 cores' is no amount, write one such as 500m, 8 or 16Gi",
    ),
    "less than nothing": (
        {"devices": [gpus(capacity={"memory": "-1"})]},
        "profiles[0].expectedPods[0].devices[0].capacity.memory: '-1' is no amount",
    ),
    "a number": (
        {"requests": {"cpu": 8}, "devices": [gpus()]},
        "profiles[0].expectedPods[0].requests[...]: expected text, got a whole number, write it in quotes",
    ),
    "a key": ({"device": [gpus()]}, "profiles[0].expectedPods[0].device: unknown field, did you mean devices?"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_named_with_its_place(name: str) -> None:
    kind, message = MISTAKES[name]
    with pytest.raises(SettingsError) as raised:
        parse(written(kind), "file")
    assert message in str(raised.value)


def test_a_policy_that_leaves_no_room_is_named() -> None:
    text = HEAD + yaml.safe_dump({"profiles": [{"policy": "spread", "expectedPods": [{"devices": [gpus()]}]}]})
    with pytest.raises(SettingsError, match=r"profiles\[0\]\.expectedPods: the policy spread leaves no room for them"):
        parse(text, "file")


def test_shares_come_to_a_thousand_at_most_and_kinds_to_thirty_two() -> None:
    with pytest.raises(SettingsError, match="the shares come to 1200, write at most 1000 together"):
        parse(written(*({"share": 600, "devices": [gpus()]} for _ in range(2))), "file")
    with pytest.raises(SettingsError, match="33 kinds are too many, write the 32 most frequent ones"):
        parse(written(*({"share": 1, "devices": [gpus()]} for _ in range(33))), "file")

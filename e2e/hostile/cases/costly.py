"""Claims that take long to decide about, or that are not understood."""

from e2e.hostile.cases.case import Hands, Manifest, case, claim, pod, request, with_claim
from e2e.hostile.objects.claims import MOST_ALTERNATIVES, MOST_REQUESTS
from e2e.hostile.objects.draw import LONG_DIGITS
from e2e.hostile.objects.kinds import DRIVER, GPU_CLASS, GPU_DRIVER
from e2e.hostile.objects.selectors import nested_loops, regular_expression

_UUID = f'device.attributes["{GPU_DRIVER}"].uuid'
_ROOT = "resource.kubernetes.io/pcieRoot"
_MATCHED = ("gpu.nvidia.com/productName", "gpu.nvidia.com/driverVersion", _ROOT)


@case("digits", "one annotation gang-minimum of 4,301 digits")
async def digits(hands: Hands) -> None:
    """Create one pod."""
    await hands.make(pod("digits", annotations={"dovetail.dev/gang-minimum": "9" * LONG_DIGITS}))


@case("alternatives", "claims of 32 requests, 8 alternatives each, 31 constraints")
async def alternatives(hands: Hands) -> None:
    """Create a claim, then some more."""
    names = [f"r{index}" for index in range(MOST_REQUESTS)]
    wanted = [
        {
            "name": name,
            "firstAvailable": [
                {"name": f"s{place}", "deviceClassName": GPU_CLASS, "count": 1} for place in range(MOST_ALTERNATIVES)
            ],
        }
        for name in names
    ]
    constraints = [
        {"requests": [names[index], names[index + 1]], "matchAttribute": _MATCHED[index % len(_MATCHED)]}
        for index in range(MOST_REQUESTS - 1)
    ]
    for number in range(4):
        await hands.make(*with_claim(f"alternatives-{number}", *wanted, constraints=constraints))
        await hands.pause(5)


@case("regular-expressions", "selectors that match (.*) × 600 against every GPU's uuid")
async def regular_expressions(hands: Hands) -> None:
    """Create claims with patterns of several lengths, none of which is the other's."""
    for number in range(6):
        await hands.make(*with_claim(f"pattern-{number}", request("r0", regular_expression(600 - number))))
        await hands.pause(4)


@case("costly-selectors", "32 selectors for each device, each as costly as the API allows")
async def costly_selectors(hands: Hands) -> None:
    """Create claims whose selectors loop some ten thousand times over every device."""
    for number in range(3):
        selectors = [nested_loops(3, 18, f'{_UUID} != "{number}-{index}"') for index in range(32)]
        await hands.make(*with_claim(f"loops-{number}", request("r0", *selectors)))
        await hands.pause(8)


@case("versions", "isSemver of thousands of digits, each claim another number")
async def versions(hands: Hands) -> None:
    """Create a new one every half second."""

    async def step(number: int) -> None:
        await hands.make(*with_claim(f"version-{number}", request("r0", f'isSemver("1.2.{"9" * (5000 + number)}")')))

    await hands.repeat(2, step)


@case("deep-parameters", "opaque parameters of 2,400 lists in each other")
async def deep_parameters(hands: Hands) -> None:
    """Create a claim with them, and a pod that uses it."""
    config = [{"opaque": {"driver": DRIVER, "parameters": {"deep": "nested values: [2400"}}}]
    await hands.make(*with_claim("deep", config=config))


@case("misspelt-selectors", "1,000 waiting pods, each with an attribute that no device has")
async def misspelt_selectors(hands: Hands) -> None:
    """Create them."""
    await hands.many(1000, lambda index: claim(f"m{index}", request("r0", _misspelt(index))))
    await hands.many(1000, lambda index: pod(f"m{index}", claims=(f"m{index}",)))


def _misspelt(index: int) -> str:
    return f'device.attributes["{GPU_DRIVER}"].prodctName{index} == "H100"'


@case("distinct-selectors", "1,000 waiting pods, each with a selector of its own that no device meets")
async def distinct_selectors(hands: Hands) -> None:
    """Create them."""
    await hands.many(1000, lambda index: claim(f"d{index}", request("r0", f'{_UUID} == "none-{index}"')))
    await hands.many(1000, lambda index: pod(f"d{index}", claims=(f"d{index}",)))


@case("distinct-demands", "1,000 waiting pods, each with a capacity request of its own that no device meets")
async def distinct_demands(hands: Hands) -> None:
    """Create them."""

    def wanted(index: int) -> Manifest:
        return request("r0", capacity={"requests": {"memory": f"{500 + index}Gi"}})

    await hands.many(1000, lambda index: claim(f"c{index}", wanted(index)))
    await hands.many(1000, lambda index: pod(f"c{index}", claims=(f"c{index}",)))


@case("distinct-attributes", "500 waiting pods, each with a constraint about an attribute that no device has")
async def distinct_attributes(hands: Hands) -> None:
    """Create them."""

    def constraint(index: int) -> list[Manifest]:
        return [{"matchAttribute": f"{GPU_DRIVER}/attribute-{index}"}]

    await hands.many(500, lambda index: claim(f"a{index}", request("r0", count=2), constraints=constraint(index)))
    await hands.many(500, lambda index: pod(f"a{index}", claims=(f"a{index}",)))


@case("impossible-constraints", "claims whose constraints no set of devices meets")
async def impossible_constraints(hands: Hands) -> None:
    """Ask for GPUs of one uuid, and for more different roots than a node has: of all together, and of pairs."""
    wanted = [request(f"r{index}") for index in range(8)]
    pairs = [[f"r{one}", f"r{other}"] for other in range(5) for one in range(other)]
    kinds: tuple[list[Manifest], ...] = (
        [{"matchAttribute": f"{GPU_DRIVER}/uuid"}],
        [{"distinctAttribute": _ROOT}],
        [{"distinctAttribute": _ROOT, "requests": pair} for pair in pairs],
    )
    for number in range(40):
        await hands.make(*with_claim(f"impossible-{number}", *wanted, constraints=kinds[number % len(kinds)]))


@case("failing-selectors", "200 waiting pods whose selectors fail on every device")
async def failing_selectors(hands: Hands) -> None:
    """Create them, each with another expression."""
    await hands.many(200, lambda index: claim(f"f{index}", request("r0", f"[{index}][9] == 1")))
    await hands.many(200, lambda index: pod(f"f{index}", claims=(f"f{index}",)))

"""Many changes: pods and claims that come, go and are edited without end."""

from e2e.hostile.cases.case import Hands, Manifest, case, claim, pod, request


@case("pod-churn", "pods that come and go, ten a second, and labels of 50 that change 100 times a second")
async def pod_churn(hands: Hands) -> None:
    """Edit waiting and running pods in turn."""
    kinds: tuple[Manifest, ...] = ({"cpu": "900"}, {"cpu": "1m"})
    pods = [pod(f"edited-{index}", requests=kinds[index % 2]) for index in range(50)]
    await hands.make(*pods)

    async def step(number: int) -> None:
        await hands.patch(pods[number % 50], {"metadata": {"labels": {"edited": str(number)}}})
        if number % 10 == 0:
            await hands.make(pod(f"brief-{number}", requests=kinds[number // 10 % 2]))
            await hands.remove(pod(f"brief-{number - 100}"))

    await hands.repeat(100, step)


@case("claim-churn", "claims of 50 waiting pods that are edited 100 times a second")
async def claim_churn(hands: Hands) -> None:
    """Edit annotations and labels."""
    claims = [claim(f"c{index}", request("r0", count=9 + index)) for index in range(50)]
    await hands.make(*claims, *(pod(f"c{index}", claims=(f"c{index}",)) for index in range(50)))

    async def step(number: int) -> None:
        await hands.patch(claims[number % 50], {"metadata": {"annotations": {"edited": str(number)}}})

    await hands.repeat(100, step)


@case("claim-renewal", "claims that are deleted and made anew under pods that wait for them")
async def claim_renewal(hands: Hands) -> None:
    """Each time it asks for something else."""
    await hands.make(*(pod(f"c{index}", claims=(f"c{index}",)) for index in range(50)))

    async def step(number: int) -> None:
        name = f"c{number % 50}"
        await hands.remove(claim(name))
        await hands.make(claim(name, request("r0", count=1 + number % 12)))

    await hands.repeat(20, step)


@case("owners", "100 waiting pods whose owner changes 50 times a second")
async def owners(hands: Hands) -> None:
    """Replace the controller of each."""
    pods = [pod(f"owned-{index}", requests={"cpu": "900"}) for index in range(100)]
    await hands.make(*pods)

    async def step(number: int) -> None:
        owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": f"o{number}", "uid": f"o{number}"}
        body = {"metadata": {"ownerReferences": [{**owner, "controller": True}]}}
        await hands.patch(pods[number % 100], body)

    await hands.repeat(50, step)


@case("finalizers", "pods of 63 finalizers that are deleted and stay")
async def finalizers(hands: Hands) -> None:
    """Create pods with room, and delete each a second later."""
    names = [f"example.com/{index}" for index in range(63)]

    def held(number: int) -> Manifest:
        made = pod(f"held-{number}")
        made["metadata"]["finalizers"] = names
        return made

    async def step(number: int) -> None:
        await hands.make(held(number))
        if number >= 10:
            await hands.remove(pod(f"held-{number - 10}"))

    await hands.repeat(10, step)


@case("budgets", "200 disruption budgets over each other, whose numbers change")
async def budgets(hands: Hands) -> None:
    """Let each select everything; change one twenty times a second."""
    made = [_budget(index) for index in range(200)]
    await hands.make(*(pod(f"b{index}") for index in range(50)))
    await hands.many(200, lambda index: made[index])

    async def step(number: int) -> None:
        await hands.patch(made[number % 200], {"spec": {"minAvailable": (2**31 - 1, "100%", 0)[number % 3]}})

    await hands.repeat(20, step)


def _budget(index: int) -> Manifest:
    metadata = {"name": f"b{index}", "namespace": pod("x")["metadata"]["namespace"]}
    spec = {"minAvailable": 2**31 - 1, "selector": {}}
    return {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": metadata, "spec": spec}


@case("gang-churn", "gangs of 40 whose members come, go and change what their gang is")
async def gang_churn(hands: Hands) -> None:
    """Edit annotations of 400 members that wait."""

    def member(index: int) -> Manifest:
        labels = {"dovetail.dev/gang": f"gang-{index // 40}"}
        annotations = {"dovetail.dev/gang-minimum": "40"}
        return pod(f"m{index}", requests={"cpu": "900"}, labels=labels, annotations=annotations)

    pods = [member(index) for index in range(400)]
    await hands.many(400, lambda index: pods[index])

    async def step(number: int) -> None:
        body = {"metadata": {"annotations": {"dovetail.dev/gang-minimum": str(40 + number % 2)}}}
        await hands.patch(pods[number % 400], body)

    await hands.repeat(50, step)

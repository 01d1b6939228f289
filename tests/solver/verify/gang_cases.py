"""A valid plan for a gang, and the ways to break it."""

from collections.abc import Callable

from msgspec.structs import replace

from solver.domain import Gang
from solver.verify import Rule
from tests.solver.verify import cases as c
from tests.support import builders as b

RACK = "example.com/rack"
CLIQUE = f"{b.GPU_DRIVER}/clique"


def pair() -> c.Case:
    """A member runs, two more arrive beside it: three have to run, in one rack and one clique."""
    pods = tuple(b.member(b.pod(name, name), "g") for name in ("one", "two"))
    running = b.member(b.pod("zero", "zero", node_name="n1"), "g")
    claims = [b.claim("one"), b.claim("two")]
    objects: tuple[b.SnapshotObject, ...] = (
        *(b.node(f"n{i}", labels={RACK: rack}) for i, rack in ((1, "r1"), (2, "r1"), (3, "r2"))),
        *(
            b.resource_slice(f"n{i}", *(b.device(f"gpu-{j}", attributes={"clique": clique}) for j in range(2)))
            for i, clique in ((1, "x"), (2, "x"), (3, "y"))
        ),
        b.gpu_class(),
        *claims,
        b.held("zero", b.result("gpu", "gpu-0", "n1"), node_name="n1"),
        running,
    )
    plan = b.plan(
        b.placement(pods[0], "n1"),
        b.placement(pods[1], "n2"),
        b.claim_allocation(claims[0], b.result("gpu", "gpu-1", "n1"), node_name="n1"),
        b.claim_allocation(claims[1], b.result("gpu", "gpu-1", "n2"), node_name="n2"),
    )
    gang = b.gang("g", 3, b.by_label(RACK), b.by_device(CLIQUE))
    return c.Case(b.snapshot(*objects), b.batch(*pods, gangs=[gang]), plan)


def gang(**changes: object) -> c.Change:
    """The gang demands something else."""

    def change(case: c.Case) -> c.Case:
        gangs: tuple[Gang, ...] = tuple(replace(each, **changes) for each in case.batch.gangs)
        return case._replace(batch=replace(case.batch, gangs=gangs))

    return change


def without_two(case: c.Case) -> c.Case:
    """The second pod waits instead."""
    pod = next(each for each in case.batch.pods if each.id.name == "two")
    plan = replace(
        case.plan,
        placements=case.plan.placements[:1],
        allocations=case.plan.allocations[:1],
        unplaced=(b.unplaced(pod),),
    )
    return case._replace(plan=plan)


def alone(case: c.Case) -> c.Case:
    """No member runs."""
    return c.removed("pods", "zero")(case)


def together() -> c.Change:
    """Both pods are on the first node, with a device each."""

    def change(case: c.Case) -> c.Case:
        first, second = case.plan.placements
        one, two = case.plan.allocations
        moved = replace(two, allocation=replace(one.allocation, results=(b.result("gpu", "gpu-0", "n1"),)))
        plan = replace(case.plan, placements=(first, replace(second, node=first.node)), allocations=(one, moved))
        return c.removed("claims", "zero")(case._replace(plan=plan))

    return change


BROKEN: tuple[tuple[str, Callable[[], c.Case], c.Change, set[Rule]], ...] = (
    ("a gang is placed in part", pair, without_two, {Rule.GANG_PARTIAL}),
    ("a gang needs one more", pair, gang(min_count=4), {Rule.GANG_PARTIAL}),
    ("a member that runs is being deleted", pair, c.running("zero", is_deleting=True), {Rule.GANG_PARTIAL}),
    ("a member that runs is of another gang", pair, c.running("zero", gang=b.gang_id("h")), {Rule.GANG_PARTIAL}),
    ("a gang is invalid", pair, gang(invalid="its members disagree"), {Rule.GANG_INVALID}),
    ("a pod arrives in another rack", pair, c.node("n2", labels=((RACK, "r9"),)), {Rule.GANG_TOPOLOGY}),
    ("a pod arrives on a node without a rack", pair, c.node("n2", labels=()), {Rule.GANG_TOPOLOGY}),
    ("all arrive elsewhere than the others run", pair, c.running("zero", node_name="n3"), {Rule.GANG_TOPOLOGY}),
    (
        "several racks, and no pod runs yet",
        pair,
        c.both(alone, gang(min_count=2, levels=(b.by_label(RACK),)), c.node("n2", labels=((RACK, "r9"),))),
        {Rule.GANG_TOPOLOGY},
    ),
    (
        "a device of another clique",
        pair,
        c.both(
            gang(levels=(b.by_device(CLIQUE),)),
            c.slices("n2", devices=tuple(b.device(f"gpu-{j}", attributes={"clique": "z"}) for j in range(2))),
        ),
        {Rule.GANG_TOPOLOGY},
    ),
    (
        "other devices than the members hold",
        pair,
        c.both(
            gang(levels=(b.by_device(CLIQUE),)),
            c.slices(
                "n1",
                devices=(
                    b.device("gpu-0", attributes={"clique": "y"}),
                    b.device("gpu-1", attributes={"clique": "x"}),
                ),
            ),
        ),
        {Rule.GANG_TOPOLOGY},
    ),
    (
        "a member gets a device without the attribute, and others have it",
        pair,
        c.both(
            gang(levels=(b.by_device(CLIQUE),)),
            c.slices("n2", devices=(b.device("gpu-0", attributes={"clique": "x"}), b.device("gpu-1"))),
        ),
        {Rule.GANG_TOPOLOGY},
    ),
    (
        "members on one node get devices of different cliques",
        pair,
        c.both(
            alone,
            gang(min_count=2, levels=(b.by_device(CLIQUE),)),
            together(),
            c.slices(
                "n1",
                devices=tuple(b.device(f"gpu-{j}", attributes={"clique": each}) for j, each in enumerate("xy")),
            ),
        ),
        {Rule.GANG_TOPOLOGY},
    ),
    (
        "no pod gets a device with the attribute, and none could",
        pair,
        c.both(
            alone,
            gang(min_count=2, levels=(b.by_device(CLIQUE),)),
            *(c.slices(f"n{i}", devices=(b.device("gpu-0"), b.device("gpu-1"))) for i in (1, 2, 3)),
        ),
        {Rule.GANG_TOPOLOGY},
    ),
    (
        "an attribute that no device has",
        pair,
        gang(levels=(b.by_device("gpu.example.com/island"),)),
        {Rule.GANG_TOPOLOGY},
    ),
)

VALID: tuple[tuple[str, Callable[[], c.Case], c.Change], ...] = (
    ("a gang beside its running member", pair, lambda case: case),
    (
        "a preference is no rule",
        pair,
        c.both(gang(levels=(b.by_label(RACK, is_required=False),)), c.node("n2", labels=((RACK, "r9"),))),
    ),
    ("a gang of the basic policy in part", pair, c.both(without_two, gang(min_count=0))),
    ("the rest of a gang of which enough run", pair, c.both(without_two, gang(min_count=2))),
)

"""The workloads: a cluster and a batch each, made from a seed."""

import functools
import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import msgspec

from e2e.bench import asks, clusters
from e2e.bench.asks import PRIORITIES, Ask, first_available, gpus, pairs, profile, share, together
from e2e.bench.clusters import CLIQUE_LABEL, NAMESPACE, Share
from e2e.fleet import nvidia
from e2e.fleet.pci import PCI_BUS_ID
from solver.domain import (
    Batch,
    Constraint,
    ConstraintKind,
    Gang,
    GangId,
    GangLevel,
    Pod,
    PodId,
    Policy,
    Request,
    Snapshot,
    SubRequest,
)

H100, A100, L40S, H200 = (model.product for model in (nvidia.H100, nvidia.A100_40GB, nvidia.L40S, clusters.H200))
MODELS = (Share(40, clusters.h100_alone), Share(30, clusters.a100), Share(20, clusters.l40s), Share(10, clusters.h200))
EVERYTHING = (
    Share(40, clusters.h100),
    Share(25, clusters.a100),
    Share(15, clusters.l40s),
    Share(10, clusters.h200),
    Share(5, clusters.partitionable),
    Share(5, clusters.shareable),
)
BY_MODEL = (
    gpus(1, weight=6),
    gpus(1, model=H100, weight=4),
    gpus(2, model=A100, weight=3),
    gpus(4, model=H100, weight=2),
    first_available((1, H200), (1, H100), (1, A100), weight=4),
    first_available((2, H200), (4, A100), weight=2),
    gpus(1, model=L40S, weight=3),
    gpus(8, model=A100, weight=1),
)
BY_PLACE = (gpus(1, weight=3), pairs(2, weight=4), together(4, weight=2), pairs(1, weight=2))
BY_PLACE_TIGHT = (gpus(1, weight=2), gpus(3, weight=2), pairs(2, weight=4), together(4, weight=3), pairs(1, weight=1))
PROFILES = (
    profile("1g.5gb", weight=3),
    profile("2g.10gb", weight=3),
    profile("3g.20gb", weight=3),
    profile("4g.20gb", weight=2),
)
DOMAIN_NODES = 16
ANY_GPU = SubRequest(device_class=asks.GPU_CLASS)
SHARES = tuple(share(gibibytes) for gibibytes in range(5, 45, 5))
ALL_KINDS = (
    *BY_MODEL,
    pairs(2, weight=4),
    together(4, weight=2),
    profile("1g.5gb", weight=2),
    profile("3g.20gb", weight=2),
    share(20, weight=2),
    share(35, weight=2),
)


@dataclass(frozen=True, slots=True)
class Case:
    """One workload with one seed, or a recorded case, ready to be solved; recorded ones have a policy of their own."""

    snapshot: Snapshot
    batch: Batch
    policy: Policy | None = None


@dataclass(frozen=True, slots=True)
class Workload:
    """A workload; `is_large` ones run only when they are named or all are asked for."""

    name: str
    about: str
    make: Callable[[int], Case]
    is_large: bool = False
    is_recorded: bool = False


def workloads() -> dict[str, Workload]:
    """Return all of them by name, in the order of the table."""
    made = [
        Workload("W1", "1 GPU a pod, equal nodes", _w1),
        Workload("W2", "four models, firstAvailable", functools.partial(_by_model, 500, 1000)),
        Workload("W2t", "four models, tight", functools.partial(_by_model, 120, 500)),
        Workload("W3", "GPU and NIC by PCIe root, NUMA", _w3),
        Workload("W3t", "GPU and NIC by PCIe root, tight", _w3t),
        Workload("W4", "MIG profiles over counters", _w4),
        Workload("W5", "shares of memory", _w5),
        Workload("W6", "gangs of 16 × 8 in one NVLink domain", _w6),
        Workload("W7", "everything, half in use", functools.partial(_everything, (0, 2, 4, 6, 8)), is_large=True),
        Workload(
            "W7t", "everything, hardly anything free", functools.partial(_everything, (0, 0, 0, 1, 2)), is_large=True
        ),
        Workload("W8", "first fit strands GPUs", _w8),
        Workload("W8h", "everything fits exactly once", functools.partial(_exact, 60)),
        Workload("W8h12", "the same on 12 nodes", functools.partial(_exact, 12)),
        Workload("W9", "gangs whose domains others fill first", _w9),
        Workload("W9t", "the same, on a cluster in use", _w9t, is_large=True),
        Workload("W10", "pods that fit nowhere among others", _w10, is_large=True),
        Workload("W11", "pods without devices, scores", _w11),
        Workload("W12", "five, three and two of eight GPUs", _w12),
        Workload("W13", "few MIG pods on many unused nodes", _w13),
    ]
    return {workload.name: workload for workload in made}


@functools.cache
def _cluster(nodes: int, shares: tuple[Share, ...]) -> Snapshot:
    return clusters.cluster(nodes, *shares)


def _chance(seed: int) -> random.Random:
    return random.Random(seed)  # noqa: S311 - a workload, not a secret


def _case(snapshot: Snapshot, wanted: Sequence[Ask], priorities: Iterable[int]) -> Case:
    pods, claims = asks.waiting(wanted, priorities)
    return Case(clusters.waiting(snapshot, claims), Batch(pods=tuple(pods)))


def _drawn(snapshot: Snapshot, kinds: Sequence[Ask], count: int, chance: random.Random) -> Case:
    """Draw so many asks and their priorities."""
    return _case(snapshot, asks.mixed(kinds, count, chance), chance.choices(PRIORITIES, k=count))


def _w1(seed: int) -> Case:
    return _drawn(_cluster(500, (Share(100, clusters.h100_alone),)), (gpus(1),), 1000, _chance(seed))


def _by_model(nodes: int, count: int, seed: int) -> Case:
    return _drawn(_cluster(nodes, MODELS), BY_MODEL, count, _chance(seed))


def _w3(seed: int) -> Case:
    return _drawn(_cluster(500, (Share(100, clusters.h100),)), BY_PLACE, 1100, _chance(seed))


def _w3t(seed: int) -> Case:
    return _drawn(_cluster(250, (Share(100, clusters.h100_few_cards),)), BY_PLACE_TIGHT, 900, _chance(seed))


def _w4(seed: int) -> Case:
    return _drawn(_cluster(60, (Share(100, clusters.partitionable),)), PROFILES, 1500, _chance(seed))


def _w5(seed: int) -> Case:
    return _drawn(_cluster(50, (Share(100, clusters.shareable),)), SHARES, 1500, _chance(seed))


def _w6(seed: int) -> Case:
    """
    Make four gangs that each need a whole NVLink domain, of which two are free, and 202 small pods before them.

    Thirty domains are in use, the most of them nearly full; the free ones are where first fit looks first.
    """
    chance = _chance(seed)
    bare = _with_domains(_cluster(512, (Share(100, clusters.h100_alone),)), DOMAIN_NODES)
    snapshot = clusters.in_use(bare, (0, 0, 0, 1, 2, 4), chance, first=2 * DOMAIN_NODES)
    return _with_gangs(snapshot, asks.mixed((gpus(1, weight=3), gpus(2)), 202, chance), ("a", "b", "c", "d"))


def _with_gangs(
    snapshot: Snapshot, wanted: Sequence[Ask], names: Sequence[str], *, priority: int = 1, size: int = DOMAIN_NODES
) -> Case:
    """Put single pods of a priority before gangs, each of which needs all GPUs of so many nodes of one domain."""
    singles, claims = asks.waiting(wanted, (priority,) * len(wanted))
    gangs, pods = [], list(singles)
    for name in names:
        gang = GangId(NAMESPACE, f"gang-{name}", "scheduling.k8s.io")
        level = GangLevel(node_label=CLIQUE_LABEL)
        gangs.append(Gang(id=gang, min_count=size, member_count=size, levels=(level,)))
        members, theirs = asks.waiting([gpus(8)] * size, (1,) * size, prefix=f"{name}-")
        pods += [msgspec.structs.replace(pod, gang=gang) for pod in members]
        claims += theirs
    return Case(clusters.waiting(snapshot, claims), Batch(pods=tuple(pods), gangs=tuple(gangs)))


def _with_domains(snapshot: Snapshot, size: int) -> Snapshot:
    """Label every so many nodes as one NVLink domain."""
    domains = ((node, (CLIQUE_LABEL, f"clique-{index // size:02}")) for index, node in enumerate(snapshot.nodes))
    nodes = (msgspec.structs.replace(node, labels=tuple(sorted((*node.labels, label)))) for node, label in domains)
    return msgspec.structs.replace(snapshot, nodes=tuple(nodes))


def _everything(free: Sequence[int], seed: int) -> Case:
    chance = _chance(seed)
    return _drawn(clusters.in_use(_cluster(5000, EVERYTHING), free, chance), ALL_KINDS, 2000, chance)


def _w8(seed: int) -> Case:
    """Forty pods of eight after eighty of one or two: a solver that spreads the small ones has no whole node left."""
    chance = _chance(seed)
    small = [gpus(chance.choice((1, 1, 2))) for _ in range(80)]
    wanted = chance.sample([*small, *(gpus(8) for _ in range(40))], 120)
    return _case(_cluster(60, (Share(100, clusters.h100_alone),)), wanted, (1 for _ in wanted))


def _exact(nodes: int, seed: int) -> Case:
    """Cut every node into four pods, in GPUs and in cpu, and shuffle them; a pod's priority is its number of GPUs."""
    chance = _chance(seed)
    wanted = [gpus(count, cpu=cpu) for _ in range(nodes) for count, cpu in _pieces(chance)]
    chance.shuffle(wanted)
    sizes = [ask.memory // clusters.MEMORY_PER_GPU for ask in wanted]
    return _case(_cluster(nodes, (Share(100, clusters.h100_alone),)), wanted, sizes)


def _w9(seed: int) -> Case:
    """Make 60 pods of five GPUs that could run anywhere, and four gangs that need all of a domain; all fit."""
    bare, chance = _cluster(128, (Share(100, clusters.h100_alone),)), _chance(seed)
    inside = _with_domains(msgspec.structs.replace(bare, nodes=bare.nodes[:64]), DOMAIN_NODES)
    snapshot = msgspec.structs.replace(bare, nodes=(*inside.nodes, *bare.nodes[64:]))
    wanted = chance.sample([gpus(5)] * 30 + [gpus(6)] * 30, 60)
    return _with_gangs(snapshot, wanted, ("a", "b", "c", "d"), priority=2)


def _w9t(seed: int) -> Case:
    """Make gangs of four whole nodes inside domains of eight, of which pods before them take what others could give."""
    chance = _chance(seed)
    bare = _with_domains(_cluster(768, (Share(100, clusters.h100_alone),)), 8)
    snapshot = clusters.in_use(bare, (2, 4, 6, 8, 8), chance)
    wanted = [gpus(chance.choice((1, 2, 3, 5, 6, 7)), cpu=8000 + 500 * (index % 16)) for index in range(500)]
    return _with_gangs(snapshot, wanted, [f"{index:02}" for index in range(48)], priority=2, size=4)


def _w10(seed: int) -> Case:
    """
    Make pods of which every tenth asks for several GPUs of one PCI bus, one request each: every bus has one.

    Nodes are in use to different degrees, so that there are too many kinds of them to look at each.
    """
    chance, kinds = _chance(seed), [gpus(1)] * 360
    for index in range(40):
        requests = tuple(Request(name=f"gpu-{number}", alternatives=(ANY_GPU,)) for number in range(2 + index % 3))
        kinds.append(Ask(requests, (Constraint(kind=ConstraintKind.MATCH, attribute=PCI_BUS_ID),)))
    snapshot = clusters.in_use(_cluster(1000, EVERYTHING), (0, 2, 4, 6, 8), chance)
    return _case(snapshot, chance.sample(kinds, 400), chance.choices(PRIORITIES, k=400))


def _w11(seed: int) -> Case:
    """Make 400 pods without devices on 300 nodes of several sizes, half of which hold something already."""
    chance, bare = _chance(seed), _cluster(300, MODELS)
    snapshot = clusters.in_use(bare, (0, 4, 8, 8), chance)
    pods = [
        Pod(
            id=PodId(NAMESPACE, f"p{index:05}"),
            uid=f"uid-p{index:05}",
            scheduler_name="dovetail",
            requests=(("cpu", 1000 * chance.randint(1, 12)), ("memory", chance.randint(1, 40) * 2**30)),
        )
        for index in range(400)
    ]
    return Case(snapshot, Batch(pods=tuple(pods)))


def _w12(seed: int) -> Case:
    """Make pods that leave GPUs of a node over: sums over nodes promise more than single nodes hold."""
    kinds = (gpus(5, weight=4), gpus(3, weight=2), gpus(2))
    return _drawn(_cluster(150, (Share(100, clusters.h100_alone),)), kinds, 200, _chance(seed))


def _w13(seed: int) -> Case:
    """Make pods that a few of many equal nodes serve: most of a model with all of them is in vain."""
    return _drawn(_cluster(200, (Share(100, clusters.partitionable),)), PROFILES[:1], 100, _chance(seed))


def _pieces(chance: random.Random) -> list[tuple[int, int]]:
    """Four parts of eight GPUs and of 184 cores, in steps of 4."""
    counts = chance.choice(((2, 2, 2, 2), (1, 1, 3, 3), (1, 2, 2, 3), (1, 1, 1, 5), (1, 1, 2, 4)))
    cores = sorted(chance.sample(range(1, 46), 3))
    parts = [high - low for low, high in zip([0, *cores], [*cores, 46], strict=True)]
    return [(count, 4000 * part) for count, part in zip(counts, parts, strict=True)]

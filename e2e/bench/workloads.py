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
from solver.domain import Batch, Gang, GangId, GangLevel, Policy, Snapshot

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
    singles, claims = asks.waiting(asks.mixed((gpus(1, weight=3), gpus(2)), 202, chance), (1,) * 202)
    gangs, pods = [], list(singles)
    for name in ("a", "b", "c", "d"):
        gang = GangId(NAMESPACE, f"gang-{name}", "scheduling.k8s.io")
        level = GangLevel(node_label=CLIQUE_LABEL)
        gangs.append(Gang(id=gang, min_count=DOMAIN_NODES, member_count=DOMAIN_NODES, levels=(level,)))
        members, theirs = asks.waiting([gpus(8)] * DOMAIN_NODES, (1,) * DOMAIN_NODES, prefix=f"{name}-")
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
    """Forty pods of eight after eighty of one or two: who spreads the small ones over nodes has no whole node left."""
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


def _pieces(chance: random.Random) -> list[tuple[int, int]]:
    """Four parts of eight GPUs and of 184 cores, in steps of 4."""
    counts = chance.choice(((2, 2, 2, 2), (1, 1, 3, 3), (1, 2, 2, 3), (1, 1, 1, 5), (1, 1, 2, 4)))
    cores = sorted(chance.sample(range(1, 46), 3))
    parts = [high - low for low, high in zip([0, *cores], [*cores, 46], strict=True)]
    return [(count, 4000 * part) for count, part in zip(counts, parts, strict=True)]

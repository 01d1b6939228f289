"""Gangs against trying everything: every pod on every node or nowhere, none or enough of each gang, in one domain."""

from collections import Counter
from itertools import product
from typing import NamedTuple

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from solver import solve, solve_greedily, verify
from solver.domain import Batch, Gang, GangLevel, Pod, Policy, Snapshot
from tests.support import builders as b
from tests.support import solver_problems as p

RACK = "example.com/rack"
CLIQUE = f"{b.GPU_DRIVER}/clique"
LEVELS = (b.by_label(RACK), b.by_device(CLIQUE), b.by_label(RACK, is_required=False))
SLOW = settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large], max_examples=120)


class Place(NamedTuple):
    """A node: CPUs, the cliques of its GPUs (empty for one without), the rack that it is in."""

    cpus: int
    cliques: tuple[str, ...]
    rack: str

    @property
    def gpus(self) -> int:
        return len(self.cliques)


class Ask(NamedTuple):
    """A pod: a CPU, so many GPUs, of a gang (or none), and the node where it runs already (-1: it waits)."""

    gpus: int
    gang: int
    priority: int
    runs_on: int


class Scene(NamedTuple):
    places: tuple[Place, ...]
    asks: tuple[Ask, ...]
    minima: tuple[int, ...]
    levels: tuple[tuple[GangLevel, ...], ...]


@st.composite
def scenes(draw: st.DrawFn) -> Scene:
    places = draw(
        st.lists(
            st.builds(
                Place,
                cpus=st.integers(1, 2),
                cliques=st.lists(st.sampled_from(("x", "y", "")), max_size=3).map(tuple),
                rack=st.sampled_from(("r1", "r2", "")),
            ),
            min_size=1,
            max_size=4,
        )
    )
    ask = st.builds(
        Ask, gpus=st.integers(0, 1), gang=st.integers(-1, 1), priority=st.integers(0, 1), runs_on=st.just(-1)
    )
    asks = draw(st.lists(ask, min_size=1, max_size=5))
    if draw(st.booleans()):
        asks.append(Ask(0, draw(st.integers(0, 1)), 0, draw(st.integers(0, len(places) - 1))))
    levels = st.lists(st.sampled_from(LEVELS), unique=True, max_size=2).map(tuple)
    minima = draw(st.tuples(st.integers(0, 4), st.integers(0, 4)))
    return Scene(tuple(places), tuple(asks), minima, (draw(levels), draw(levels)))


def _cluster(scene: Scene) -> tuple[Snapshot, Batch]:
    objects: list[b.SnapshotObject] = [b.gpu_class()]
    for index, place in enumerate(scene.places):
        objects.append(b.node(f"n{index}", cpu=place.cpus, labels={RACK: place.rack} if place.rack else {}))
        devices = [
            b.device(f"gpu-{i}", attributes={"clique": clique} if clique else {})
            for i, clique in enumerate(place.cliques)
        ]
        objects.append(b.resource_slice(f"n{index}", *devices))
    pods: list[Pod] = []
    for index, ask in enumerate(scene.asks):
        name = f"p{index}"
        node = f"n{ask.runs_on}" if ask.runs_on >= 0 else ""
        pod = b.pod(name, *((name,) if ask.gpus else ()), cpu=1, priority=ask.priority, node_name=node)
        pods.append(b.member(pod, f"g{ask.gang}") if ask.gang >= 0 else pod)
        objects += [b.claim(name, b.request(count=ask.gpus))] if ask.gpus else []
    running = [pod for pod in pods if pod.node_name]
    gangs: list[Gang] = [
        replace(
            b.gang(f"g{i}", scene.minima[i], *scene.levels[i]),
            running_count=sum(ask.gang == i and ask.runs_on >= 0 for ask in scene.asks),
        )
        for i in range(2)
    ]
    return b.snapshot(objects, running), b.batch(*(pod for pod in pods if not pod.node_name), gangs=gangs)


def _best(scene: Scene) -> tuple[int, ...]:
    """Pods placed by priority, the highest first, then fewest new domains of preferred levels, by trying everything."""
    waiting = [index for index, ask in enumerate(scene.asks) if ask.runs_on < 0]
    tiers = _tiers(scene)
    best: tuple[int, ...] = ()
    for choice in product(range(-1, len(scene.places)), repeat=len(waiting)):
        placed = {i: node for i, node in zip(waiting, choice, strict=True) if node >= 0}
        is_possible = _fits(scene, placed) and _has_cliques(scene, placed)
        if not is_possible or not all(_keeps(scene, gang, placed) for gang in range(2)):
            continue
        counts = [sum(_priority(scene, i) == tier for i in placed) for tier in tiers]
        found = (*counts, -sum(_domains(scene, gang, placed) for gang in range(2)))
        best = max(best, found)
    return best


def _tiers(scene: Scene) -> list[int]:
    return sorted({_priority(scene, i) for i, ask in enumerate(scene.asks) if ask.runs_on < 0}, reverse=True)


def _priority(scene: Scene, index: int) -> int:
    """What a pod goes by: its own priority, and in a gang not more than of those that have to run with it."""
    ask = scene.asks[index]
    mine = [each for each in scene.asks if each.gang == ask.gang]
    need = scene.minima[ask.gang] - sum(each.runs_on >= 0 for each in mine) if ask.gang >= 0 else 0
    if need <= 0:
        return ask.priority
    waiting = sorted((each.priority for each in mine if each.runs_on < 0), reverse=True)
    return min(ask.priority, waiting[:need][-1])


def _fits(scene: Scene, placed: dict[int, int]) -> bool:
    cpus, gpus = Counter[int](), Counter[int]()
    for index, ask in enumerate(scene.asks):
        node = ask.runs_on if ask.runs_on >= 0 else placed.get(index, -1)
        cpus[node] += 1
        gpus[node] += ask.gpus
    return all(
        cpus[i] - sum(ask.runs_on == i for ask in scene.asks) <= max(0, each.cpus - _busy(scene, i))
        and gpus[i] <= each.gpus
        for i, each in enumerate(scene.places)
    )


def _busy(scene: Scene, node: int) -> int:
    return sum(ask.runs_on == node for ask in scene.asks)


def _keeps(scene: Scene, gang: int, placed: dict[int, int]) -> bool:
    new = [i for i in placed if scene.asks[i].gang == gang]
    old = [ask.runs_on for ask in scene.asks if ask.runs_on >= 0 and ask.gang == gang]
    if not new:
        return True
    if len(new) + len(old) < scene.minima[gang]:
        return False
    for level in scene.levels[gang]:
        if not level.is_required:
            continue
        if level.node_label:
            racks = {scene.places[placed[i]].rack for i in new}
            held = {scene.places[i].rack for i in old} - {""}
            if "" in racks or len(racks) > 1 or (held and racks - held):
                return False
        elif not _could_be_in_one_clique(scene, gang):
            return False
    return True


def _could_be_in_one_clique(scene: Scene, gang: int) -> bool:
    """Members without GPUs are free of a level of devices, unless no member could ever be in any clique."""
    published = any(any(place.cliques) for place in scene.places)
    return published and any(ask.gang == gang and ask.gpus and ask.runs_on < 0 for ask in scene.asks)


def _has_cliques(scene: Scene, placed: dict[int, int]) -> bool:
    """Whether a clique can be chosen for each gang that needs one so that every node has the devices for it."""
    needing = [gang for gang in range(2) if CLIQUE in {each.device_attribute for each in scene.levels[gang]}]
    chosen = (dict(zip(needing, each, strict=True)) for each in product(("x", "y"), repeat=len(needing)))
    return any(all(_serves(scene, placed, index, each) for index in range(len(scene.places))) for each in chosen)


def _serves(scene: Scene, placed: dict[int, int], index: int, clique_of: dict[int, str]) -> bool:
    here = [scene.asks[i] for i, node in placed.items() if node == index and scene.asks[i].gpus]
    bound = Counter(clique_of[ask.gang] for ask in here if ask.gang in clique_of)
    supply = Counter(scene.places[index].cliques)
    return len(here) <= supply.total() and all(supply[clique] >= count for clique, count in bound.items())


def _domains(scene: Scene, gang: int, placed: dict[int, int]) -> int:
    """Racks used anew, where the gang would rather have few; a node without a rack is one."""
    if not any(not level.is_required for level in scene.levels[gang]):
        return 0
    used = {scene.places[node].rack or f"-{node}" for i, node in placed.items() if scene.asks[i].gang == gang}
    held = {scene.places[ask.runs_on].rack for ask in scene.asks if ask.runs_on >= 0 and ask.gang == gang}
    return len(used - held)


@SLOW
@given(scene=scenes())
def test_the_plan_is_the_best_of_all(scene: Scene) -> None:
    snapshot, batch = _cluster(scene)
    plan = solve(snapshot, batch, Policy(), p.PATIENT)
    assert verify.check(snapshot, batch, plan) == ()
    levels = {level.name: level for level in plan.report.levels}
    decisive = [level for name, level in levels.items() if name.startswith("placed") or name == "gang-topology"]
    assert all(level.proven for level in decisive)
    # Pods of a gang that waits for members are set aside before the tiers are counted: those tiers have no level.
    names = (*(f"placed:{tier}" for tier in _tiers(scene)), "gang-topology")
    assert tuple(levels[name].value if name in levels else 0 for name in names) == _best(scene)


@SLOW
@given(scene=scenes())
def test_the_greedy_plan_keeps_gangs_whole(scene: Scene) -> None:
    snapshot, batch = _cluster(scene)
    assert verify.check(snapshot, batch, solve_greedily(snapshot, batch, Policy(), p.PATIENT)) == ()

"""A cluster with the pods that wait in it, made from one number."""

from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

from e2e.differential import demands, devices, machines, neighbours, refinements, residents, storage
from e2e.differential.chance import Chance
from e2e.differential.shapes import NAMESPACES, SCHEDULER, Json, pod
from e2e.objects import Manifest

NODES: Final = 12
CASES: Final = 40
WEIGHTS: Final[Mapping[str, float]] = {
    "resources": 0.5,
    "extended": 0.3,
    "hugepages": 0.15,
    "init": 0.2,
    "overhead": 0.15,
    "pod-level": 0.15,
    "selector": 0.25,
    "affinity": 0.35,
    "fields": 0.5,
    "taints": 0.35,
    "unschedulable": 0.25,
    "declared features": 0.25,
    "gates": 0.2,
    **residents.WEIGHTS,
    **neighbours.WEIGHTS,
    **storage.WEIGHTS,
    **devices.WEIGHTS,
    **refinements.WEIGHTS,
}
"""How many of the groups have a feature."""


@dataclass(frozen=True, slots=True)
class Case:
    """A pod that waits, with the objects that only it uses (claims), and claims that others may use, too."""

    pod: Manifest
    objects: tuple[Manifest, ...] = ()
    common: tuple[Manifest, ...] = ()

    @property
    def name(self) -> str:
        """The pod's name, unique among all cases."""
        found: str = self.pod["metadata"]["name"]
        return found

    def renamed(self, suffix: str) -> "Case":
        """Give the same case under other names, so that it can be asked again."""
        copied = deepcopy(self)
        own = {each["metadata"]["name"] for each in copied.objects}
        for each in (copied.pod, *copied.objects):
            each["metadata"]["name"] += suffix
        for entry in copied.pod["spec"].get("resourceClaims", ()):
            if entry.get("resourceClaimName") in own:
                entry["resourceClaimName"] += suffix
        return copied


@dataclass(frozen=True, slots=True)
class Group:
    """A cluster (objects in the order of their creation) and the pods that wait in it, one case each."""

    seed: int
    features: frozenset[str]
    cluster: tuple[tuple[Manifest, ...], ...]
    cases: tuple[Case, ...]

    def first(self, count: int) -> "Group":
        """Keep so many cases at most."""
        return replace(self, cases=self.cases[:count])


def group(seed: int, only: frozenset[str] = frozenset()) -> Group:
    """Make the group of this number; `only` these features where some are named."""
    chance = Chance(seed, WEIGHTS, only)
    prefix = f"g{seed}"
    nodes = machines.nodes(chance, prefix, NODES)
    places = [each["metadata"]["name"] for each in nodes]
    store = storage.storage(chance, prefix, nodes)
    running = residents.running(chance, prefix, places, store)
    published = devices.slices(chance, prefix, places) if chance.has("devices") else []
    published = refinements.slices(chance, published)
    rules = devices.taint_rules(chance, prefix, published) + refinements.taint_rules(chance, prefix, published)
    claims = devices.held(chance, prefix, published) + devices.common(chance, prefix)
    refinements.held(chance, claims)
    classes = devices.classes(chance, prefix) + refinements.classes(chance, prefix)
    cluster = (
        (*nodes, *store.objects),
        store.claims,
        (*running, *classes, *published, *rules, *claims),
    )
    world = _World(prefix, places, claims, store)
    cases = tuple(_case(chance, f"{prefix}-p{index}", world) for index in range(CASES))
    return Group(seed, chance.features, cluster, cases)


class _World(NamedTuple):
    """What pods that wait can name."""

    prefix: str
    places: list[str]
    claims: list[Manifest]
    store: storage.Storage


def _case(chance: Chance, name: str, world: _World) -> Case:
    spec: Json = {"schedulerName": SCHEDULER}
    namespace = chance.pick((NAMESPACES[0], *NAMESPACES))
    demands.demand(chance, spec, world.places)
    neighbours.surround(chance, spec)
    refinements.waiting(chance, spec)
    storage.mount(chance, spec, namespace, world.store)
    claims = _claims(chance, name, namespace, world)
    if claims:
        spec["resourceClaims"] = [
            {"name": f"e{index}", "resourceClaimName": each["metadata"]["name"]} for index, each in enumerate(claims)
        ]
    devices.use(chance, world.prefix, spec)
    known = [each["metadata"]["name"] for each in world.claims]
    own = tuple(each for each in claims if each["metadata"]["name"] not in known)
    for each in own:
        refinements.claim(chance, world.prefix, each)
    common = tuple(each for each in claims if each["metadata"]["name"] in known)
    return Case(pod(name, namespace, spec, neighbours.labels(chance)), own, common)


def _claims(chance: Chance, name: str, namespace: str, world: _World) -> list[Manifest]:
    if not chance.some("devices", 0.75):
        return []
    return devices.claims(chance, world.prefix, name, namespace, world.claims)

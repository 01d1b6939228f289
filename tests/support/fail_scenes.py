"""
What Dovetail does while something fails: for each kind of work a scene, and how the world has to look in the end.

A scene is furnished before the scheduler starts, `begins` while it runs and nothing fails yet, and is loaded with the
work that the fail point strikes in. `expected` are the pods that fit, and so have to be bound whatever happened.
"""

import threading
from collections import Counter
from collections.abc import Iterator
from typing import Any, ClassVar, Final

from e2e import audit
from e2e.audit.reading import Json, Objects, results_of
from e2e.controlplane import versions
from tests.integration.test_repair_by_hand import node_of
from tests.support import extended_world, hold_world, priority_classes, repair_world
from tests.support.controlplane import wait_until
from tests.support.fail_points import KINDS
from tests.support.priority_classes import make_priority_class
from tests.support.quota_world import quota_crd
from tests.support.shell_proxy import Asked, Told, refusal
from tests.support.shell_world import RESOURCE, World
from tests.support.volume_world import Provisioner, VolumeWorld

HIGH: Final = {"priorityClassName": "system-cluster-critical"}
MERGE: Final = "application/merge-patch+json"
GROUPS: Final = f"/apis/{versions.pod_groups()}"
QUOTAS: Final = "/apis/dovetail.dev/v1alpha1/devicequotas"


Writes = tuple[tuple[str, int], ...]


class Scene:
    """One kind of work in a world of its own."""

    writes: ClassVar[Writes] = ()
    """The writes that it makes for sure: kind, and the how-manieth of it."""
    expected: ClassVar[frozenset[str]] = frozenset()
    settings: ClassVar[dict[str, Any]] = {}
    """What Dovetail's configuration has besides."""

    def __init__(self, world: World) -> None:
        self.world = world

    def furnish(self) -> None:
        """Make nodes, devices and claims."""
        raise NotImplementedError

    def begins(self) -> None:
        """Bring about what is there when the work comes."""

    def load(self) -> None:
        """Create the work."""
        raise NotImplementedError

    def clear(self) -> None:
        """End what the world does not know of."""

    def meet(self, asked: Asked, is_done: bool) -> Told | None:  # noqa: FBT001 - as `Meets` has it
        """Stand in a request's way, where the work needs that."""
        del asked, is_done
        return None

    def problems(self) -> list[str]:
        """Say what is not yet, or not any more, as it has to be."""
        bound = set(self.world.bound())
        objects = self._objects()
        found = audit.audit(objects) + audit.leftovers(objects)
        return [
            *(f"{name} is not bound" for name in sorted(self.expected - bound)),
            *(f"{name} is bound" for name in sorted(bound - self.expected - self._may_be_bound(objects))),
            *(f"{each.rule} {each.subject}: {each.message}" for each in found),
            *self._more_problems(),
        ]

    def _may_be_bound(self, objects: Objects) -> set[str]:
        del objects
        return set()

    def _more_problems(self) -> Iterator[str]:
        return iter(())

    def _objects(self) -> Objects:
        """Everything that is this world's, and claims of its devices wherever they are."""
        everything, world = audit.read(self.world.plane.request), self.world

        def is_ours(item: Json) -> bool:
            return bool(item["metadata"].get("namespace") == world.namespace)

        return everything._replace(
            pods=[each for each in everything.pods if is_ours(each)],
            nodes=[each for each in everything.nodes if each["metadata"]["name"] in world.nodes],
            claims=[
                each
                for each in everything.claims
                if is_ours(each) or any(result["driver"] == world.driver for result in results_of(each))
            ],
            slices=[each for each in everything.slices if each["spec"]["driver"] == world.driver],
            volumes=[each for each in everything.volumes if each["metadata"]["name"].endswith(world.word)],
            volume_claims=[each for each in everything.volume_claims if is_ours(each)],
            groups=[each for each in everything.groups if is_ours(each)],
        )


class Single(Scene):
    """A pod with a device, and one that fits nowhere."""

    writes: ClassVar[Writes] = (
        ("finalizer", 1),
        ("allocation", 1),
        ("binding", 1),
        ("event", 1),
        ("condition", 1),
        ("lease", 2),
    )
    expected = frozenset({"p"})

    def furnish(self) -> None:
        self.world.add_nodes(2, devices=1)
        self.world.template()
        self.world.template("many", count=9)

    def load(self) -> None:
        self.world.pod("hopeless", template="many")
        self.world.pod("p")

    def _more_problems(self) -> Iterator[str]:
        if not self.world.condition("hopeless"):
            yield "hopeless was not told why it waits"


class TwoClaims(Scene):
    """A pod with two claims, for which one node has room."""

    writes: ClassVar[Writes] = (("finalizer", 2), ("allocation", 1), ("allocation", 2))
    expected = frozenset({"p"})

    def furnish(self) -> None:
        self.world.add_nodes(1, devices=2)
        for name in ("a", "b"):
            self.world.claim(name)

    def load(self) -> None:
        self.world.pod("p", claims=("a", "b"))


class Speculative(Scene):
    """A pod after one that was placed: its claim gets the finalizer while it is decided."""

    writes: ClassVar[Writes] = (("finalizer", 1), ("allocation", 1), ("binding", 1))
    expected = frozenset({"first", "p"})

    def furnish(self) -> None:
        self.world.add_nodes(1, devices=2)
        for name in ("a", "b"):
            self.world.claim(name)

    def begins(self) -> None:
        self.world.pod("first", claim="a")
        wait_until(lambda: "first" in self.world.bound())

    def load(self) -> None:
        self.world.pod("p", claim="b")


class Shared(Scene):
    """Pods that come to a claim which another one has already."""

    writes: ClassVar[Writes] = (("reservation", 1), ("binding", 1), ("binding", 2))
    expected = frozenset({"s-0", "s-1", "s-2"})

    def furnish(self) -> None:
        self.world.add_nodes(2, devices=1)
        self.world.claim("shared")

    def begins(self) -> None:
        self.world.pod("s-0", claim="shared")
        wait_until(lambda: "s-0" in self.world.bound())

    def load(self) -> None:
        for name in ("s-1", "s-2"):
            self.world.pod(name, claim="shared")


class Gang(Scene):
    """A gang that fits and one that does not, by PodGroups."""

    writes: ClassVar[Writes] = (
        ("finalizer", 2),
        ("allocation", 1),
        ("allocation", 4),
        ("binding", 1),
        ("binding", 3),
        ("group", 1),
    )
    expected = frozenset({"g-0", "g-1", "g-2", "g-3"})

    def furnish(self) -> None:
        self.world.add_nodes(2, devices=2)
        self.world.template()

    def load(self) -> None:
        for name, size in (("g", 4), ("late", 5)):
            pod_group(self.world, name, size)
            for index in range(size):
                self.world.pod(f"{name}-{index}", schedulingGroup={"podGroupName": name})

    def _more_problems(self) -> Iterator[str]:
        held = [each["metadata"]["name"] for each in self.world.claims() if results_of(each)]
        if any(name.startswith("late") for name in held):
            yield "the gang that does not fit holds devices"


class Withdrawn(Scene):
    """A gang whose third member's claim cannot be written until those of the others were taken back."""

    writes: ClassVar[Writes] = (("release", 1), ("release", 2))
    expected = frozenset({"g-0", "g-1", "g-2"})

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self._is_taken_back = False

    def furnish(self) -> None:
        self.world.add_nodes(3, devices=1)
        self.world.template()

    def load(self) -> None:
        pod_group(self.world, "g", 3)
        for index in range(3):
            self.world.pod(f"g-{index}", schedulingGroup={"podGroupName": "g"})

    def meet(self, asked: Asked, is_done: bool) -> Told | None:  # noqa: FBT001 - as `Meets` has it
        if is_done and KINDS["release"](asked):
            self._is_taken_back = True
        is_hindered = not is_done and not self._is_taken_back and KINDS["allocation"](asked) and "/g-2-" in asked.path
        return refusal(500) if is_hindered else None


class Adopted(Scene):
    """A pod whose claim another process has allocated and reserved for it."""

    writes: ClassVar[Writes] = (("adoption", 1), ("binding", 1))
    expected = frozenset({"p"})

    def furnish(self) -> None:
        self.world.add_nodes(2, devices=1)
        self.world.claim("c")

    def load(self) -> None:
        gate = [{"name": "example.com/reserved"}]
        pod = self.world.pod("p", claim="c", schedulingGates=gate)
        self.world.allocate("c", "gpu-0", self.world.nodes[0], pod)
        path = f"/api/v1/namespaces/{self.world.namespace}/pods/p"
        self.world.plane.request("PATCH", path, {"spec": {"schedulingGates": None}}, content=MERGE)


class Preemption(Scene):
    """A pod that two others make room for, while a third one of theirs waits for any room there is."""

    writes: ClassVar[Writes] = (
        ("nomination", 1),
        ("condition", 1),
        ("trial", 1),
        ("trial", 2),
        ("eviction", 1),
        ("eviction", 2),
        ("disruption-target", 1),
        ("allocation", 1),
        ("binding", 1),
    )
    expected = frozenset({"high"})
    lows: ClassVar[int] = 4
    victims: ClassVar[int] = 2

    def furnish(self) -> None:
        self.world.add_nodes(2, devices=2)
        self.world.template()
        self.world.template("two", count=2)

    def begins(self) -> None:
        names = {f"low-{index}" for index in range(self.lows)}
        for name in sorted(names):
            self.world.pod(name)
        wait_until(lambda: self.world.bound().keys() == names)

    def load(self) -> None:
        self.world.pod("greedy")
        self.world.pod("high", template="two", **HIGH)

    def _may_be_bound(self, objects: Objects) -> set[str]:
        return {each["metadata"]["name"] for each in objects.pods if each["metadata"]["name"].startswith("low-")}

    def _more_problems(self) -> Iterator[str]:
        left = Counter(
            each["spec"].get("nodeName") for each in self.world.pods() if each["metadata"]["name"].startswith("low-")
        )
        if sum(left.values()) != self.lows - self.victims:
            yield f"{self.lows - sum(left.values())} pods had to go, and {self.victims} are needed"
        if len(left) > 1:
            yield f"pods had to go that made no room together: {left}"


class GangPreemption(Preemption):
    """A gang that four others make room for."""

    writes: ClassVar[Writes] = (("nomination", 2), ("eviction", 2), ("eviction", 4), ("binding", 2))
    expected = frozenset({"high-0", "high-1"})
    victims = 4

    def furnish(self) -> None:
        super().furnish()
        make_priority_class(self.world.plane, f"{self.world.word}-high")

    def load(self) -> None:
        more = {"priorityClassName": f"{self.world.word}-high"}  # a PodGroup has none of the system's
        pod_group(self.world, "high", 2, **more)
        for name in sorted(self.expected):
            self.world.pod(name, template="two", schedulingGroup={"podGroupName": "high"}, **more)


class Volumes(Scene):
    """A pod with a device, a volume that is there, and one that has to be made."""

    writes: ClassVar[Writes] = (("volume", 1), ("selected-node", 1), ("allocation", 1), ("binding", 1))
    expected = frozenset({"p"})

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self.volumes = VolumeWorld(world)
        self.provisioner = Provisioner(self.volumes)

    def furnish(self) -> None:
        nodes = self.volumes.add_nodes(2, devices=1)
        for node in nodes:
            self.volumes.volume(f"disk-{node}", node)
        self.volumes.claim("there", self.volumes.local)
        self.volumes.claim("made", self.volumes.made)
        self.world.claim("device")
        self.provisioner.__enter__()

    def load(self) -> None:
        self.volumes.pod("p", "there", "made", device="device")

    def clear(self) -> None:
        self.provisioner.__exit__()
        self.volumes.clear()

    def _more_problems(self) -> Iterator[str]:
        return iter(self.volumes.problems())


class Extended(Scene):
    """Pods that ask for an extended resource which devices serve."""

    writes: ClassVar[Writes] = (
        ("special-claim", 1),
        ("finalizer", 1),
        ("allocation", 1),
        ("announcement", 1),
        ("binding", 1),
    )
    expected = frozenset({"x-0", "x-1"})

    def furnish(self) -> None:
        self.world.add_nodes(1, devices=2)
        extended_world.map_class(self.world)

    def load(self) -> None:
        for name in sorted(self.expected):
            extended_world.pod(self.world, name)

    def _more_problems(self) -> Iterator[str]:
        made = extended_world.special_claims(self.world)
        if len(made) != len(self.expected):
            yield f"{len(made)} claims were made for {len(self.expected)} pods"


class Remade(Scene):
    """An object is deleted and made again under its name, just before the first write of a kind arrives."""

    trigger: ClassVar[str]

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self._lock = threading.Lock()
        self._is_remade = False

    def remake(self) -> None:
        """Delete the object and make it again."""
        raise NotImplementedError

    def meet(self, asked: Asked, is_done: bool) -> Told | None:  # noqa: FBT001 - as `Meets` has it
        if not is_done and KINDS[self.trigger](asked):
            with self._lock:
                # The write of a leader that was stopped for long may arrive when another one has done the work.
                if not self._is_remade and not self.expected <= self.world.bound().keys():
                    self._is_remade = True
                    self.remake()
        return None

    def path(self, resource: str, name: str) -> str:
        """Give the path of a core object of the world's namespace."""
        return f"/api/v1/namespaces/{self.world.namespace}/{resource}/{name}"


class RemadePod(Remade):
    """A pod, while the claim is allocated that was made for it."""

    writes: ClassVar[Writes] = (("finalizer", 1), ("allocation", 1), ("binding", 1))
    expected = frozenset({"p"})
    trigger = "allocation"

    def furnish(self) -> None:
        self.world.add_nodes(1, devices=1)
        self.world.template()

    def load(self) -> None:
        self.world.pod("p")

    def remake(self) -> None:
        self.world.end(self.path("pods", "p"))
        self.world.pod("p")


class RemadeWaitingPod(RemadePod):
    """A pod that fits nowhere, while its condition is written; the new one fits."""

    writes: ClassVar[Writes] = (("condition", 1),)
    trigger = "condition"

    def furnish(self) -> None:
        super().furnish()
        self.world.template("many", count=9)

    def load(self) -> None:
        self.world.pod("p", template="many")

    def _more_problems(self) -> Iterator[str]:
        if (status := self.world.condition("p").get("status")) != "True":
            yield f"p has PodScheduled={status}: it was written for the pod before"


class RemadeClaim(Remade):
    """A named claim, while it is allocated."""

    writes: ClassVar[Writes] = (("finalizer", 1), ("allocation", 1), ("binding", 1))
    expected = frozenset({"p"})
    trigger = "allocation"

    def furnish(self) -> None:
        self.world.add_nodes(1, devices=1)
        self.world.claim("c")

    def load(self) -> None:
        self.world.pod("p", claim="c")

    def remake(self) -> None:
        self.world.end(f"{RESOURCE}/namespaces/{self.world.namespace}/resourceclaims/c")
        self.world.claim("c")


class RemadeGroup(Remade):
    """A PodGroup, while the claim is allocated that its pods share."""

    writes: ClassVar[Writes] = (("allocation", 1), ("binding", 2))
    expected = frozenset({"g-0", "g-1"})
    trigger = "allocation"

    def furnish(self) -> None:
        self.world.add_nodes(1, devices=1)
        self.world.claim("shared")

    def load(self) -> None:
        self._make()
        for name in sorted(self.expected):
            self.world.pod(name, claim="shared", schedulingGroup={"podGroupName": "g"})

    def remake(self) -> None:
        self.world.end(f"{GROUPS}/namespaces/{self.world.namespace}/podgroups/g")
        self._make()

    def _make(self) -> None:
        pod_group(self.world, "g", 2, resourceClaims=[{"name": "shared", "resourceClaimName": "shared"}])


class RemadeNode(Remade):
    """A node, while a pod is bound to it."""

    writes: ClassVar[Writes] = (("allocation", 1), ("binding", 1))
    expected = frozenset({"p"})
    trigger = "binding"

    def furnish(self) -> None:
        self.world.add_nodes(1, devices=1)
        self.world.template()

    def load(self) -> None:
        self.world.pod("p")

    def remake(self) -> None:
        (name,) = self.world.nodes
        self.world.end(f"/api/v1/nodes/{name}")
        self.world.node(name)


class RemadeClasses(RemadePod):
    """The DeviceClass and the PriorityClass of a pod, while its claim is allocated."""

    writes: ClassVar[Writes] = (("allocation", 1),)

    def furnish(self) -> None:
        super().furnish()
        self._make_priority_class()

    def load(self) -> None:
        self.world.pod("p", priorityClassName=f"{self.world.word}-p")

    def remake(self) -> None:
        self.world.end(f"{RESOURCE}/deviceclasses/{self.world.driver}")
        self.world.end(f"{priority_classes.PATH}/{self.world.word}-p")
        self.world.device_class()
        self._make_priority_class()

    def _make_priority_class(self) -> None:
        make_priority_class(self.world.plane, f"{self.world.word}-p", 7)


class RemadeVolumes(Remade):
    """A volume and the claim that it is kept for, while that is written."""

    writes: ClassVar[Writes] = (("volume", 1), ("binding", 1))
    expected = frozenset({"p"})
    trigger = "volume"

    def __init__(self, world: World) -> None:
        super().__init__(world)
        self.volumes = VolumeWorld(world)

    def furnish(self) -> None:
        (node,) = self.volumes.add_nodes(1, devices=1)
        self._name = self.volumes.volume("disk", node)
        self.volumes.claim("there", self.volumes.local)
        self.world.claim("device")

    def load(self) -> None:
        self.volumes.pod("p", "there", device="device")

    def remake(self) -> None:
        self.world.end(self.path("persistentvolumeclaims", "there"))
        self.world.end(f"/api/v1/persistentvolumes/{self._name}")
        self.volumes.volume("disk", *self.world.nodes)
        self.volumes.claim("there", self.volumes.local)

    def clear(self) -> None:
        self.volumes.clear()

    def _more_problems(self) -> Iterator[str]:
        return iter(self.volumes.problems())


class RemadeExtended(Remade):
    """A pod that asks for an extended resource, while its claim is announced in its status."""

    writes: ClassVar[Writes] = (("special-claim", 1), ("announcement", 1))
    expected = frozenset({"x"})
    trigger = "announcement"

    def furnish(self) -> None:
        self.world.add_nodes(1, devices=1)
        extended_world.map_class(self.world)

    def load(self) -> None:
        extended_world.pod(self.world, "x")

    def remake(self) -> None:
        self.world.end(self.path("pods", "x"))
        extended_world.pod(self.world, "x")


class Held(Scene):
    """Two pods come for their places: one hold ends with its pod, of the other two places stay held."""

    writes: ClassVar[Writes] = (("binding", 1), ("binding", 2), ("hold-note", 1), ("hold-end", 1))
    expected = frozenset({"of-a", "of-b"})

    def furnish(self) -> None:
        repair_world.install_component(self.world.plane)
        self.world.add_nodes(1, devices=5)
        self.world.template()
        (node,), devices = self.world.nodes, hold_world.devices_of(self.world, self.world.nodes[0])
        owner = hold_world.config_map(self.world, "owner")
        places = [(node, [each]) for each in devices]
        hold_world.hold(self.world, {"labels": {"app": "a"}}, *places[:3], owner=owner)
        hold_world.hold(self.world, {"labels": {"app": "b"}}, places[3], owner=owner)

    def load(self) -> None:
        for app in ("a", "b"):
            hold_world.labelled(self.world, f"of-{app}", app)
        for name in ("first", "second"):
            hold_world.labelled(self.world, name, "other")

    def clear(self) -> None:
        hold_world.remove_holds(self.world)

    def _may_be_bound(self, objects: Objects) -> set[str]:
        del objects
        return {"first", "second"}

    def _more_problems(self) -> Iterator[str]:
        others = {"first", "second"} & self.world.bound().keys()
        if len(others) != 1:
            yield f"one device is free, and of the others are bound: {sorted(others)}"
        left = hold_world.holds(self.world)
        used = [each.get("status", {}).get("used", []) for each in left]
        if [len(each) for each in used] != [1]:
            yield f"{len(left)} DeviceHolds are left, used: {used}"


class KeptNode(Scene):
    """A node is kept from autoscalers while room on it is held, and not any longer."""

    writes: ClassVar[Writes] = (("keep-node", 1), ("let-node-go", 1))
    expected = frozenset({"later"})

    def furnish(self) -> None:
        repair_world.install_component(self.world.plane)
        repair_world.grant_held_nodes(self.world.plane)
        self.world.add_nodes(1, devices=1)
        self.world.template()

    def load(self) -> None:
        (node,) = self.world.nodes
        places = (node, hold_world.devices_of(self.world, node))
        owner = hold_world.config_map(self.world, "owner")
        hold_world.hold(self.world, {"labels": {"app": "a"}}, places, owner=owner, seconds=6)
        self.world.pod("later")

    def clear(self) -> None:
        hold_world.remove_holds(self.world)
        repair_world.withdraw_held_nodes(self.world.plane)

    def _more_problems(self) -> Iterator[str]:
        (node,) = self.world.nodes
        found = self.world.plane.request("GET", f"/api/v1/nodes/{node}")["metadata"].get("annotations", {})
        left = sorted({*found} & {"karpenter.sh/do-not-disrupt", "dovetail.dev/kept-node"})
        if left:
            yield f"the node has {left}, and no room on it is held"


class Repair(Scene):
    """One of two scattered pods of ReplicaSets has to move so that a pod with two devices fits."""

    writes: ClassVar[Writes] = (
        ("repair-plan", 1),
        ("hold", 1),
        ("hold", 2),
        ("repair-note", 1),
        ("trial", 1),
        ("eviction", 1),
        ("disruption-target", 1),
        ("repair-note", 2),
        ("hold-end", 1),
        ("repair-note", 3),
        ("binding", 1),
        ("binding", 2),
    )
    expected = frozenset({"large"})

    def furnish(self) -> None:
        repair_world.install_component(self.world.plane)
        self.world.add_nodes(2, devices=2)
        self.world.template()
        self.world.template("two", count=2)

    def begins(self) -> None:
        repair_world.scattered_pods(self.world)

    def load(self) -> None:
        self.world.pod("large", template="two")

    def clear(self) -> None:
        repair_world.remove_plans(self.world)

    def _may_be_bound(self, objects: Objects) -> set[str]:
        return {each["metadata"]["name"] for each in objects.pods if "set" in each["metadata"].get("labels", {})}

    def _more_problems(self) -> Iterator[str]:
        nodes = [node_of(self.world, name) for name in ("first", "second")]
        if nodes[0] != nodes[1] or not nodes[0]:
            yield f"the small pods are on {nodes}"
        if left := repair_world.holds(self.world):
            yield f"{len(left)} DeviceHolds are left"
        if any(
            each.get("status", {}).get("state") in {"Running", "Proposed"} for each in repair_world.plans(self.world)
        ):
            yield "a plan is under way"


class Quota(Scene):
    """A pod within the limit of a quota, one that it keeps back, and what the quota's status says of both."""

    writes: ClassVar[Writes] = (("quota-status", 1),)
    expected = frozenset({"p"})

    def furnish(self) -> None:
        world, plane = self.world, self.world.plane
        quota_crd(plane)
        world.add_nodes(2, devices=2)
        world.template()
        world.template("two", count=2)
        labels = {"team": world.namespace}
        plane.request("PATCH", f"/api/v1/namespaces/{world.namespace}", {"metadata": {"labels": labels}}, content=MERGE)
        resources = [{"deviceClass": world.driver, "guarantee": 1, "limit": 1}]
        spec = {"namespaceSelector": {"matchLabels": labels}, "resources": resources}
        body = {"apiVersion": "dovetail.dev/v1alpha1", "kind": "DeviceQuota", "metadata": {"name": world.word}}
        plane.request("POST", QUOTAS, {**body, "spec": spec})

    def load(self) -> None:
        self.world.pod("late", template="two")
        self.world.pod("p")

    def clear(self) -> None:
        self.world.plane.request("DELETE", f"{QUOTAS}/{self.world.word}")

    def _more_problems(self) -> Iterator[str]:
        status = self.world.plane.request("GET", f"{QUOTAS}/{self.world.word}").get("status", {})
        (found,) = status.get("resources") or [{}]
        if (found.get("held"), found.get("waiting")) != ("1", 1):
            yield f"the status of the quota says {found}"
        if self.world.condition("late").get("reason") != "QuotaExceeded":
            yield "late was not told that the quota keeps it back"


OF_PODS: Final[dict[str, type[Scene]]] = {
    "single": Single,
    "two-claims": TwoClaims,
    "speculative": Speculative,
    "shared": Shared,
    "gang": Gang,
    "withdrawn": Withdrawn,
    "adopted": Adopted,
    "preemption": Preemption,
    "gang-preemption": GangPreemption,
    "held": Held,
    "kept-node": KeptNode,
    "repair": Repair,
    "volumes": Volumes,
    "extended": Extended,
    "quota": Quota,
    "remade-pod": RemadePod,
    "remade-waiting-pod": RemadeWaitingPod,
    "remade-claim": RemadeClaim,
    "remade-group": RemadeGroup,
    "remade-node": RemadeNode,
    "remade-classes": RemadeClasses,
    "remade-volumes": RemadeVolumes,
    "remade-extended": RemadeExtended,
}


def pod_group(world: World, name: str, minimum: int, **more: Any) -> None:
    """Create a PodGroup with the gang policy and further fields."""
    spec: Json = {"schedulingPolicy": {"gang": {"minCount": minimum}}, **more}
    body: dict[str, Any] = {"metadata": {"name": name}, "spec": spec}
    world.plane.request("POST", f"{GROUPS}/namespaces/{world.namespace}/podgroups", body)

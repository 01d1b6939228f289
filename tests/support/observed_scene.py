"""
A cluster as watches show it, with another scheduler that binds pods, and the counterfactual cluster beside it.

Pods and devices are those of `builders`. Times are seconds that the test passes in.
"""

from functools import partial

from msgspec.structs import replace

from scheduler.change import Object
from scheduler.counterfactual.comparison import ClusterComparison
from scheduler.counterfactual.outcomes import ComparedPlacement
from scheduler.worker.checked_plan import decide
from solver import SolverCache, solve
from solver.domain import Batch, Budget, Claim, DeviceId, Pod, PodId, Policy, PreemptionRules
from tests.support import builders as b
from tests.support.cluster_builders import gone, seen

SCHEDULER = "dovetail"
"""The observed one: it is the schedulerName of the builders' pods."""
POLICY = Policy(preemption=PreemptionRules(is_enabled=True, scheduler_names=(SCHEDULER,)))


class ObservedScene:
    """Nodes with GPUs; `tolerance` is 1 second."""

    def __init__(self, nodes: int = 1, devices: int = 2) -> None:
        self.outcomes: list[ComparedPlacement] = []
        self.compared = ClusterComparison((SCHEDULER,), 1.0, self.outcomes.append)
        self.cache = SolverCache()
        self.pods: dict[str, Pod] = {}
        self.claims: dict[str, Claim] = {}
        self.show(0.0, b.gpu_class())
        for index in range(nodes):
            self.show(0.0, b.node(f"n{index}"), b.gpu_slice(f"n{index}", count=devices))

    @property
    def counterfactual(self) -> dict[str, str]:
        """The node of each pod that the counterfactual cluster has, empty for one that waits there."""
        lives = self.compared.counterfactual.lives
        return {life.pod.uid.removeprefix("uid-default-"): life.node for life in lives}

    @property
    def held(self) -> dict[DeviceId, list[str]]:
        """The claims that hold each device in the counterfactual cluster."""
        found: dict[DeviceId, list[str]] = {}
        for claim in self.compared.counterfactual.cluster.snapshot().claims:
            for result in claim.allocation.results if claim.allocation is not None else ():
                found.setdefault(result.device, []).append(claim.id.name)
        return found

    def show(self, now: float, *objects: Object) -> None:
        for each in objects:
            self.compared.apply(seen(each), now)

    def begin(self, now: float = 0.0) -> None:
        self.compared.begin(now)

    def create(self, now: float, *pods: Pod, gpus: int = 1) -> None:
        """Create pods, each with a claim of its name that asks for so many devices."""
        for pod in pods:
            name = pod.id.name
            self.claims[name] = b.claim(name, b.request(count=gpus), owner_pod_uid=pod.uid)
            self.claims[name] = replace(self.claims[name], uid=f"claim-of-{pod.uid}")
            self.pods[name] = replace(pod, claims=(b.entry(name),))
            self.show(now, self.claims[name], self.pods[name])

    def bind(self, now: float, name: str, node: str, *devices: str) -> None:
        """Let the real scheduler allocate devices of a node, and bind the pod."""
        results = [b.result("request", each, node) for each in devices]
        claim, pod = self.claims[name], self.pods[name]
        self.claims[name] = replace(
            claim, allocation=b.allocation(*results, node_name=node), reserved_for=(b.consumer(name),)
        )
        self.pods[name] = replace(pod, node_name=node)
        self.show(now, self.claims[name], self.pods[name])

    def end(self, now: float, name: str) -> None:
        """Let a pod succeed; it and its claim are deleted afterwards."""
        self.show(now, replace(self.pods[name], is_terminal=True))
        self.delete(now, name)

    def delete(self, now: float, name: str) -> None:
        self.compared.apply(gone(self.pods.pop(name)), now)
        self.compared.apply(gone(self.claims.pop(name)), now)

    def decide(self, now: float) -> None:
        """Decide what waits in the counterfactual cluster."""
        self.compared.advance(now)
        counterfactual = self.compared.counterfactual
        pods = tuple(counterfactual.waiting())
        batch = counterfactual.cluster.with_gangs(Batch(pods=pods))
        policy = replace(POLICY, preemption=replace(POLICY.preemption, now=int(now)))
        plan, violations = decide(
            counterfactual.cluster.snapshot(),
            batch,
            policy,
            Budget(seconds=1e9, deterministic_seconds=1.0),
            partial(solve, cache=self.cache),
        )
        assert violations == ()
        assert plan is not None
        self.compared.take(plan, batch, now)

    def node_of(self, name: str) -> str:
        """Return the node of a pod in the counterfactual cluster, empty where it waits or is gone."""
        pod = self.compared.counterfactual.cluster.pod(PodId(b.NAMESPACE, name))
        return pod.node_name if pod is not None else ""

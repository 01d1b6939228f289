"""
Recorded cases: what the scheduler decided on in ten runs, saved as `dovetail simulate --save` does, compressed.

`record` makes them anew from the scenarios of `e2e.scenarios` (`make bench ARGS="--record e2e/bench/cases"`): after a
change of the saved form, or of a scenario. A case that comes in two waves holds the pods of the first as running.
"""

import json
import lzma
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from e2e.bench.workloads import Case, Workload
from e2e.fleet import amd, dranet, hami, nvidia
from e2e.fleet.fleets import PLAIN, together
from e2e.fleet.shape import Fleet, node
from e2e.scenarios.joint import AT_ONCE, CLIQUE, Wave, in_gangs, in_waves, joint_scenarios
from e2e.scenarios.workload import Manifest, Scenario, gpu_pods, large_scenarios, scenarios
from scheduler.settings import API_VERSION, KIND, load
from scheduler.simulation import case_builder, live_cluster, simulator
from scheduler.simulation.manifests import documents
from scheduler.worker import recording
from scheduler.worker.recording import Record
from solver.preemption.what_if import snapshot_after

FOLDER = Path(__file__).parent / "cases"
NAMESPACE, SCHEDULER = "recorded", "dovetail"
NOW = 1_800_000_000
"""The time of day that is saved, in seconds since 1970, so that a case recorded again is the same."""


def names() -> list[str]:
    """Name the cases that are kept."""
    return sorted(path.name.partition(".")[0] for path in FOLDER.glob("*.json.xz"))


def workloads() -> dict[str, Workload]:
    """Return the cases by name, as workloads of one seed."""
    about = {each.name: each.about for each in recorded_scenarios()}
    return {name: Workload(name, about[name], partial(_read_any, name), is_recorded=True) for name in names()}


def _read_any(name: str, _seed: int) -> Case:
    return read(name)


def read(name: str) -> Case:
    """Read a recorded case. Raises msgspec.MsgspecError where the file holds something else."""
    found = msgspec.json.decode(lzma.decompress((FOLDER / f"{name}.json.xz").read_bytes()), type=Record)
    return Case(found.snapshot, found.batch, found.policy)


def record(folder: Path) -> Iterator[Path]:
    """Decide what comes before each case, and write the case."""
    folder.mkdir(exist_ok=True)
    for scenario in recorded_scenarios():
        path = folder / f"{scenario.name}.json.xz"
        content = msgspec.json.encode(recording.without_parameters(_recorded(scenario)))
        path.write_bytes(lzma.compress(content, preset=9))
        yield path


def recorded_scenarios() -> tuple[Scenario, ...]:
    """Give the ten scenarios that are recorded."""
    known = scenarios() | large_scenarios() | joint_scenarios()
    named = ("one-gpu-500", "gpu-pairs-500", "memory-shares", "mig-mix", "first-available", "halves-and-whole")
    more = ("nvlink-gangs", "preemption")
    examples = replace(known["examples"], name="examples-500", fleet=demo_fleet_500)
    return (examples, *(known[name] for name in (*named, *more)), gangs_and_preemption())


def demo_fleet_500() -> Fleet:
    """Make fifty nodes of each kind that the examples need, four nodes to an NVLink domain."""
    return together(*(fleet for index in range(50) for fleet in _one_of_each(f"{index:02}", f"clique-{index // 4}")))


def _one_of_each(suffix: str, clique: str) -> Iterator[Fleet]:
    older, newer, cards = f"h100-1-{suffix}", f"h100-2-{suffix}", dranet.rdma_nics
    yield nvidia.gpu_node(older, driver_version=nvidia.OLDER_DRIVER_VERSION) + cards(older)
    yield nvidia.gpu_node(newer) + cards(newer)
    for side in "ab":
        yield nvidia.nvlink_node(f"nvlink-{side}-{suffix}", clique)
    yield nvidia.mig_node(f"mig-{suffix}")
    yield amd.gpu_node(f"mi300x-{suffix}")
    yield amd.partition_node(f"cpx-{suffix}")
    yield hami.gpu_node(f"l40s-{suffix}")
    yield from (Fleet(nodes=(node(f"cpu-{side}-{suffix}", PLAIN),)) for side in "ab")


def gangs_and_preemption() -> Scenario:
    """Make pods of one GPU on nearly all of 64 nodes, and then important gangs of 4 × 8 GPUs and pairs."""
    low, gangs, pairs = 420, [f"gang-{number}" for number in range(4)], 20
    kinds = {"low": gpu_pods(1, low), "all": gpu_pods(8, 4), "pair": gpu_pods(2, pairs)}
    members = [(gang, "all") for gang in gangs for _ in range(4)] + [("", "pair")] * pairs

    def fleet() -> Fleet:
        nodes = [nvidia.gpu_node(f"gpu-{index:02}") for index in range(64)]
        for index, each in enumerate(nodes):
            each.nodes[0]["metadata"]["labels"][CLIQUE] = f"clique-{index // 8}"
        return together(*nodes)

    preempting = joint_scenarios()["preemption"]
    return replace(
        preempting,
        name="gangs-preemption",
        about=f"{low} × 1 GPU run, then {len(gangs)} important gangs of 4 × 8 and {pairs} pairs, 64 nodes × 8",
        fleet=fleet,
        pods=low + len(members),
        placeable=low + len(members),
        manifests=in_waves(kinds, [Wave("low", low)], **AT_ONCE),
        later=in_gangs(kinds, members, dict.fromkeys(gangs, CLIQUE), prefix="high", priority=2_000_000_000),
    )


def _recorded(scenario: Scenario) -> Record:
    """Give what is decided on when all pods of a scenario wait, or those that come later where it has such."""
    fleet, manifests = scenario.fleet(), scenario.manifests(NAMESPACE, SCHEDULER, 0)
    objects = [*fleet.nodes, *fleet.classes, *fleet.slices, *manifests]
    asked = _asked(objects, scenario.profile)
    if scenario.later is None:
        return asked
    first = simulator.answer(asked).plan
    known = {(each["kind"], each["metadata"]["name"]) for each in objects}
    later = scenario.later(NAMESPACE, SCHEDULER, 0)
    more = [each for each in later if (each["kind"], each["metadata"]["name"]) not in known]
    both = _asked([*objects, *more], scenario.profile)
    running = {each.pod for each in first.placements}
    return msgspec.structs.replace(
        both,
        snapshot=snapshot_after(both.snapshot, both.batch.pods, first.placements, first.allocations),
        batch=both.batch.without(running),
    )


def _asked(objects: list[Manifest], profile: Mapping[str, Any]) -> Record:
    """Read manifests as `dovetail simulate` does, with a profile's settings."""
    with tempfile.TemporaryDirectory() as folder:
        manifests, config = Path(folder, "objects.yaml"), Path(folder, "config.yaml")
        manifests.write_text("---\n".join(json.dumps(each) + "\n" for each in objects))
        config.write_text(
            json.dumps({"apiVersion": API_VERSION, "kind": KIND, "profiles": [{"schedulerName": SCHEDULER, **profile}]})
        )
        case = case_builder.CaseBuilder.of(live_cluster.ClusterObjects(), documents.read([manifests])).case(SCHEDULER)
        asked = simulator.recorded(case, load(config), SCHEDULER)
    rules = msgspec.structs.replace(asked.policy.preemption, now=NOW)
    return msgspec.structs.replace(asked, policy=msgspec.structs.replace(asked.policy, preemption=rules))

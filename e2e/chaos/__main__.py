"""The command line of chaos."""

import argparse
import contextlib
import random
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Final

from e2e.audit.history import History
from e2e.audit.inventory import Inventory
from e2e.audit.reading import Finding, Key
from e2e.audit.writes import read_writes
from e2e.chaos.cluster import (
    GPU_NODES,
    HOSTILE_NAMESPACE,
    LEAST,
    MOST_EVICTIONS,
    NAMESPACES,
    PEER,
    PEER_PREFIX,
    QUOTA_CLASS,
    QUOTA_NAMESPACES,
    SCHEDULER,
    WORN_NAMESPACE,
    Cluster,
    configure,
)
from e2e.chaos.decay import Decay
from e2e.chaos.disturbances import Disturbances
from e2e.chaos.ending import Ending
from e2e.chaos.hostile_tenant import GiantTenant, HostileTenant
from e2e.chaos.judge import Judge, Rules
from e2e.chaos.node_faults import NodeFaults
from e2e.chaos.node_watcher import NodeWatcher
from e2e.chaos.process_faults import ProcessFaults
from e2e.chaos.progress import report, report_findings
from e2e.chaos.real_nodes import SYNC_SECONDS, RealNodes
from e2e.chaos.replicas import Replicas
from e2e.chaos.watcher import Watcher
from e2e.chaos.work import Work
from e2e.controlplane.plane import ControlPlane
from e2e.dovetail import NAMESPACE, install
from e2e.fleet import nvidia
from e2e.nodes.cluster import unusable
from e2e.nodes.node import OWN
from e2e.nodes.programs import Programs

PARTIAL_SECONDS: Final = 90.0
"""Some restarts one after the other, on a machine that has other things to do."""
LEFT_SECONDS: Final = 60.0
"""For taking an allocation back after its pods have ended; longer than anything is stopped."""
LEFT_ON_REAL_NODES_SECONDS: Final = 180.0
"""The same where a kubelet has to end the pod first, which may be away, as may its driver."""
LEASE: Final = Key(NAMESPACE, "dovetail")
SHOWN: Final = 40


def main(arguments: list[str] | None = None) -> int:
    """Run; 0 when nothing was found, 2 where no real node can run that is asked for."""
    options = _options(arguments)
    if options.nodes and (reason := unusable(OWN)):
        print(f"No node can run here: {reason}. Without --nodes the run needs none.", file=sys.stderr)
        return 2
    seed = options.seed if options.seed is not None else random.randrange(10_000)  # noqa: S311 - no secret
    folder = (options.folder or Path(tempfile.mkdtemp(prefix="dovetail-chaos-"))).resolve()
    folder.mkdir(parents=True, exist_ok=True)
    report(f"seed {seed}, {options.minutes:g} minutes, logs in {folder}")
    real = GPU_NODES[: options.nodes]
    if real:
        Programs.built()  # minutes the first time
    has_peer = not options.without_kube_scheduler
    state = folder / "controlplane"
    with ControlPlane.start(kube_scheduler=has_peer, audit_log=True, folder=state) as plane:
        plane.start_kubelet(f"--sync-seconds={SYNC_SECONDS}", "--except", *real)
        findings = _run(Cluster(plane, real), folder, seed, options)
    report_findings(findings[:SHOWN])
    report(f"wrong: {dict(Counter(each.rule for each in findings))}" if findings else "nothing was found")
    return 1 if findings else 0


def _options(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m e2e.chaos", description="Mixed work while everything fails.")
    parser.add_argument("--seed", type=int, help="of work and disturbances (default: another one every time)")
    parser.add_argument("--minutes", type=float, default=10.0, help="how long (default: %(default)s)")
    parser.add_argument(
        "--pods", type=int, default=1000, help="to create, spread over that time (default: %(default)s)"
    )
    parser.add_argument("--folder", type=Path, help="for logs and state (default: a temporary one that stays)")
    parser.add_argument("--without-kube-scheduler", action="store_true", help="leave the neighbour out")
    parser.add_argument("--calm", action="store_true", help="kill, end and stop no process")
    parser.add_argument(
        "--nodes",
        type=int,
        default=0,
        choices=range(len(GPU_NODES) + 1),
        metavar="N",
        help=f"so many of {', '.join(GPU_NODES)} are real ones, with kubelets and containers (root; default: 0)",
    )
    return parser.parse_args(arguments)


def _run(cluster: Cluster, folder: Path, seed: int, options: argparse.Namespace) -> list[Finding]:
    plane = cluster.plane
    cluster.build()
    install(plane, "repair")
    rules = Rules(
        scheduler=SCHEDULER,
        most_evictions=MOST_EVICTIONS,
        partial_seconds=PARTIAL_SECONDS,
        least=LEAST,
        peer=PEER,
        peer_prefix=PEER_PREFIX,
        sharing={each: pair for pair in QUOTA_NAMESPACES for each in pair},
    )
    judge = Judge(rules, Inventory(list(cluster.fleet.slices)))
    with RealNodes.start(cluster, folder / "nodes") as real, contextlib.ExitStack() as ends:
        replicas = Replicas(plane, configure(folder), folder)
        ends.callback(replicas.stop)
        watcher = ends.enter_context(Watcher(plane.admin, judge))
        node_watcher = ends.enter_context(NodeWatcher(cluster, real))
        found = _disturb(cluster, (replicas, real), seed, options, judge)
        ending = Ending(cluster, replicas)
        node_watcher.settle()
        found += [*ending.rest(), *ending.drain(), *ending.empty(), *node_watcher.given_back()]
        found += watcher.ask(lambda each: [*each.findings, *each.finish()])
        found += node_watcher.findings()
    if not judge.bindings:
        found.append(Finding("idle", SCHEDULER, "it bound no pod: this run has shown nothing"))
    found += [Finding("ended", "dovetail", each) for each in replicas.unexpected]
    left_seconds = LEFT_ON_REAL_NODES_SECONDS if cluster.real else LEFT_SECONDS
    return found + _history_findings(folder / "controlplane" / "audit.log", left_seconds)


def _history_findings(log: Path, left_seconds: float) -> list[Finding]:
    """Check every write of the run, in the order of versions."""
    with log.open(encoding="utf-8") as lines:
        writes = read_writes(lines)
    history = History.of(writes, lease=LEASE, left_seconds=left_seconds, quota_drivers={QUOTA_CLASS: nvidia.DRIVER})
    report(f"quotas: {history.quotas.judged} allocations were held against a limit")
    report(f"repairs: {history.repairs.judged} evictions, moves {history.repairs.states}")
    report(f"audit log: {len(writes)} writes, {history.allocations} allocations, {len(history.findings)} findings")
    return history.findings


def _disturb(
    cluster: Cluster,
    harmed: tuple[Replicas, RealNodes],
    seed: int,
    options: argparse.Namespace,
    judge: Judge,
) -> list[Finding]:
    """Let work and everything that disturbs it go on for so long, and put back what was taken away."""
    replicas, real = harmed
    seconds, has_peer = options.minutes * 60, not options.without_kube_scheduler
    work = Work(cluster, seed, pods_per_second=options.pods / seconds, has_peer=has_peer)
    tenant = HostileTenant(cluster, seed)
    giant = GiantTenant(cluster)
    decay = Decay(cluster, seed)
    threads: list[Work | HostileTenant | GiantTenant | Decay | Disturbances | NodeFaults]
    threads = [work, tenant, giant, decay, Disturbances(cluster, seed, real)]
    if real.nodes and not options.calm:
        threads.append(NodeFaults(real, seed))
    for thread in threads:
        thread.start()
    faults, end, shown = ProcessFaults(cluster.plane, replicas, seed), time.monotonic() + seconds, 0
    while time.monotonic() < end:
        time.sleep(faults.pause())
        if not options.calm:
            faults.inject()
        replicas.mend()
        report_findings(judge.findings[shown:])
        shown = len(judge.findings)
    found = [Finding("ended", type(each).__name__, "it ended too early") for each in threads if not each.is_alive()]
    for thread in threads:
        thread.stop.set()
    for thread in threads:
        thread.join()
    cluster.keep_no_more(*NAMESPACES, WORN_NAMESPACE)
    cluster.restore()
    real.restore()
    found += cluster.remove_namespace(HOSTILE_NAMESPACE)
    report(
        f"disturbances end: {work.created} pods, {tenant.admitted} hostile and {giant.admitted} giant objects created, "
        f"{judge.bindings} bindings, {len(judge.evictions)} evictions"
    )
    found += decay.findings(len(judge.carried_out), len(judge.settled))
    return found


if __name__ == "__main__":
    sys.exit(main())

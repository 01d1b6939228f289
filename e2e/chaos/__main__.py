"""The command line of chaos."""

import argparse
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
    HOSTILE_NAMESPACE,
    LEAST,
    MOST_EVICTIONS,
    PEER,
    PEER_PREFIX,
    SCHEDULER,
    Cluster,
    configure,
)
from e2e.chaos.disturbances import Disturbances
from e2e.chaos.ending import Ending
from e2e.chaos.hostile_tenant import GiantTenant, HostileTenant
from e2e.chaos.judge import Judge, Rules
from e2e.chaos.process_faults import ProcessFaults
from e2e.chaos.progress import report
from e2e.chaos.replicas import Replicas
from e2e.chaos.watcher import Watcher
from e2e.chaos.work import Work
from e2e.controlplane.plane import ControlPlane
from e2e.dovetail import NAMESPACE, install

PARTIAL_SECONDS: Final = 90.0
"""Some restarts one after the other, on a machine that has other things to do."""
LEFT_SECONDS: Final = 60.0
"""For taking an allocation back after its pods have ended; longer than anything is stopped."""
LEASE: Final = Key(NAMESPACE, "dovetail")
SHOWN: Final = 40


def main(arguments: list[str] | None = None) -> int:
    """Run; 0 when nothing was found."""
    parser = argparse.ArgumentParser(prog="python -m e2e.chaos", description="Mixed work while everything fails.")
    parser.add_argument("--seed", type=int, help="of work and disturbances (default: another one every time)")
    parser.add_argument("--minutes", type=float, default=10.0, help="how long (default: %(default)s)")
    parser.add_argument(
        "--pods", type=int, default=1000, help="to create, spread over that time (default: %(default)s)"
    )
    parser.add_argument("--folder", type=Path, help="for logs and state (default: a temporary one that stays)")
    parser.add_argument("--without-kube-scheduler", action="store_true", help="leave the neighbour out")
    parser.add_argument("--calm", action="store_true", help="kill, end and stop no process")
    options = parser.parse_args(arguments)
    seed = options.seed if options.seed is not None else random.randrange(10_000)  # noqa: S311 - no secret
    folder = (options.folder or Path(tempfile.mkdtemp(prefix="dovetail-chaos-"))).resolve()
    folder.mkdir(parents=True, exist_ok=True)
    report(f"seed {seed}, {options.minutes:g} minutes, logs in {folder}")
    has_peer = not options.without_kube_scheduler
    state = folder / "controlplane"
    with ControlPlane.start(kubelet=True, kube_scheduler=has_peer, audit_log=True, folder=state) as plane:
        findings = _run(plane, folder, seed, options)
    for each in findings[:SHOWN]:
        report(f"WRONG {each.rule:8} {each.subject}: {each.message}")
    report(f"wrong: {dict(Counter(each.rule for each in findings))}" if findings else "nothing was found")
    return 1 if findings else 0


def _run(plane: ControlPlane, folder: Path, seed: int, options: argparse.Namespace) -> list[Finding]:
    cluster = Cluster(plane)
    cluster.build()
    install(plane)
    rules = Rules(
        scheduler=SCHEDULER,
        most_evictions=MOST_EVICTIONS,
        partial_seconds=PARTIAL_SECONDS,
        least=LEAST,
        peer=PEER,
        peer_prefix=PEER_PREFIX,
    )
    judge = Judge(rules, Inventory(list(cluster.fleet.slices)))
    replicas = Replicas(plane, configure(folder), folder)
    try:
        with Watcher(plane.admin, judge) as watcher:
            found = _disturb(cluster, replicas, seed, options, judge)
            ending = Ending(cluster, replicas)
            found += [*ending.rest(), *ending.drain(), *ending.empty()]
            found += watcher.ask(lambda each: [*each.findings, *each.finish()])
    finally:
        replicas.stop()
    if not judge.bindings:
        found.append(Finding("idle", SCHEDULER, "it bound no pod: this run has shown nothing"))
    found += [Finding("ended", "dovetail", each) for each in replicas.unexpected]
    return found + _history_findings(folder / "controlplane" / "audit.log")


def _history_findings(log: Path) -> list[Finding]:
    """Check every write of the run, in the order of versions."""
    with log.open(encoding="utf-8") as lines:
        writes = read_writes(lines)
    history = History.of(writes, lease=LEASE, left_seconds=LEFT_SECONDS)
    report(f"audit log: {len(writes)} writes, {history.allocations} allocations, {len(history.findings)} findings")
    return history.findings


def _disturb(
    cluster: Cluster, replicas: Replicas, seed: int, options: argparse.Namespace, judge: Judge
) -> list[Finding]:
    """Let work and everything that disturbs it go on for so long, and put back what was taken away."""
    seconds, has_peer = options.minutes * 60, not options.without_kube_scheduler
    work = Work(cluster, seed, pods_per_second=options.pods / seconds, has_peer=has_peer)
    tenant = HostileTenant(cluster, seed)
    giant = GiantTenant(cluster)
    threads = (work, tenant, giant, Disturbances(cluster, seed))
    for thread in threads:
        thread.start()
    faults, end, shown = ProcessFaults(cluster.plane, replicas, seed), time.monotonic() + seconds, 0
    while time.monotonic() < end:
        time.sleep(faults.pause())
        if not options.calm:
            faults.inject()
        replicas.mend()
        for each in judge.findings[shown:]:
            report(f"WRONG {each.rule:8} {each.subject}: {each.message}")
        shown = len(judge.findings)
    found = [Finding("ended", type(each).__name__, "it ended too early") for each in threads if not each.is_alive()]
    for thread in threads:
        thread.stop.set()
    for thread in threads:
        thread.join()
    cluster.restore()
    found += cluster.remove_namespace(HOSTILE_NAMESPACE)
    report(
        f"disturbances end: {work.created} pods, {tenant.admitted} hostile and {giant.admitted} giant objects created, "
        f"{judge.bindings} bindings, {len(judge.evictions)} evictions"
    )
    return found


if __name__ == "__main__":
    sys.exit(main())

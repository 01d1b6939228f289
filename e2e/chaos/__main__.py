"""The command line of chaos."""

import argparse
import random
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from e2e.audit.inventory import Inventory
from e2e.audit.reading import Finding
from e2e.chaos.disturbances import Disturbances
from e2e.chaos.ending import Ending
from e2e.chaos.judge import Judge, Rules
from e2e.chaos.replicas import Killer, Replicas
from e2e.chaos.stage import LEAST, MOST_EVICTIONS, PEER, PEER_PREFIX, SCHEDULER, Stage, configure
from e2e.chaos.telling import tell
from e2e.chaos.witness import Witness
from e2e.chaos.work import Work
from e2e.controlplane.plane import ControlPlane
from e2e.dovetail import install

PARTIAL_SECONDS = 90.0
"""Some restarts one after the other, on a machine that has other things to do."""
SHOWN = 40


def main(arguments: list[str] | None = None) -> int:
    """Run; 0 when nothing was found."""
    parser = argparse.ArgumentParser(prog="python -m e2e.chaos", description="Mixed work while everything fails.")
    parser.add_argument("--seed", type=int, help="of work and disturbances (default: another one every time)")
    parser.add_argument("--minutes", type=float, default=10.0, help="how long (default: %(default)s)")
    parser.add_argument("--folder", type=Path, help="for logs and state (default: a temporary one that stays)")
    parser.add_argument("--without-kube-scheduler", action="store_true", help="leave the neighbour out")
    parser.add_argument("--calm", action="store_true", help="kill and stop no process")
    options = parser.parse_args(arguments)
    seed = options.seed if options.seed is not None else random.randrange(10_000)  # noqa: S311 - no secret
    folder = (options.folder or Path(tempfile.mkdtemp(prefix="dovetail-chaos-"))).resolve()
    folder.mkdir(parents=True, exist_ok=True)
    tell(f"seed {seed}, {options.minutes:g} minutes, logs in {folder}")
    has_peer = not options.without_kube_scheduler
    with ControlPlane.start(kubelet=True, kube_scheduler=has_peer, folder=folder / "controlplane") as plane:
        findings = _run(plane, folder, seed, options)
    for each in findings[:SHOWN]:
        tell(f"WRONG {each.rule:8} {each.subject}: {each.message}")
    tell(f"wrong: {dict(Counter(each.rule for each in findings))}" if findings else "nothing was found")
    return 1 if findings else 0


def _run(plane: ControlPlane, folder: Path, seed: int, options: argparse.Namespace) -> list[Finding]:
    stage = Stage(plane)
    stage.build()
    rules = Rules(
        scheduler=SCHEDULER,
        most_evictions=MOST_EVICTIONS,
        partial_seconds=PARTIAL_SECONDS,
        least=LEAST,
        peer=PEER,
        peer_prefix=PEER_PREFIX,
    )
    judge = Judge(rules, Inventory(list(stage.fleet.slices)))
    replicas = Replicas(install(plane), configure(folder), folder)
    try:
        with Witness(plane.admin, judge) as witness:
            _disturb(stage, replicas, seed, options, judge)
            ending = Ending(stage, replicas)
            found = [*ending.rest(), *ending.drain(), *ending.empty()]
            found += witness.ask(lambda each: [*each.findings, *each.finish()])
    finally:
        replicas.stop()
    tell(_counts(judge))
    if not judge.bindings:
        found.append(Finding("idle", SCHEDULER, "it bound nobody: this run has shown nothing"))
    return found + [Finding("ended", "dovetail", each) for each in replicas.unexpected]


def _disturb(stage: Stage, replicas: Replicas, seed: int, options: argparse.Namespace, judge: Judge) -> None:
    """Let work and everything that disturbs it go on for so long, and put back what was taken away."""
    threads = (
        Work(stage, seed, has_peer=not options.without_kube_scheduler),
        Disturbances(stage, seed),
    )
    for thread in threads:
        thread.start()
    killer, end, told = Killer(stage.plane, replicas, seed), time.monotonic() + options.minutes * 60, 0
    while time.monotonic() < end:
        time.sleep(killer.pause())
        if not options.calm:
            killer.strike()
        replicas.mend()
        for each in judge.findings[told:]:
            tell(f"WRONG {each.rule:8} {each.subject}: {each.message}")
        told = len(judge.findings)
    tell(f"disturbances end: {_counts(judge)}")
    for thread in threads:
        thread.stop.set()
    for thread in threads:
        thread.join()
    stage.restore()


def _counts(judge: Judge) -> str:
    return f"{judge.allocations} allocations, {judge.bindings} bindings, {len(judge.evictions)} evictions"


if __name__ == "__main__":
    sys.exit(main())

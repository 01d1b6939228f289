"""`dovetail drain`: stop all replicas from scheduling, and take back what was begun for pods that wait."""

import argparse
from typing import TYPE_CHECKING, Final

from scheduler.cli.arguments import cluster_access, refuse, say, warn
from scheduler.cli.exit_status import ExitStatus
from scheduler.cli.sources.configuration import add_configured_cluster, configuration

if TYPE_CHECKING:
    from scheduler.simulation.draining import Drained

_TIMEOUT_SECONDS: Final = 120.0


def add(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.epilog = (
        "Running pods keep their devices. Replicas stand by afterwards, until they are removed or --undo is given. It "
        "needs the rights of the ClusterRole and the Role dovetail. Exit status: 0 drained (with --undo: replicas "
        "schedule again), 1 something could not be taken back or the leader did not end its writes in time, 2 "
        "arguments are wrong or the API server cannot be asked."
    )
    add_configured_cluster(parser)
    parser.add_argument(
        "--lease-namespace",
        metavar="NAMESPACE",
        help="namespace of the Lease (default: that of the configuration, else --dovetail-namespace)",
    )
    parser.add_argument("--undo", action="store_true", help="let the replicas schedule again")
    parser.add_argument(
        "--timeout",
        type=float,
        default=_TIMEOUT_SECONDS,
        metavar="SECONDS",
        help="seconds that the leader may take to end its writes (default: %(default)s)",
    )


def execute(options: argparse.Namespace) -> int:
    """Drain, or undo it."""
    from scheduler.simulation import draining  # noqa: PLC0415 - help and completion need none of it

    access = cluster_access(options)
    settings = configuration(options, access).settings
    election = settings.leader_election
    if not election.enabled:
        return refuse("drain: leaderElection.enabled is false: scale the Deployment to 0 instead")
    namespace = options.lease_namespace or election.lease_namespace or options.dovetail_namespace
    lease = draining.LeaseName(namespace, election.lease_name)
    if options.undo:
        if draining.undo(access, settings, lease):
            say(f"lease {lease.namespace}/{lease.name}: replicas schedule again")
            return ExitStatus.OK
        return refuse(f"drain: there is no lease {lease.namespace}/{lease.name}: see --lease-namespace and --config")
    try:
        done = draining.drain(access, settings, lease, say, timeout_seconds=options.timeout)
    except draining.DrainTimeoutError as error:
        say(str(error))
        return ExitStatus.NO
    return _report(done)


def _report(done: "Drained") -> int:
    say(
        f"released {done.released} claims of pods that wait, deleted {done.special} that were made for extended "
        f"resources, tidied {done.claims} claims, removed {done.nominations} nominated nodes"
    )
    for problem in done.problems:
        warn(problem)
    state = f"{done.running} pods run and keep their devices, {done.waiting} wait"
    if done.problems:
        say(f"not drained: {state}; what is named above is left, drain again")
        return ExitStatus.NO
    say(f"drained: {state}. Remove Dovetail now, or let it go on with `dovetail drain --undo`")
    return ExitStatus.OK

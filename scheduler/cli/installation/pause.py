"""`dovetail pause`: stop all replicas from scheduling, and take back what was begun for pods that wait."""

import argparse
from typing import TYPE_CHECKING, Final, NamedTuple

from scheduler.cli.arguments import UsageError, cluster_access, say, warn
from scheduler.cli.exit_status import ExitStatus
from scheduler.cli.sources.configuration import add_configured_cluster, configuration

if TYPE_CHECKING:
    from scheduler.installation.pausing import LeaseName, Paused
    from scheduler.kube.access import ClusterAccess
    from scheduler.settings import Settings

_TIMEOUT_SECONDS: Final = 120.0


def add(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.epilog = (
        "It drains no node (that is kubectl drain): running pods keep their devices. Replicas stand by afterwards, "
        "until `dovetail resume`, or until they are removed. It needs the rights of the ClusterRole and the Role "
        "dovetail. Exit status: 0 paused, 1 something could not be taken back or the leader did not end its writes in "
        "time, 2 arguments are wrong or the API server cannot be asked."
    )
    add_lease(parser)
    add_timeout(parser)


def add_lease(parser: argparse.ArgumentParser) -> None:
    """Add the options that say which Lease is meant."""
    add_configured_cluster(parser)
    parser.add_argument(
        "--lease-namespace",
        metavar="NAMESPACE",
        help="namespace of the Lease (default: that of the configuration, else --dovetail-namespace)",
    )


def add_timeout(parser: argparse.ArgumentParser) -> None:
    """Add `--timeout`."""
    parser.add_argument(
        "--timeout",
        type=float,
        default=_TIMEOUT_SECONDS,
        metavar="SECONDS",
        help="seconds that the leader may take to end its writes (default: %(default)s)",
    )


class LeaseTarget(NamedTuple):
    """The cluster, the configuration of the scheduler that is meant, and its Lease."""

    access: "ClusterAccess"
    settings: "Settings"
    lease: "LeaseName"


def lease_target(options: argparse.Namespace) -> LeaseTarget:
    """Return which Lease is meant. Raise `UsageError` where the scheduler has none."""
    from scheduler.installation.pausing import LeaseName  # noqa: PLC0415 - help and completion need none of it

    access = cluster_access(options)
    settings = configuration(options, access).settings
    election = settings.leader_election
    if not election.enabled:
        raise UsageError("leaderElection.enabled is false: scale the Deployment to 0 instead")
    namespace = options.lease_namespace or election.lease_namespace or options.dovetail_namespace
    return LeaseTarget(access, settings, LeaseName(namespace, election.lease_name))


def execute(options: argparse.Namespace) -> int:
    """Pause."""
    from scheduler.installation import pausing  # noqa: PLC0415 - as above

    target = lease_target(options)
    try:
        done = pausing.pause(*target, say, timeout_seconds=options.timeout)
    except pausing.PauseTimeoutError as error:
        say(str(error))
        return ExitStatus.NO
    return _report(done)


def _report(done: "Paused") -> int:
    say(
        f"took back what was begun for pods that wait: released {done.released} claims, deleted {done.special} claims "
        f"for extended resources, removed annotations and finalizers from {done.claims} claims, and nominated nodes "
        f"from {done.nominations} pods"
    )
    for problem in done.problems:
        warn(problem)
    state = f"{done.running} pods run and keep their devices, {done.waiting} wait"
    if done.problems:
        say(f"paused, but not everything could be taken back: {state}. Mend what is named above, and pause again")
        return ExitStatus.NO
    say(f"paused: {state}. Remove Dovetail now, or let it go on with `dovetail resume`")
    return ExitStatus.OK

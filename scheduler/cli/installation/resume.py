"""`dovetail resume`: let the replicas of a paused scheduler place pods again."""

import argparse

from scheduler.cli.arguments import refuse, say
from scheduler.cli.exit_status import ExitStatus
from scheduler.cli.installation.pause import add_lease, lease_target


def add(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.epilog = (
        "It needs the rights of the Role dovetail. Exit status: 0 the replicas schedule again, 2 there is no Lease, "
        "arguments are wrong or the API server cannot be asked."
    )
    add_lease(parser)


def execute(options: argparse.Namespace) -> int:
    """Resume."""
    from scheduler.installation import pausing  # noqa: PLC0415 - help and completion need none of it

    target = lease_target(options)
    lease = target.lease
    if not pausing.resume(*target):
        return refuse(
            f"resume: there is no Lease {lease.namespace}/{lease.name}, so no replica has led there: see "
            "--dovetail-namespace, --lease-namespace and --config"
        )
    say(f"the replicas with the Lease {lease.namespace}/{lease.name} schedule again")
    return ExitStatus.OK

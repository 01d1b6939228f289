"""`dovetail status`: whether the installation is healthy, and what to look at next."""

import argparse
import datetime as dt
import sys
import time
from typing import TYPE_CHECKING, Any, Final

from scheduler.cli.arguments import TABLE, UsageError, add_format, cluster_access, completed, say, warn
from scheduler.cli.exit_status import ExitStatus
from scheduler.cli.sources.configuration import Configuration, add_configured_cluster, configuration

if TYPE_CHECKING:
    from scheduler.installation.status_output import InstallationStatus
    from scheduler.kube.access import ClusterAccess

_TIMEOUT_SECONDS: Final = 120.0
_PAUSE_SECONDS: Final = 2.0


def add(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.epilog = (
        "Nothing is written to the cluster. Exit status: 0 it is healthy, perhaps with warnings, 1 it is not (a state "
        "is failed), with --wait not until the end of --timeout, 2 the API server cannot be asked, 3 you may not read "
        "all of it, so that the answer may be wrong."
    )
    add_configured_cluster(parser)
    parser.add_argument("--wait", action="store_true", help="wait until it is healthy")
    parser.add_argument(
        "--timeout",
        type=float,
        default=_TIMEOUT_SECONDS,
        metavar="SECONDS",
        help="how long --wait may take (default: %(default)s)",
    )
    add_format(parser)


def execute(options: argparse.Namespace) -> int:
    """Read, judge and print; with `--wait` again until it is healthy."""
    if not options.timeout > 0:
        raise UsageError(f"--timeout {options.timeout:g}: write a number of seconds above 0")
    access, ends = cluster_access(options), time.monotonic() + options.timeout
    settings = configuration(options, access)
    found, forbidden = _read(options, access, settings)
    while options.wait and not found.is_known_to_be_healthy and time.monotonic() < ends:
        time.sleep(_PAUSE_SECONDS)
        settings = configuration(options, access)
        found, forbidden = _read(options, access, settings)
    if options.output == TABLE:
        from scheduler.installation import status_output  # noqa: PLC0415 - the printing takes a while to import

        status_output.show(found, sys.stdout)
    else:
        from scheduler.installation import status_output  # noqa: PLC0415 - as above
        from scheduler.simulation import printing  # noqa: PLC0415 - as above

        sys.stdout.write(printing.text("Status", status_output.document(found), options.output))
    if options.wait and not found.is_healthy:
        say(f"status: not healthy after {options.timeout:g} s")
    status = ExitStatus.OK if found.is_healthy else ExitStatus.NO
    return completed(status, forbidden, is_configured=settings.is_known)


def _read(
    options: argparse.Namespace, access: "ClusterAccess", configured: "Configuration"
) -> "tuple[InstallationStatus, tuple[str, ...]]":
    """Read the installation and the cluster, and judge both; return also what the caller may not list."""
    from scheduler.installation import findings, installed_pods, status_output  # noqa: PLC0415 - they take a second to import
    from scheduler.installation.account_rights import InstallationName  # noqa: PLC0415 - as above

    settings = configured.settings
    namespace, election = options.dovetail_namespace, settings.leader_election
    name = InstallationName(namespace, election.lease_namespace or namespace, election.lease_name)
    seen = installed_pods.read(access, name, settings.features)
    cluster, forbidden = _cluster(access, configured, seen.class_drivers)
    now = dt.datetime.now(dt.UTC)
    found = (*findings.of_scheduler(seen, namespace, now), *(cluster.findings if cluster is not None else ()))
    status = status_output.InstallationStatus(namespace, seen.runs, seen, cluster, found)
    return status, (*seen.forbidden, *forbidden)


def _cluster(access: "ClusterAccess", configured: "Configuration", class_drivers: Any) -> Any:
    from scheduler.installation import cluster_findings  # noqa: PLC0415 - as above
    from scheduler.kube.errors import ConfigurationError  # noqa: PLC0415 - as above
    from scheduler.simulation import fleet_reading  # noqa: PLC0415 - as above

    settings = configured.settings
    label = settings.metrics.node_group_label
    policy = settings.policy(settings.profiles[0].scheduler_name)
    try:
        fleet = fleet_reading.from_cluster(
            access, policy, label, finds_gone_pods=False, reads_pods=True, matches_classes=False
        )
    except ConfigurationError as error:  # an API server without resource.k8s.io/v1
        warn(str(error))
        return None, ()
    for warning in fleet.warnings:
        warn(warning)
    part = cluster_findings.of_cluster(
        fleet,
        dt.datetime.now(dt.UTC),
        names=settings.scheduler_names,
        served=configured.scheduler_names,
        class_drivers=class_drivers,
        group_label=label,
        owned=settings.owned_devices(),
    )
    return part, fleet.forbidden

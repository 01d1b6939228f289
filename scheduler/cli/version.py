"""`dovetail version`: the versions of this program, of the API server and of the schedulers in the cluster."""

import argparse
import platform
import sys
from typing import TYPE_CHECKING, Any, Final

from scheduler import REPLICAS, version
from scheduler.cli.arguments import TABLE, add_cluster, add_format, cluster_access, say
from scheduler.cli.exit_status import ExitStatus
from scheduler.cli.sources.configuration import add_dovetail_namespace

if TYPE_CHECKING:
    from scheduler.simulation.server_versions import ServerVersions

_SECONDS: Final = 3.0
"""How long the API server may take to answer."""


def add(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.epilog = (
        "The version of a scheduler is the image of its pods; one that leads outside of the cluster says its own in "
        "its Lease. Exit status: 0 also if the API server does not answer, which is said on standard error."
    )
    parser.add_argument("--client", action="store_true", help="only this program: ask no API server")
    add_cluster(parser)
    add_dovetail_namespace(parser, "namespace of the Lease of a scheduler outside of the cluster")
    add_format(parser)


def execute(options: argparse.Namespace) -> int:
    """Print this program's version at once, and then what the API server answers."""
    if options.output == TABLE:
        sys.stdout.write(f"{text()}\n")
        sys.stdout.flush()
    server = None if options.client else _server(options)
    if options.output != TABLE:
        from scheduler.simulation import printing  # noqa: PLC0415 - only documents need it

        sys.stdout.write(printing.text("Versions", _document(server), options.output))
    elif server is not None:
        sys.stdout.write("".join(f"{line}\n" for line in _lines(server, options.dovetail_namespace)))
    return ExitStatus.OK


def text() -> str:
    """Return this program's version in one line."""
    return f"dovetail {version()} (Python {platform.python_version()})"


def _server(options: argparse.Namespace) -> "ServerVersions | None":
    from scheduler.kube.errors import KubeError  # noqa: PLC0415 - as above
    from scheduler.simulation import server_versions  # noqa: PLC0415 - the cluster's client takes a while to import

    try:
        return server_versions.read(cluster_access(options), options.dovetail_namespace, timeout_seconds=_SECONDS)
    except TimeoutError:
        say(f"version: the API server does not answer within {_SECONDS:.0f} s")
    except KubeError as error:
        say(f"version: {error}")
    return None


def _document(server: "ServerVersions | None") -> dict[str, Any]:
    return {"dovetail": version(), "python": platform.python_version(), "server": server}


def _lines(server: "ServerVersions", namespace: str) -> list[str]:
    lines = [f"Kubernetes {server.kubernetes} at {server.address}"]
    if server.schedulers is None:
        lines.append("scheduler: you may not list pods")
    lines += [f"scheduler {each.image}, {each.pods} running in {each.namespace}" for each in server.schedulers or ()]
    if (leader := server.outside) is not None:
        version = leader.version or "of a version that it has not said yet"
        where = "" if server.schedulers is None else " outside of the cluster"
        lines.append(f"scheduler {version}: {leader.name} leads{where}, by the Lease in {leader.namespace}")
    if len(lines) == 1:
        leads = f"no Lease in {namespace} that you may read has a leader"
        lines.append(f"scheduler: no running pod has the label {REPLICAS}, and {leads}")
    return lines

"""`dovetail run`: schedule pods until stopped."""

import argparse
import contextlib
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from scheduler.settings import Settings
    from scheduler.worker.fork_server import ForkServers

LOG_LEVELS: Final = ("debug", "info", "warning", "error")
LOG_FORMATS: Final = ("json", "console")
"""The values of `LogLevel` and `LogFormat` of the settings, which take a second to import."""


def add(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument(
        "--config", type=Path, metavar="FILE", help="configuration file (see `dovetail config --print-default`)"
    )
    parser.add_argument(
        "--kubeconfig",
        type=Path,
        metavar="FILE",
        help="kubeconfig file of the cluster (default: the service account of the pod; outside a cluster $KUBECONFIG)",
    )
    parser.add_argument(
        "--scheduler-name",
        action="append",
        default=[],
        metavar="NAME",
        help="schedule pods with this spec.schedulerName instead of the names in the profiles; may be repeated",
    )
    parser.add_argument(
        "--leader-elect",
        type=_truth,
        metavar="true|false",
        help="acquire a Lease before writing anything (default: leaderElection.enabled of the configuration)",
    )
    parser.add_argument(
        "--bind-address",
        metavar="HOST:PORT",
        help="address of /livez and /readyz, such as :8080 or [::1]:8080; of /metrics, too, unless it has its own",
    )
    parser.add_argument("--metrics-bind-address", metavar="HOST:PORT", help="address of /metrics, such as :8081")
    parser.add_argument("--log-level", choices=LOG_LEVELS, help="lowest level that is logged")
    parser.add_argument("--log-format", choices=LOG_FORMATS, help="format of log lines")


def execute(options: argparse.Namespace) -> int:
    """Load the settings and run; slow imports wait until the settings are valid."""
    from scheduler.settings import Overrides, load  # noqa: PLC0415 - as above

    deprecations: list[str] = []
    settings = load(
        options.config,
        Overrides(
            scheduler_names=tuple(options.scheduler_name),
            leader_elect=options.leader_elect,
            bind_address=options.bind_address,
            metrics_bind_address=options.metrics_bind_address,
            log_level=options.log_level,
            log_format=options.log_format,
        ),
        deprecations.append,
    )
    from scheduler.worker.fork_server import ForkServers  # noqa: PLC0415 - other commands have no worker

    with contextlib.closing(ForkServers(settings.solver.memory_limit_mib)) as servers:
        servers.launch_ahead()  # it imports the solver while this process imports the cluster's client
        return _run(settings, options.kubeconfig, deprecations, servers)


def _run(settings: "Settings", kubeconfig: Path | None, deprecations: Sequence[str], servers: "ForkServers") -> int:
    """Run with these settings; the last line of a crash is a log line like the others."""
    from scheduler.observe import logs  # noqa: PLC0415 - the cluster's client takes a second to import
    from scheduler.run import run  # noqa: PLC0415 - the same

    logs.configure(settings.logging)
    for message in deprecations:
        logs.logger().warning(logs.SETTING_DEPRECATED, message=message)
    try:
        return run(settings, kubeconfig, servers)
    except Exception:  # noqa: BLE001 - as above
        logs.logger().exception(logs.CRASHED)
        return 1


def _truth(text: str) -> bool:
    """Parse `true` or `false`, as in the flags of Kubernetes."""
    match text.lower():
        case "true":
            return True
        case "false":
            return False
    raise argparse.ArgumentTypeError(f"{text!r} is neither true nor false")

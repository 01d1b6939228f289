"""`dovetail run`: schedule, until it is told to stop."""

import argparse
from pathlib import Path
from typing import Any

from scheduler.settings import LogFormat, LogLevel, Overrides, load


def add(commands: Any) -> None:
    """Add the command to the parser."""
    text = "Schedule the pods that name this scheduler, until stopped (SIGTERM or SIGINT). The default command."
    parser = commands.add_parser("run", help=text, description=text, allow_abbrev=False)
    parser.add_argument(
        "--config", type=Path, metavar="FILE", help="configuration file (see `dovetail config --print-default`)"
    )
    parser.add_argument(
        "--kubeconfig",
        type=Path,
        metavar="FILE",
        help="how to reach the cluster; without it the pod's own service account, or outside a cluster $KUBECONFIG",
    )
    parser.add_argument(
        "--scheduler-name",
        action="append",
        default=[],
        metavar="NAME",
        help="schedule pods with this spec.schedulerName, instead of the profiles' names; may be given several times",
    )
    parser.add_argument(
        "--leader-elect",
        type=_truth,
        metavar="true|false",
        help="hold a Lease before anything is written (default: the configuration's, true)",
    )
    parser.add_argument(
        "--bind-address",
        metavar="HOST:PORT",
        help="serve /livez, /readyz and /metrics here, such as :8080 or [::1]:8080",
    )
    parser.add_argument(
        "--log-level", choices=[each.value for each in LogLevel], help="the least severe level that is logged"
    )
    parser.add_argument("--log-format", choices=[each.value for each in LogFormat], help="what a log line looks like")
    parser.set_defaults(execute=execute)


def execute(options: argparse.Namespace) -> int:
    """Read the settings, then run on them; imports of what runs wait until the settings are right."""
    settings = load(
        options.config,
        Overrides(
            scheduler_names=tuple(options.scheduler_name),
            leader_elect=options.leader_elect,
            bind_address=options.bind_address,
            log_level=options.log_level,
            log_format=options.log_format,
        ),
    )
    from scheduler.observe import logs  # noqa: PLC0415 - the cluster's client and the solver take a second to import
    from scheduler.run import run  # noqa: PLC0415 - the same

    logs.configure(settings.logging)
    try:
        return run(settings, options.kubeconfig)
    except Exception:  # noqa: BLE001 - the last line of a crash is for machines too
        logs.logger().exception(logs.CRASHED)
        return 1


def _truth(text: str) -> bool:
    """Read `true` or `false`, as Kubernetes' own flags are written."""
    match text.lower():
        case "true":
            return True
        case "false":
            return False
    raise argparse.ArgumentTypeError(f"{text!r} is neither true nor false")

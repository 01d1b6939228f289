"""`dovetail devices`: the holder of each device or share, since when, and why the others can or cannot be had."""

import argparse
import sys
from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

from scheduler.cli.arguments import TABLE, WIDE
from scheduler.cli.sources import fleet_arguments


def add(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    fleet_arguments.add(parser)
    parser.add_argument(
        "--problems",
        action="store_true",
        help="only devices that claims cannot get, or could not get if they were free: with a taint, in an incomplete "
        "pool, on a node that is gone, cordoned or not ready",
    )


def execute(options: argparse.Namespace) -> int:
    """Read and print; with `--watch` again whenever something changes."""

    def chosen(devices: Iterable[Any]) -> list[Any]:
        return [each for each in devices if each.problems or not options.problems]

    command = fleet_arguments.FleetCommand(
        "devices",
        lambda _, devices: chosen(devices),
        lambda found: chosen(found.items),
        _print,
        finds_gone_pods=True,
        matches_classes=options.output != TABLE,  # the other formats have a column of them
    )
    return fleet_arguments.run(options, command)


def _print(options: argparse.Namespace, found: Any, devices: Any) -> None:
    from scheduler.simulation import devices_output, printing  # noqa: PLC0415 - the solver takes a second to import

    if options.output in {"json", "yaml"}:
        fields = devices_output.document(
            found.fleet, devices, knows_holders=found.knows_holders, reserved_nodes=found.reserved_nodes
        )
        sys.stdout.write(printing.text("DeviceList", fields, options.output))
        return
    if options.problems and not devices:
        sys.stdout.write("No device of these has a problem.\n")
        return
    devices_output.show(
        devices,
        sys.stdout,
        datetime.now(UTC),
        is_wide=options.output == WIDE,
        is_grouped=options.problems,
        knows_holders=found.knows_holders,
        reserved_nodes=found.reserved_nodes,
    )

"""`dovetail devices`: who holds which device or share, since when, and why the others can or cannot be had."""

import argparse
import sys
from datetime import UTC, datetime
from typing import Any

from scheduler.cli.arguments import WIDE
from scheduler.cli.sources import fleet_arguments


def add(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    fleet_arguments.add(parser)


def execute(options: argparse.Namespace) -> int:
    """Read and print; with `--watch` again whenever something changes."""
    return fleet_arguments.run(options, lambda _, devices: devices, _print)


def _print(options: argparse.Namespace, found: Any, devices: Any) -> None:
    from scheduler.simulation import devices_output, printing  # noqa: PLC0415 - the solver takes a second to import

    if options.output in {"json", "yaml"}:
        fields = devices_output.document(found.fleet, devices, knows_holders=found.knows_holders)
        sys.stdout.write(printing.text("DeviceList", fields, options.output))
        return
    is_wide = options.output == WIDE
    devices_output.show(devices, sys.stdout, datetime.now(UTC), is_wide=is_wide, knows_holders=found.knows_holders)

"""`dovetail free`: how many devices are held and free, the largest blocks, and fragmentation with its causes."""

import argparse
import sys
from typing import Any, Final

from scheduler.cli.arguments import WIDE, UsageError
from scheduler.cli.sources import fleet_arguments

_GROUPINGS: Final = ("class", "type", "group", "domain", "root", "node", "namespace")
_DEFAULT: Final = "class,type,group"


def add(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    fleet_arguments.add(parser)
    parser.add_argument(
        "--by",
        type=_grouping,
        default=_DEFAULT,
        metavar="LIST",
        help=f"what devices are grouped by, with commas between: {', '.join(_GROUPINGS)} (default: {_DEFAULT})",
    )


def _grouping(text: str) -> tuple[str, ...]:
    names = tuple(dict.fromkeys(text.split(",")))
    for name in names:
        if name not in _GROUPINGS:
            raise argparse.ArgumentTypeError(f"{name!r} is none of {', '.join(_GROUPINGS)}")
    return names


def execute(options: argparse.Namespace) -> int:
    """Read and print; with `--watch` again whenever something changes."""

    def answer(found: Any, devices: Any) -> Any:
        from scheduler.simulation import supply_output  # noqa: PLC0415 - the printing takes a while to import
        from scheduler.simulation.devices_output import is_reserved  # noqa: PLC0415 - as above
        from solver import grouped_supply  # noqa: PLC0415 - the solver takes a second to import
        from solver.domain.fleet import Grouping  # noqa: PLC0415 - as above

        if not found.knows_holders:
            raise UsageError("resourceclaims may not be listed, and without them it is not known what is free")
        supply = grouped_supply(found.fleet, devices, tuple(map(Grouping, options.by)))
        nodes = found.reserved_nodes
        reserved = None if nodes is None else sum(is_reserved(each, nodes) for each in devices)
        return supply, reserved, supply_output.behind_taints(devices, found.node_taints)

    command = fleet_arguments.FleetCommand("free", answer, lambda document: (document.supply, None, None), _print)
    return fleet_arguments.run(options, command)


def _print(options: argparse.Namespace, found: Any, answer: Any) -> None:
    from scheduler.simulation import printing, supply_output  # noqa: PLC0415 - the solver takes a second to import

    supply, reserved, tainted = answer
    if options.output in {"json", "yaml"}:
        fields = supply_output.document(supply, found.fleet) | {
            "reserved": reserved,
            "behindTaints": tainted and tainted.devices,
        }
        sys.stdout.write(printing.text("FreeDevices", fields, options.output))
        return
    supply_output.show(
        supply, found.fleet, sys.stdout, is_wide=options.output == WIDE, reserved=reserved, tainted=tainted
    )

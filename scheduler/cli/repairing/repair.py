"""`dovetail repair`: plans of moves, and what becomes of those that the scheduler has made (`repair_plans`)."""

import argparse
from typing import Final

from scheduler.cli.arguments import refuse
from scheduler.cli.repairing import plan

_ACTIONS: Final = ("plan",)


def add(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument("action", choices=_ACTIONS, help="`plan`: find the moves for --for, and write nothing")
    plan.add(parser, is_optional=True)


def execute(options: argparse.Namespace) -> int:
    """Do what the action says."""
    if not options.wanted:
        return refuse(
            "repair: plan needs --for: pod NAMESPACE/NAME, gang NAMESPACE/NAME, node NAME or domain LABEL=VALUE"
        )
    return plan.execute(options)

"""`dovetail repair`: plan moves, and list, show, approve, pause and cancel those that the scheduler has planned."""

import argparse
import sys
from typing import Any, Final

from scheduler.cli.arguments import cluster_access, refuse, say
from scheduler.cli.exit_status import ExitStatus
from scheduler.cli.repairing import moves_planning

_DECISIONS: Final = {"approve": "Approved", "pause": "Paused", "cancel": "Cancelled"}
_ACTIONS: Final = ("plan", "list", "show", *_DECISIONS)


def add(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument(
        "action",
        metavar="|".join(_ACTIONS),
        choices=_ACTIONS,
        help="`plan`: find the moves for --for. About the RepairPlans of the scheduler: `list` them, `show` the moves "
        "of one, `approve` it (also one that is paused), `pause` it after the moves under way, or `cancel` it",
    )
    parser.add_argument("name", nargs="?", metavar="NAME", help="the RepairPlan to show or to decide about")
    moves_planning.add(parser, is_optional=True)


def execute(options: argparse.Namespace) -> int:
    """Do what the action says."""
    if options.action == "plan":
        if options.name:
            return refuse(f"repair: plan takes no name: write --for {options.name}")
        if not options.wanted:
            kinds = "pod NAMESPACE/NAME, gang NAMESPACE/NAME, node NAME, device NODE/NAME, domain LABEL=VALUE"
            return refuse(f"repair: plan needs --for: {kinds}")
        return moves_planning.execute(options)
    if options.wanted or options.filename or options.apply or options.save:
        own = "--for, -f, --apply and --save"
        return refuse(f"repair: {options.action} is about RepairPlans of a cluster: {own} go with plan")
    if options.action == "list":
        return _list(options)
    if not options.name:
        return refuse(f"repair: {options.action} needs the name of a RepairPlan: `dovetail repair list` has them")
    return _about_one(options)


def _list(options: argparse.Namespace) -> int:
    from scheduler.kube.access import wait_for  # noqa: PLC0415 - the cluster's client takes a while to import
    from scheduler.simulation.moves import repair_plans_output, repair_plans_reading  # noqa: PLC0415 - the same

    plans = wait_for(repair_plans_reading.listed(cluster_access(options)))
    repair_plans_output.show_list(plans, sys.stdout, options.output)
    return ExitStatus.OK


def _about_one(options: argparse.Namespace) -> int:
    from scheduler.kube.access import wait_for  # noqa: PLC0415 - as above
    from scheduler.simulation.moves import repair_plans_output, repair_plans_reading  # noqa: PLC0415 - the same

    access: Any = cluster_access(options)
    if options.action == "show":
        shown = wait_for(repair_plans_reading.one(access, options.name))
        repair_plans_output.show_one(shown, sys.stdout, options.output)
        return ExitStatus.OK
    decided = wait_for(repair_plans_reading.decided(access, options.name, _DECISIONS[options.action]))
    say(f"repairplan/{decided.name}: {decided.spec.decision.lower()} by {decided.spec.decided_by}")
    return ExitStatus.OK

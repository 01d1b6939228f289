"""`dovetail page`: the fleet and the queue as a web page that follows the cluster, served by this process."""

import argparse
import asyncio
import contextlib
import datetime as dt
import signal
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from scheduler.cli import map as map_command
from scheduler.cli.arguments import UsageError, cluster_access, manifests
from scheduler.cli.exit_status import ExitStatus
from scheduler.cli.sources import fleet_arguments

if TYPE_CHECKING:
    from scheduler.page.live_fleet import FleetReading
    from scheduler.settings import Address

_LISTEN: Final = "127.0.0.1:8765"


def add(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.epilog = (
        "The page shows what you may list, to every user of this machine who can reach the port. The cluster is read "
        "only while a page is open. Ctrl-C ends it. Exit status: 0 it was stopped by SIGTERM, 2 arguments are wrong or "
        "the port cannot be opened."
    )
    map_command.add_source(parser)
    parser.add_argument(
        "--listen",
        default=_LISTEN,
        metavar="HOST:PORT",
        help="address of the page, on the loopback interface (default: %(default)s; port 0: a free one)",
    )


def execute(options: argparse.Namespace) -> int:
    """Serve until stopped."""
    address = _address(options.listen)
    if not manifests(options) and not options.snapshot:
        cluster_access(options)  # a kubeconfig that cannot be used is said at once
    asyncio.run(_serve(_reader(options), address))
    return ExitStatus.OK


def _address(text: str) -> "Address":
    """Read `--listen`. Raise `UsageError`."""
    from scheduler.settings import parse_address  # noqa: PLC0415 - the settings take a second to import

    try:
        address = parse_address(text)
    except ValueError as error:
        raise UsageError(f"--listen: {error}") from error
    if not address.is_loopback:
        raise UsageError(f"--listen: {text!r} is open to other machines, and the page asks for no token")
    return address


async def _serve(read: "Callable[[], FleetReading]", address: "Address") -> None:
    from scheduler.page import live_fleet, page_server  # noqa: PLC0415 - the solver takes a while to import

    stopped = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopped.set)
    async with contextlib.AsyncExitStack() as ends:
        subjects = page_server.PageSubjects(live_fleet.LiveFleet(read))
        try:
            bound = await ends.enter_async_context(page_server.serving(subjects, address))
        except OSError as error:
            raise UsageError(f"--listen: {address} cannot be opened: {error}; choose another port") from error
        sys.stdout.write(f"http://{bound}/ shows the page; Ctrl-C ends it\n")
        sys.stdout.flush()
        await stopped.wait()


def _reader(options: argparse.Namespace) -> "Callable[[], FleetReading]":
    """Return the function that reads the fleet; it warns where it has not warned of the same before."""
    from scheduler.page.live_fleet import FleetReading  # noqa: PLC0415 - as above

    read = fleet_arguments.reader(options, finds_gone_pods=True, reads_pods=True, warns=False)
    warned: tuple[str, ...] = ()

    def reading() -> FleetReading:
        nonlocal warned
        began = dt.datetime.now(dt.UTC)
        found = read()
        if (*found.unreadable, *found.warnings) != warned:
            warned = (*found.unreadable, *found.warnings)
            fleet_arguments.report_of(found)
        if found.unreadable:
            raise UsageError("; ".join(found.unreadable))
        return FleetReading(found, map_command.queue(options, found), map_command.origin(options, began))

    return reading

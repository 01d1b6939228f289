"""`dovetail page`: the map, the queue and the last decisions as a web page that follows the cluster."""

import argparse
import contextlib
import datetime as dt
import signal
import sys
from collections.abc import AsyncIterator, Callable, Mapping
from typing import TYPE_CHECKING, Final

from scheduler.cli import map as map_command
from scheduler.cli.arguments import UsageError, cluster_access, manifests
from scheduler.cli.exit_status import ExitStatus
from scheduler.cli.sources import fleet_arguments
from scheduler.cli.sources.running_scheduler import API_IS_OFF, add_scheduler, scheduler_address

if TYPE_CHECKING:
    from scheduler.cli.sources.configuration import Configuration
    from scheduler.page.decision_answers import AskScheduler
    from scheduler.page.fit_questions import FitSource
    from scheduler.page.page_server import Entrance
    from scheduler.page.visible_part import FleetReading
    from scheduler.settings import Address, Settings

_LISTEN: Final = "127.0.0.1:8765"


def add(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.epilog = (
        "The page shows what you may list, to every user of this machine who can reach the port; with --tls-cert-file "
        "callers have tokens and see what they may list. The cluster is read only while a page is open. Exit status: 0 "
        "it was stopped by SIGTERM, 2 arguments are wrong or the port cannot be opened."
    )
    map_command.add_source(parser)
    add_scheduler(parser)
    parser.add_argument(
        "--listen",
        default=_LISTEN,
        metavar="HOST:PORT",
        help="address of the page (default: %(default)s; port 0: a free one)",
    )
    parser.add_argument(
        "--tls-cert-file",
        default="",
        metavar="FILE",
        help="certificate chain (PEM): serves HTTPS, asks each caller for a token, and shows what the caller may list",
    )
    parser.add_argument("--tls-key-file", default="", metavar="FILE", help="private key of the certificate (PEM)")


def execute(options: argparse.Namespace) -> int:
    """Serve until stopped."""
    address = _address(options.listen, has_tokens=bool(options.tls_cert_file))
    if bool(options.tls_cert_file) != bool(options.tls_key_file):
        raise UsageError("give both --tls-cert-file and --tls-key-file, or none of them")
    import asyncio  # noqa: PLC0415 - completion needs none of it

    asyncio.run(_serve(options, fleet_arguments.configured(options), address))
    return ExitStatus.OK


def _address(text: str, *, has_tokens: bool) -> "Address":
    """Read `--listen`. Raise `UsageError`."""
    from scheduler.settings import parse_address  # noqa: PLC0415 - the settings take a second to import

    try:
        address = parse_address(text)
    except ValueError as error:
        raise UsageError(f"--listen: {error}") from error
    if not address.is_loopback and not has_tokens:
        raise UsageError(
            f"--listen: {text!r} is open to other machines, and the page asks for no token: write 127.0.0.1:8765, or "
            "give --tls-cert-file and --tls-key-file"
        )
    return address


async def _serve(options: argparse.Namespace, configured: "Configuration", address: "Address") -> None:
    import asyncio  # noqa: PLC0415 - completion needs none of it

    from scheduler.page import fit_questions, live_fleet, page_server, page_watches  # noqa: PLC0415 - the solver takes a while to import

    settings, stopped = configured.settings, asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopped.set)
    async with contextlib.AsyncExitStack() as ends:
        is_live = not manifests(options) and not options.snapshot
        scheduler = _scheduler(options) if is_live else None
        fit = None if options.snapshot else fit_questions.FitQuestions(_fit_source(options, configured))
        subjects = page_watches.PageSubjects(live_fleet.LiveFleet(_reader(options, settings)), scheduler, fit)
        entrance = await ends.enter_async_context(_entrance(options, settings)) if options.tls_cert_file else None
        try:
            bound = await ends.enter_async_context(page_server.serving(subjects, address, entrance))
        except OSError as error:
            what = "the port, --tls-cert-file and --tls-key-file" if entrance else "the port"
            raise UsageError(f"--listen: {address} cannot be served: {error}; check {what}") from error
        sys.stdout.write(f"http{'s' if entrance else ''}://{bound}/ shows the page; Ctrl-C ends it\n")
        sys.stdout.flush()
        await stopped.wait()


def _scheduler(options: argparse.Namespace) -> "AskScheduler | None":
    """
    Return what asks a running scheduler: with the credentials of the kubeconfig, as `dovetail history` does.

    Where callers have tokens it asks with these, and straight: the scheduler checks them, and what each caller may see.
    """
    from scheduler.api import scheduler_client  # noqa: PLC0415 - as above
    from scheduler.kube.errors import ConfigurationError, Unreachable  # noqa: PLC0415 - as above
    from scheduler.kube.login.redaction import without_secrets  # noqa: PLC0415 - as above

    access = cluster_access(options)
    address = scheduler_address(options)

    async def ask(name: str, parameters: "Mapping[str, str]", token: str) -> bytes:
        del token
        return await scheduler_client.ask(access, address, name, parameters)

    async def ask_as_caller(name: str, parameters: "Mapping[str, str]", token: str) -> bytes:
        try:
            return await scheduler_client.ask_as(address, token, name, parameters)
        except (ConfigurationError, Unreachable) as error:
            server = without_secrets(address.server)
            raise ConfigurationError(f"{server} does not answer. {API_IS_OFF} ({error})") from error

    if not options.tls_cert_file:
        return ask
    return ask_as_caller if address.server else None


def _fit_source(options: argparse.Namespace, configured: "Configuration") -> "FitSource":
    """Return what questions about manifests are about."""
    from scheduler.page.fit_questions import FitSource  # noqa: PLC0415 - as above

    files = tuple(map(str, manifests(options)))
    if files:
        return FitSource(files=files, settings=configured.settings)
    access = cluster_access(options)
    path = str(access.path) if access.path is not None else None
    namespace = "default" if options.tls_cert_file else access.namespace  # callers have other contexts
    return FitSource(
        kubeconfig=path,
        context=access.context,
        namespace=namespace,
        scheduler_namespace=options.dovetail_namespace if path else access.namespace,  # in a pod: its own
        settings=configured.settings,
        scheduler_names=tuple(sorted(configured.scheduler_names or ())),
        is_certain=not configured.runs_nowhere,
    )


@contextlib.asynccontextmanager
async def _entrance(options: argparse.Namespace, settings: "Settings") -> "AsyncIterator[Entrance]":
    """Give the callers by their tokens; the API server is asked about them with connections of its own."""
    from scheduler.api import authentication  # noqa: PLC0415 - as above
    from scheduler.api.caller_api import TokenCallers  # noqa: PLC0415 - as above
    from scheduler.api.http_server import Certificate  # noqa: PLC0415 - as above
    from scheduler.kube.client import Client  # noqa: PLC0415 - as above
    from scheduler.page.page_server import Entrance  # noqa: PLC0415 - as above

    access = cluster_access(options)
    async with Client.connect(access.path, access.context, max_connections=2 * authentication.AT_ONCE) as client:
        certificate = Certificate(options.tls_cert_file, options.tls_key_file)
        yield Entrance(TokenCallers(settings.api, client), certificate)


def _reader(options: argparse.Namespace, settings: "Settings") -> "Callable[[], FleetReading]":
    """Return the function that reads the fleet; it warns where it has not warned of the same before."""
    from scheduler.page.visible_part import FleetReading  # noqa: PLC0415 - as above

    read = fleet_arguments.reader(options, settings, finds_gone_pods=True, reads_pods=True, warns=False)
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
        return FleetReading(found, map_command.queue(options, found, settings), map_command.origin(options, began))

    return reading

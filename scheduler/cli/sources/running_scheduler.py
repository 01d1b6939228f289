"""Options and output that the commands share which ask a running scheduler."""

import argparse
import re
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

from scheduler import API_SERVICE
from scheduler.cli.arguments import TABLE, WIDE, warn
from scheduler.cli.exit_status import ExitStatus

if TYPE_CHECKING:
    import msgspec

    from scheduler.api.scheduler_client import SchedulerAddress
    from scheduler.kube.access import ClusterAccess
    from scheduler.visibility import HiddenCounts

D = TypeVar("D", bound="msgspec.Struct")

_UNITS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86400}
_DURATION: Final = re.compile(r"(?:[0-9]{1,9}[smhd])+")

API_IS_OFF: Final = "Its API is off by default: `api` in its configuration switches it on (docs/history.md)."


def add_scheduler(parser: argparse.ArgumentParser, *, is_optional: bool = False) -> None:
    """Add the options for the scheduler's address and credentials; optional where the API server can answer."""
    text = (
        f"ask the running scheduler behind this Service, such as {API_SERVICE}, instead of the API server"
        if is_optional
        else "Service of the scheduler, reached through the API server (default: %(default)s)"
    )
    default = "" if is_optional else API_SERVICE
    parser.add_argument("--service", default=default, metavar="NAMESPACE/NAME", help=text)
    parser.add_argument("--server", default="", metavar="URL", help="address of the scheduler's API instead")
    parser.add_argument(
        "--certificate-authority", type=Path, metavar="FILE", help="certificate that signed that of --server"
    )
    parser.add_argument(
        "--service-account",
        default="",
        metavar="NAMESPACE/NAME",
        help="ask as this account, with a token that only the scheduler accepts (default: the kubeconfig's own token)",
    )


def scheduler_address(options: argparse.Namespace) -> "SchedulerAddress":
    """Return the address of the running scheduler and the service account that asks it."""
    from scheduler.api.scheduler_client import SchedulerAddress  # noqa: PLC0415 - as above

    return SchedulerAddress(options.service, options.server, options.certificate_authority, options.service_account)


def is_asked(options: argparse.Namespace) -> bool:
    """Whether the running scheduler is to answer."""
    return bool(options.service or options.server)


def add_since(parser: argparse.ArgumentParser, default: str) -> None:
    """Add `--since`; the value is a number of seconds."""
    parser.add_argument(
        "--since",
        type=_seconds,
        default=_seconds(default),
        metavar="TIME",
        help=f"how far back, such as 30m, 12h or 1d12h (default: {default})",
    )


def _seconds(text: str) -> int:
    if _DURATION.fullmatch(text) is None:
        raise argparse.ArgumentTypeError(f"{text!r} is no time: write 30s, 15m, 1h, 2d or 1h30m")
    return sum(int(number) * _UNITS[unit] for number, unit in re.findall(r"([0-9]{1,9})([smhd])", text))


def ask(
    options: argparse.Namespace,
    access: "ClusterAccess",
    name: str,
    parameters: Mapping[str, str],
    kind: Callable[[], type[D]],
) -> D:
    """
    Ask a running scheduler, and decode its answer; `kind` imports its type while the scheduler answers.

    Raise `KubeError`.
    """
    import asyncio  # noqa: PLC0415 - it is not needed for help and completion

    import msgspec  # noqa: PLC0415 - as above

    from scheduler.api import scheduler_client  # noqa: PLC0415 - as above
    from scheduler.kube.access import wait_for  # noqa: PLC0415 - as above
    from scheduler.kube.errors import DecodeError  # noqa: PLC0415 - as above

    async def both() -> tuple[bytes, type[D]]:
        asking = scheduler_client.ask(access, scheduler_address(options), name, asked)
        return await asyncio.gather(asking, asyncio.to_thread(kind))

    asked = {key: value for key, value in parameters.items() if value}
    answer, answered = wait_for(both())
    try:
        return msgspec.json.decode(answer, type=answered)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise DecodeError("answer", name, "(whole answer)", f"{error}; is the scheduler of another version?") from error


def print_document(answer: Any, form: str) -> bool:
    """Print an answer where it is wanted as JSON or YAML; return whether it was."""
    if form in {TABLE, WIDE}:
        return False
    import msgspec  # noqa: PLC0415 - as above

    from scheduler.simulation import printing  # noqa: PLC0415 - as above

    fields = msgspec.to_builtins(answer, builtin_types=())
    kind = fields.pop("kind")
    del fields["apiVersion"]
    sys.stdout.write(printing.text(kind, fields, form))
    return True


def ended(hidden: "HiddenCounts", *, is_truncated: bool = False, has_limit: bool = False) -> int:
    """Say what an answer leaves out, and return the exit status."""
    if is_truncated:
        limit = "raise --limit, " if has_limit else ""
        warn(f"there is more: {limit}name a namespace or a pod, or ask about a shorter time")
    counts = {"pod": hidden.pods, "device": hidden.devices, "namespace": hidden.namespaces}
    found = [f"{count} {word}{'s' if count != 1 else ''}" for word, count in counts.items() if count]
    if not found:
        return ExitStatus.OK
    warn(f"left out, because you may not list them: {', '.join(found)}")
    return ExitStatus.INCOMPLETE

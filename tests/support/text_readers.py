"""Every reader of texts that users write: what it takes, and the errors that its callers expect of it."""

import argparse
import asyncio
import base64
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from scheduler.api import access_reviews, queries, selector_parameter
from scheduler.api.queries import QueryError
from scheduler.api.refusals import Refusal
from scheduler.api.selector_parameter import LabelSelectorError
from scheduler.change import Kind
from scheduler.cli import arguments
from scheduler.cli.arguments import UsageError
from scheduler.cli.sources import running_scheduler, targets
from scheduler.cli.sources.targets import TargetKind
from scheduler.commit.evictions import EvictionRate
from scheduler.counterfactual import observation_report
from scheduler.counterfactual.observation_record import RecordError, RecordReader
from scheduler.kube import credentials
from scheduler.kube.decode import json_parts, objects
from scheduler.kube.errors import ConfigurationError, DecodeError
from scheduler.kube.leader_election.lease import FORMAT
from scheduler.kube.login import kubeconfig
from scheduler.page import decision_answers, fit_questions, report_page
from scheduler.settings import SettingsError, load, parse_address
from scheduler.simulation import simulator
from scheduler.simulation.case_builder import CaseBuilder
from scheduler.simulation.live_cluster import ClusterObjects
from scheduler.simulation.manifests import documents
from scheduler.simulation.simulator import SavedError
from solver.domain.quantity import QuantityError, parse
from solver.feasibility.selectors import Selector, SelectorError
from tests.support import valid_texts
from tests.support.hostile_texts import JSON, PLAIN, YAML, Shape


class TextReader(NamedTuple):
    """
    Reads a text, in a folder where it may write it; it may raise nothing but `raises`.

    `valid` makes texts of which it takes at least one, and the files in the folder that these name. `names_file` says
    that its errors begin with the file.
    """

    read: Callable[[bytes, Path], object]
    raises: tuple[type[BaseException], ...]
    shapes: Mapping[str, Shape]
    valid: Callable[[Path], Sequence[bytes]]
    names_file: bool = False

    def answer(self, text: bytes, folder: Path) -> str:
        """Read a text, and return what its error says; "" where it is read."""
        try:
            self.read(text, folder)
        except self.raises as error:
            return str(error) or "no message"
        return ""


def in_a_file(read: Callable[[Path], object]) -> Callable[[bytes, Path], object]:
    """Read a text from a file."""

    def written(text: bytes, folder: Path) -> object:
        path = folder / "text"
        path.write_bytes(text)
        return read(path)

    return written


def as_argument(read: Callable[[str], object]) -> Callable[[bytes, Path], object]:
    """Read a text as Python gives it from the command line: bytes that are not UTF-8 are halves of pairs."""
    return lambda text, _: read(text.decode("utf-8", "surrogateescape"))


def flag(add: Callable[[argparse.ArgumentParser], object], option: str) -> Callable[[bytes, Path], object]:
    """Read a text as the value of an option."""
    parser = argparse.ArgumentParser(exit_on_error=False)
    add(parser)
    return as_argument(lambda text: parser.parse_args([f"{option}={text}"]))


class _Lease:
    object_name = "Lease ns/dovetail"

    def __init__(self, text: str) -> None:
        self.earlier_record = (text, FORMAT)

    async def write_record(self, record: str) -> None:
        """Nothing is evicted."""


def evictions(text: str) -> int:
    rate = EvictionRate(_Lease(text), lambda: 100.0, lambda: 1e9)
    rate.inherit()
    return rate.left("", 5)


def decisions(text: bytes, _: Path) -> object:
    async def ask(*_: Any) -> bytes:
        return text

    return asyncio.run(decision_answers.answer(ask, queries.Query(), "token"))


def target(text: str) -> object:
    options = argparse.Namespace(namespace="", all_namespaces=False)
    return targets.target_of([text], options, tuple(TargetKind), None)


def case(text: bytes, _: Path) -> object:
    return CaseBuilder.of(ClusterObjects(), documents.parsed(text, "text")).case("dovetail")


def plugin(text: bytes, folder: Path) -> object:
    """Read a kubeconfig with a credential plugin that prints the text."""
    (folder / "answer").write_bytes(text)
    user = {"exec": {"apiVersion": "v1", "command": "cat", "args": ["answer"]}}
    path = folder / "text"
    path.write_bytes(valid_texts.kubeconfig(folder, user)[0])
    return credentials.load_kubeconfig(path)


def report(path: Path) -> str:
    return report_page.page(observation_report.report_of(RecordReader(path)))


def parameter(name: str, *valid: str) -> TextReader:
    """A parameter of a URL."""
    read = as_argument(lambda text: queries.read({"namespace": "a"} | {name: text}, _TAKEN))
    return TextReader(read, (QueryError,), PLAIN, written(*valid))


def written(*texts: str) -> Callable[[Path], Sequence[bytes]]:
    return lambda _: [each.encode() for each in texts]


def kind_reader(kind: Kind) -> TextReader:
    """An object as the API server sends it."""
    return TextReader(
        lambda text, _: objects.decode(kind, text), (DecodeError,), JSON, lambda _: valid_texts.objects_of(kind)
    )


def option(add: Callable[[argparse.ArgumentParser], object], name: str, *valid: str) -> TextReader:
    """The value of an option."""
    return TextReader(flag(add, name), (argparse.ArgumentError,), PLAIN, written(*valid))


_TAKEN: Final = queries.Parameters((*queries.DEVICES.names, "since", "count"), most_items=queries.MOST_ITEMS)
_SELECTOR: Final = "app=web,tier!=test, team in (a, b),x notin (c),gpu,!old,example.com/a==b"
_EXPRESSIONS: Final = (
    "device.driver == 'gpu.example.com' && device.attributes['gpu.example.com'].model in ['a', \"b\"]",
    "device.capacity['gpu.example.com'].memory.compareTo(quantity('40Gi')) >= 0 // enough",
    "[1, 2.5, 0x1f, 3u].exists(x, x > 1) ? semver('1.2.3').isLessThan(semver('2.0.0')) : !has(device.attributes.a)",
)
_STATUS: Final = {"token": "abc", "expirationTimestamp": "2099-01-01T00:00:00Z", "clientCertificateData": "x"}
_CREDENTIAL: Final = json.dumps({"apiVersion": "v1", "kind": "ExecCredential", "status": _STATUS})
_PAGE: Final = json.dumps(
    {"metadata": {"resourceVersion": "1", "continue": "a"}, "items": [{"metadata": {"name": "p"}}]}
)
_TOKEN: Final = base64.urlsafe_b64encode(json.dumps({"aud": ["dovetail.dev"], "iss": "https://x"}).encode()).decode()

READERS: Final[Mapping[str, TextReader]] = {
    "manifests": TextReader(case, (), {**PLAIN, **YAML}, lambda _: valid_texts.manifests()),
    "the configuration": TextReader(
        in_a_file(load), (SettingsError,), YAML, lambda _: valid_texts.configuration(), names_file=True
    ),
    "the kubeconfig": TextReader(
        in_a_file(lambda path: kubeconfig.select_among([path])),
        (ConfigurationError,),
        YAML,
        valid_texts.kubeconfig,
        names_file=True,
    ),
    "credentials": TextReader(
        in_a_file(credentials.load_kubeconfig), (ConfigurationError,), JSON, valid_texts.kubeconfig, names_file=True
    ),
    "the answer of a credential plugin": TextReader(
        plugin, (ConfigurationError,), JSON, written(_CREDENTIAL), names_file=True
    ),
    "a saved decision": TextReader(
        in_a_file(simulator.load), (SavedError,), JSON, lambda _: valid_texts.saved_decisions(), names_file=True
    ),
    "a record of an observation": TextReader(
        in_a_file(report), (RecordError,), JSON, lambda _: valid_texts.observations(), names_file=True
    ),
    "the history of a scheduler": TextReader(decisions, (Refusal,), JSON, lambda _: valid_texts.history()),
    "the evictions in the Lease": TextReader(as_argument(evictions), (), JSON, written('{"p": [[1767225600, 2]]}')),
    "the namespaces of a question": TextReader(
        lambda text, _: fit_questions.named_namespaces(text), (), PLAIN, lambda _: valid_texts.manifests()
    ),
    "a page of a list": TextReader(lambda text, _: json_parts.read_page(text), (ValueError,), JSON, written(_PAGE)),
    **{f"an object of {kind}": kind_reader(kind) for kind in Kind},
    "a token": TextReader(
        as_argument(lambda text: access_reviews.is_for_our_audience(f"a.{text}.c")), (), PLAIN, written(_TOKEN)
    ),
    "a label selector": TextReader(
        as_argument(selector_parameter.parse), (LabelSelectorError,), PLAIN, written(_SELECTOR)
    ),
    "an expression in CEL": TextReader(as_argument(Selector), (SelectorError,), PLAIN, written(*_EXPRESSIONS)),
    "a quantity": TextReader(as_argument(parse), (QuantityError,), PLAIN, written("1500m", "80Gi", "+1.25e-3", "0")),
    "an address": TextReader(as_argument(parse_address), (ValueError,), PLAIN, written("127.0.0.1:80", "[::1]:8080")),
    "an object of a command": TextReader(as_argument(target), (UsageError,), PLAIN, written("pod/team/a", "ns/a", "b")),
    "the parameter namespace": parameter("namespace", "team-a"),
    "the parameter pod": parameter("pod", "web-0"),
    "the parameter limit": parameter("limit", "200", "9e2"),
    "the parameter since": parameter("since", "3600"),
    "the parameter count": parameter("count", "max", "17"),
    "the parameter selector": parameter("selector", _SELECTOR),
    "-l": option(lambda parser: arguments.add_selector(parser, "pods"), "--selector", _SELECTOR),
    "-n": option(arguments.add_namespace, "--namespace", "team-a"),
    "--since": option(lambda parser: running_scheduler.add_since(parser, "1h"), "--since", "1d12h", "30m"),
}
"""Each reader by what it reads."""

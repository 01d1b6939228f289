"""
Our CEL next to the real one: the tables, how each side is asked, and what counts as the same answer.

The real one is the `cel-eval` command of the control plane's binary. Recorded answers are renewed by
`python tests/support/cel_oracle.py BINARY`.
"""

import json
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import yaml

from solver.domain import AttributeKind, AttributeValue, Capacity, Device, quantity
from solver.feasibility.selectors import SelectorError, SelectorFailure, compile_selector

GOLDEN: Final = Path(__file__).parent.parent / "golden" / "cel"
ANSWERS: Final = GOLDEN / "answers.json"

Answer = str | list[str]
"""`does not compile`, or one of true, false, error per device."""

REFUSED: Final = "does not compile"


def expressions() -> dict[str, list[str]]:
    """Give the fixed table by topic."""
    table: dict[str, list[str]] = yaml.safe_load((GOLDEN / "expressions.yaml").read_text("utf-8"))
    return table


def devices() -> list[dict[str, Any]]:
    """Give the devices of the fixed table, as the API writes them."""
    table: list[dict[str, Any]] = yaml.safe_load((GOLDEN / "devices.yaml").read_text("utf-8"))
    return table


def divergences() -> dict[str, dict[str, Any]]:
    """Give the closed list of expressions that we answer otherwise, each with our answer and the reason."""
    table: dict[str, dict[str, Any]] = yaml.safe_load((GOLDEN / "divergences.yaml").read_text("utf-8"))
    return table


def recorded() -> dict[str, Answer]:
    """Give what the real environment answered when it was last asked."""
    answers: dict[str, Answer] = json.loads(ANSWERS.read_text("utf-8"))
    return answers


def device_of(published: Mapping[str, Any]) -> Device:
    """Make a domain device of one in the API's shape."""
    attributes = [
        (name, _attribute(kind, value))
        for name, one_of in published.get("attributes", {}).items()
        for kind, value in one_of.items()
    ]
    capacities = [
        (name, Capacity(value=quantity.parse(capacity["value"])))
        for name, capacity in published.get("capacity", {}).items()
    ]
    return Device(
        name="d",
        attributes=tuple(sorted(attributes)),
        capacities=tuple(sorted(capacities, key=lambda pair: pair[0])),
        allow_multiple_allocations=published.get("allowMultipleAllocations", False),
    )


def _attribute(kind: str, value: Any) -> AttributeValue:
    return AttributeValue(AttributeKind(kind), tuple(value) if isinstance(value, list) else value)


def ours(expression: str, published: Iterable[Mapping[str, Any]]) -> Answer:
    """Ask our side."""
    try:
        selector = compile_selector(expression)
    except SelectorError:
        return REFUSED
    answers: list[str] = []
    for device in published:
        result = selector.evaluate(device["driver"], device_of(device))
        if isinstance(result, SelectorFailure):
            assert not result.message.startswith("internal error"), (expression, result.message)
            answers.append("error")
        else:
            answers.append("true" if result else "false")
    return answers


class Oracle:
    """The real environment, asked one expression after the other."""

    def __init__(self, binary: Path) -> None:
        self._process = subprocess.Popen(
            [binary, "cel-eval"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, encoding="utf-8"
        )

    def ask(self, expression: str, published: Sequence[Mapping[str, Any]]) -> Answer:
        """Ask for one expression on some devices."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        question = {"expression": expression, "devices": [_without_name(device) for device in published]}
        self._process.stdin.write(json.dumps(question) + "\n")
        self._process.stdin.flush()
        answer = json.loads(self._process.stdout.readline())
        if answer.get("compileError"):
            return REFUSED
        return [_outcome(one) for one in answer.get("answers") or []]

    def close(self) -> None:
        """End the process."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait(timeout=60)
        self._process.stdout.close()


def _without_name(device: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in device.items() if key != "name"}


def _outcome(answer: Mapping[str, Any]) -> str:
    if "result" not in answer:
        return "error"
    return "true" if answer["result"] else "false"


def record(binary: Path) -> None:
    """Ask the real environment for the whole table and write its answers down."""
    oracle = Oracle(binary)
    published = devices()
    answers = {text: oracle.ask(text, published) for texts in expressions().values() for text in texts}
    oracle.close()
    lines = (f"{json.dumps(text)}: {json.dumps(answer)}" for text, answer in answers.items())
    ANSWERS.write_text("{\n" + ",\n".join(lines) + "\n}\n", "utf-8")


if __name__ == "__main__":
    record(Path(sys.argv[1]))

"""YAML means what it means to kubectl, and hostile YAML is refused before anything is built."""

import json
import math
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from scheduler.settings import untrusted_yaml, yaml_scalars

RECORDED: dict[str, dict[str, Any] | None] = json.loads(
    (Path(__file__).parents[1] / "golden" / "yaml_scalars.json").read_text()
)
"""What `YAMLToJSON` of sigs.k8s.io/yaml 1.6.0 makes of documents, as `{"is": …}`; null for an error."""


@pytest.mark.parametrize("text", RECORDED)
def test_a_document_is_what_kubectl_makes_of_it(text: str) -> None:
    expected = RECORDED[text]
    if expected is None:
        with pytest.raises(yaml.YAMLError):
            untrusted_yaml.load(text)
    else:
        found = untrusted_yaml.load(text)
        assert json.dumps(found, sort_keys=True) == json.dumps(expected["is"], sort_keys=True)  # 1 is not true


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: 1\na: 2", "the key 'a' stands twice"),
        ("5: a\n'5': b", "the key '5' stands twice"),
        ("a: {b: .inf}", ".inf is no number in JSON: put it in quotes"),
        ("~: a", "null is no key: put it in quotes"),
        ("<<: 5", "a merge needs a mapping or a list of mappings"),
        *((f"%TAG ! a{end}" * 101 + f"---{end}a: 1", "more than 100 %TAG lines") for end in "\n\r\x85\u2028"),
    ],
)
def test_an_error_names_what_to_write(text: str, message: str) -> None:
    with pytest.raises(yaml.YAMLError) as caught:
        untrusted_yaml.load(text)
    assert message in untrusted_yaml.problem(caught.value)


def test_few_tag_lines_are_read() -> None:
    assert untrusted_yaml.load("%TAG !e! tag:e,2026:\n--- {a: 1, b: '%TAG !\n%TAG !'}") == {
        "a": 1,
        "b": "%TAG ! %TAG !",
    }


def test_documents_of_a_file_share_what_aliases_may_repeat() -> None:
    text, repetition = f"a: &a {'x' * 300_000}\nb: [*a, *a]\n", untrusted_yaml.Repetition()
    untrusted_yaml.load(text, repetition)
    with pytest.raises(yaml.YAMLError, match="aliases repeat more than 1000000"):
        untrusted_yaml.load(text, repetition)
    untrusted_yaml.load(text)


@given(st.text(alphabet="0123456789abefox_+-.:EXB~yntYN", max_size=12))
def test_any_plain_scalar_is_a_value_of_json(text: str) -> None:
    try:
        value = yaml_scalars.value_of(text)
    except ValueError:
        assert "n" in text.lower()  # .inf or .nan
        return
    assert not isinstance(value, float) or math.isfinite(value)
    assert not isinstance(value, int) or -(2**63) <= value < 2**64

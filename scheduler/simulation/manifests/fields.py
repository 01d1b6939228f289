"""Looking into manifests that anybody may have written: what is not of the expected type counts as absent."""

from collections.abc import Iterator
from typing import Any

Body = dict[str, Any]


def mapping(value: Any) -> Body:
    """Give a mapping as it is, anything else as an empty one."""
    return value if isinstance(value, dict) else {}


def entries(value: Any) -> Iterator[tuple[int, Body]]:
    """Give the mappings of a list with their places in it; nothing for what is no list."""
    for index, each in enumerate(value if isinstance(value, list) else ()):
        if isinstance(each, dict):
            yield index, each


def metadata(body: Body) -> Body:
    """Give an object's metadata."""
    return mapping(body.get("metadata"))


def spec(body: Body) -> Body:
    """Give an object's spec."""
    return mapping(body.get("spec"))


def text(value: Any) -> str:
    """Give a text as it is, anything else as an empty one."""
    return value if isinstance(value, str) else ""


def subject(body: Body) -> str:
    """Name an object as messages do: `Pod ml/trainer`."""
    found = metadata(body)
    name = text(found.get("name")) or text(found.get("generateName")) or "without a name"
    namespace = text(found.get("namespace"))
    return f"{text(body.get('kind')) or 'object'} {namespace + '/' if namespace else ''}{name}"


def without_nulls(body: Body) -> Body:
    """Leave out what is null, which to the API server is the same as absent; opaque parameters stay as they are."""
    found: Body = {}
    for key, value in body.items():
        if isinstance(value, dict) and key != "parameters":
            found[key] = without_nulls(value)
        elif isinstance(value, list):
            found[key] = [without_nulls(each) if isinstance(each, dict) else each for each in value]
        elif value is not None:
            found[key] = value
    return found

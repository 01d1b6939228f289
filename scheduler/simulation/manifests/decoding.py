"""One document to one change, through the decoding that the watches use."""

from typing import Final

import msgspec

from scheduler.change import Change, Kind, Object
from scheduler.kube.decode.objects import decode
from scheduler.kube.errors import DecodeError
from scheduler.simulation.manifests.documents import Document, Problem
from scheduler.simulation.manifests.fields import Body, metadata, subject, text
from scheduler.simulation.manifests.wording import in_our_words
from solver.domain import Claim, Pod

_LONGEST: Final = 200
"""Characters of what went wrong with an object that nobody foresaw."""


def key_of(body: Body) -> str:
    """Give an object's key as `Change` has it."""
    found = metadata(body)
    namespace, name = text(found.get("namespace")), text(found.get("name"))
    return f"{namespace}/{name}" if namespace else name


def decoded(kind: Kind, document: Document) -> tuple[Change | None, Problem | None]:
    """
    Decode a document.

    A claim that cannot be read whole comes with its problem, as the watches give it; other kinds do not come then.
    """
    value, field, message = _value(kind, document.body)
    problem = Problem(document.source, subject(document.body), field, message) if message else None
    if value is None or (problem is not None and not isinstance(value, Claim)):
        return None, problem
    return Change(kind=kind, key=key_of(document.body), value=value), problem


def _value(kind: Kind, body: Body) -> tuple[Object | None, str, str]:
    """The object, and the field and message of what is wrong with it."""
    try:
        value = decode(kind, msgspec.json.encode(body))
    except DecodeError as error:
        field, message = in_our_words(error.message)
        outer = "" if error.field.startswith("(") else error.field
        return None, ".".join(each for each in (outer, field) if each), message
    except (ValueError, TypeError, LookupError, ArithmeticError, AttributeError, RecursionError) as error:
        return None, "", f"cannot be read ({type(error).__name__}: {str(error)[:_LONGEST]}): write it as the API has it"
    if isinstance(value, Pod | Claim) and value.invalid:
        return value, *in_our_words(value.invalid)
    return value, "", ""

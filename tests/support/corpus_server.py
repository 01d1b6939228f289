"""
An API server of one object of the corpus: it applies patches by the rules of the API, and keeps what is not patched.

JSON patches are RFC 6902 as far as Dovetail uses it, merge patches RFC 7396, strategic merge patches as in
`k8s.io/apimachinery/pkg/util/strategicpatch`, with the merge keys of the Go types.
"""

import copy
from collections.abc import Mapping
from typing import Any

import msgspec

from scheduler.kube.client import JSON_PATCH, MERGE_PATCH, STRATEGIC_MERGE_PATCH
from scheduler.kube.http.call import JSON
from tests.support.corpus import Json

Path = tuple[str, ...]


class CorpusServer:
    """
    Stands where the client is: keeps the requests, and gives the object as patched.

    A new object (`POST`, `DELETE` with options) is kept as `sent`, and is the answer.
    """

    def __init__(self, stored: Json, merge_keys: Mapping[str, str]) -> None:
        self.stored = copy.deepcopy(stored)
        self.sent: Json = {}
        self.methods: list[str] = []
        self._merge_keys = merge_keys

    async def request(
        self, method: str, _path: str, *, body: bytes = b"", content_type: str = JSON, **_others: object
    ) -> bytes:
        self.methods.append(method)
        if method == "GET":
            return msgspec.json.encode(self.stored)
        given = msgspec.json.decode(body)
        if content_type == JSON_PATCH:
            for operation in given:
                _operate(self.stored, operation)
        elif content_type == MERGE_PATCH:
            self.stored = _merged(self.stored, given)
        elif content_type == STRATEGIC_MERGE_PATCH:
            self.stored = self._strategically_merged(self.stored, given, (self.stored["kind"],))
        else:
            self.sent = given
            return body
        return msgspec.json.encode(self.stored)

    def _strategically_merged(self, stored: Any, patch: Any, at: Path) -> Any:
        if isinstance(patch, dict):
            found = dict(stored) if isinstance(stored, dict) else {}
            for name, part in patch.items():
                if part is None:
                    found.pop(name, None)
                else:
                    found[name] = self._strategically_merged(found.get(name), part, (*at, name))
            return found
        key = self._merge_keys.get(".".join(at))
        return patch if key is None else self._merged_list(stored or [], patch, key, at)

    def _merged_list(self, stored: list[Json], patch: list[Json], key: str, at: Path) -> list[Json]:
        found = {each[key]: each for each in stored}
        for each in patch:
            if each.get("$patch") == "delete":
                found.pop(each[key], None)
            else:
                found[each[key]] = self._strategically_merged(found.get(each[key]), each, at)
        return list(found.values())


def _merged(stored: Any, patch: Any) -> Any:
    if not isinstance(patch, dict):
        return patch
    found = dict(stored) if isinstance(stored, dict) else {}
    for name, part in patch.items():
        if part is None:
            found.pop(name, None)
        else:
            found[name] = _merged(found.get(name), part)
    return found


def _operate(stored: Json, operation: Json) -> None:
    *above, last = operation["path"].removeprefix("/").split("/")
    parent: Any = stored
    for name in above:
        parent = parent[int(name)] if isinstance(parent, list) else parent[name]
    match operation["op"], parent:
        case "add", list():
            parent.append(operation["value"])
        case (("add" | "replace"), dict()):
            parent[last] = operation["value"]
        case "test", dict():
            assert parent.get(last) == operation["value"], operation
        case "remove", list():
            parent.pop(int(last))
        case "remove", dict():
            del parent[last]
        case _:
            raise AssertionError(operation)

"""
Configuration keys that have a new name; a file with the old one keeps working, with a warning.

To rename a key, rename its field in `schema` and add a line to `RENAMED`. The default file, the schema and
error messages show the new key only.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

RENAMED: Final = {
    "holds": "nodeReservations",
    "nodeReservations.maxNodesPercentOfNamespace": "nodeReservations.maxNodesPercentPerNamespace",
    "devices.allocateWherePluginsServe": "devices.allocateOnDevicePluginNodes",
    "solver.costMilliseconds": "solver.evaluationMilliseconds",
    "solver.costlySeconds": "solver.costlyPodSeconds",
    "solver.costlyMemoryLimitMiB": "solver.costlyPodMemoryLimitMiB",
    "queue.maxPassedOverSeconds": "queue.starvationSeconds",
    "queue.costlyShare": "queue.costlyPodShare",
}
"""
Old key to new key, each as a path from the top of the file.

Applied in this order: a section before the keys in it, whose old paths then start with the section's new name.
"""


def rename(document: dict[str, Any], renamed: Mapping[str, str] = RENAMED) -> Iterator[str]:
    """
    Replace old keys in a document by new ones, and give a warning for each.

    Where the file has both, the old one stays, and the check of the document refuses it as unknown.
    """
    for old, new in renamed.items():
        *above, name = old.split(".")
        section = _section(document, above)
        if section is None or name not in section:
            continue
        *above, new_name = new.split(".")
        target = _section(document, above)
        if target is not None and new_name not in target:
            target[new_name] = section.pop(name)
            yield f"{old} is deprecated, write {new}"


def _section(document: Any, path: list[str]) -> dict[str, Any] | None:
    """Find the mapping at a path; None where there is none."""
    for key in path:
        document = document.get(key) if isinstance(document, dict) else None
    return document if isinstance(document, dict) else None

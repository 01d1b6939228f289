"""The levels of the objective in words, as docs/policies.md explains them."""

from typing import Final

from solver.domain import LevelReport

WORDS: Final = {
    "gang-topology": "domains used by gangs",
    "alternatives": "later alternatives of firstAvailable",
    "preferences": "preferences not met",
    "suspects": "devices used that failed lately",
    "opened-groups": "whole groups of nodes that lose a device",
    "opened-nodes": "nodes used that had no device in use",
    "opened-devices": "unused shareable devices used",
    "spoiled-partitions": "value of partitions that cannot be cut any more",
    "broken-groups": "whole groups of devices that lose a device",
    "crowded-nodes": "devices from nodes with few of them free",
    "device-value": "value of the devices used",
    "domain-allocation": "free share of the domains used by gangs",
    "scores": "node scores missed",
}
"""By the name in JSON; of all of them less is better, so their values in JSON are negative."""
_PLACED: Final = "placed"


def written(level: LevelReport) -> str:
    """Write a level: `pods of priority 0 placed: 12 (best)`, or with its bound `…: 12 (at best 14)`."""
    proof = "best" if level.proven else f"at best {abs(level.bound)}"
    return f"{_words(level.name)}: {abs(level.value)} ({proof})"


def _words(name: str) -> str:
    kind, _, rest = name.partition(":")
    if kind != _PLACED:
        return WORDS.get(name, name)
    priority, _, overdue = rest.partition(":")
    return f"{'overdue ' if overdue else ''}pods of priority {priority} placed"

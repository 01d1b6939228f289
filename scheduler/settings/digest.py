"""A digest of what decides about pods: a command and a scheduler with the same one answer alike."""

import hashlib
from typing import Final

import msgspec

from scheduler.settings.schema import Settings

_CHARACTERS: Final = 16


def digest(settings: Settings) -> str:
    """Return the digest of the policies of all profiles and of the bounds of the search; addresses do not count."""
    policies = [(name, settings.policy(name)) for name in sorted(settings.scheduler_names)]
    written = msgspec.json.encode((policies, settings.solver, settings.metrics.node_group_label), order="deterministic")
    return hashlib.sha256(written).hexdigest()[:_CHARACTERS]

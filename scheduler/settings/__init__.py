"""
The configuration: one YAML file, checked as a whole before anything starts, with the command line's flags on top.

Here live its structs (`schema`), reading and checking (`reading`, `problems`) and the generated reference
(`reference`: `config/default.yaml` and `config/schema.json`). Nothing here touches the cluster. The command line
calls `load`; every other part is handed the section that concerns it.
"""

from scheduler.settings.loading import Overrides, SettingsError, load, parse
from scheduler.settings.profile import PolicyName
from scheduler.settings.schema import (
    API_VERSION,
    KIND,
    BatchLimits,
    CommitLimits,
    Devices,
    LeaderElection,
    LogFormat,
    Logging,
    LogLevel,
    NodeLabels,
    Owned,
    Profile,
    QueueTimes,
    Settings,
    SolverLimits,
    default,
)
from scheduler.settings.validation import Address, parse_address

__all__ = [
    "API_VERSION",
    "KIND",
    "Address",
    "BatchLimits",
    "CommitLimits",
    "Devices",
    "LeaderElection",
    "LogFormat",
    "LogLevel",
    "Logging",
    "NodeLabels",
    "Overrides",
    "Owned",
    "PolicyName",
    "Profile",
    "QueueTimes",
    "Settings",
    "SettingsError",
    "SolverLimits",
    "default",
    "load",
    "parse",
    "parse_address",
]

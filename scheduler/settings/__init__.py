"""
The configuration: one YAML file, which flags of the command line override, checked completely before anything starts.

- `schema`, `policies`, `observability`, `holds`, `repairs`: the structs of the file; a key is documented at its field.
- `loading`: reads a file (`untrusted_yaml`) and applies the flags; old names of keys keep working with a warning.
- `validation`: says what is wrong with a file.
- `digest`: says whether two files decide alike.
- `scheduler_names`: what is said of pods that name a scheduler without a profile.
- `reference`: generates `config/default.yaml` and `config/schema.json`.

Nothing here touches the cluster. The command line calls `load`; every other part gets only its own section.
"""

from scheduler.settings.digest import digest
from scheduler.settings.holds import HoldLimits
from scheduler.settings.loading import Overrides, SettingsError, load, parse, served
from scheduler.settings.observability import (
    ApiSettings,
    DecisionFiles,
    HealthSettings,
    HistorySettings,
    LogFormat,
    Logging,
    LogLevel,
    MetricsSettings,
)
from scheduler.settings.policies import PolicyName
from scheduler.settings.profiles import Profile
from scheduler.settings.schema import (
    API_VERSION,
    KIND,
    BatchLimits,
    CommitLimits,
    Devices,
    LeaderElection,
    NodeLabels,
    Owned,
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
    "ApiSettings",
    "BatchLimits",
    "CommitLimits",
    "DecisionFiles",
    "Devices",
    "HealthSettings",
    "HistorySettings",
    "HoldLimits",
    "LeaderElection",
    "LogFormat",
    "LogLevel",
    "Logging",
    "MetricsSettings",
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
    "digest",
    "load",
    "parse",
    "parse_address",
    "served",
]

"""What a running scheduler shows: health, metrics, logs, the history of its decisions, and the API for it."""

from enum import StrEnum
from typing import Annotated

import msgspec
from msgspec import Meta

from scheduler.settings.policies import Section


class HealthSettings(Section, frozen=True):
    """Where the health of the process is served."""

    bind_address: str = ":8080"
    """
    Host and port that serve /livez and /readyz over plain HTTP: `:8080` (all addresses), `127.0.0.1:8080`,
    `[::1]:8080`. Port 0 picks a free port.
    """


class MetricsSettings(Section, frozen=True):
    """Where series are served, and how devices are counted for them. A process beside the worker counts devices."""

    bind_address: str = ":8081"
    """
    Host and port that serve /metrics. The address of `health` is possible: then one port serves all paths, over plain
    HTTP.
    """

    tls_cert_file: str = ""
    """
    The certificate chain of /metrics (PEM); it is read again when the file changes. With it the port is HTTPS. Each
    request needs a bearer token, whose user may `get` the path /metrics (TokenReview, SubjectAccessReview). Empty:
    plain HTTP for every client that reaches the port.
    """

    tls_key_file: str = ""
    """The private key of the certificate (PEM)."""

    interval_seconds: Annotated[float, Meta(ge=1, le=3600)] = 30.0
    """Seconds between the end of one count and the next. Nothing is counted again while no object changes."""

    node_group_label: str = "node.kubernetes.io/instance-type"
    """The node label whose values are the groups of nodes of these series and of `dovetail free`."""

    per_node: bool = False
    """Whether there is also a series for each node, class and state (`dovetail_node_devices`)."""

    most_namespaces: Annotated[int, Meta(ge=0, le=1000)] = 0
    """
    How many namespaces have series of the devices that they hold (`dovetail_namespace_devices`): those with most
    devices; the others count together as `other`. 0: no series names a namespace.
    """


class DecisionFiles(Section, frozen=True):
    """Whether decisions are saved as files, for `dovetail replay`."""

    folder: str = ""
    """
    The folder in which decisions are saved with the state of the cluster; empty: none are saved. One file is written at
    a time; decisions that are made meanwhile have none.
    """

    max_files: Annotated[int, Meta(ge=1, le=100_000)] = 100
    """The most files in the folder; the oldest are removed first."""

    max_mib: Annotated[int, Meta(ge=1, le=1_048_576)] = msgspec.field(default=1024, name="maxMiB")
    """The most mebibytes of all these files; one of a large cluster takes tens. The newest always stays."""


class HistorySettings(Section, frozen=True):
    """What is remembered of decisions and of devices in use, for `dovetail history` and `dovetail usage`."""

    max_records: Annotated[int, Meta(ge=0, le=10_000_000)] = 20_000
    """
    The most records in memory: one for each decision, each binding and each eviction. The oldest are dropped first. 0
    turns the history off.
    """

    max_mib: Annotated[int, Meta(ge=1, le=4096)] = msgspec.field(default=32, name="maxMiB")
    """The most mebibytes of these records."""

    usage_hours: Annotated[int, Meta(ge=1, le=744)] = 24
    """Hours for which the use of devices is kept, in 288 periods: with 24, `--since` has steps of five minutes."""

    usage_label: Annotated[str, Meta(max_length=317)] = ""
    """
    The label of pods by which `dovetail usage --by label` sums up, such as `kueue.x-k8s.io/queue-name`. Empty: by no
    label.
    """

    files: DecisionFiles = DecisionFiles()
    """Whether decisions are saved as files."""


class ApiSettings(Section, frozen=True):
    """The scheduler's own API: decisions, devices in use and waiting pods, for callers with the rights to see them."""

    bind_address: str = ""
    """
    Host and port of the API, such as `:8443`; empty: it is off, and no history is kept in memory. Callers send bearer
    tokens. So an address that is not of the loopback interface needs `tlsCertFile` and `tlsKeyFile`.
    """

    tls_cert_file: str = ""
    """The certificate chain of the API (PEM). It is read again when the file changes."""

    tls_key_file: str = ""
    """The private key of the certificate (PEM)."""

    require_audience: bool = False
    """Whether only tokens for the audience `dovetail.dev` are accepted (`dovetail history --service-account`)."""

    requests_per_second: Annotated[float, Meta(gt=0, le=1000)] = 5.0
    """Requests of one caller per second; short bursts may have four times as many."""


class LogLevel(StrEnum):
    """The lowest level that is logged."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


class LogFormat(StrEnum):
    """The format of log lines."""

    JSON = "json"
    """One JSON object per line."""
    CONSOLE = "console"
    """Aligned text, coloured on a terminal."""


class Logging(Section, frozen=True):
    """What is logged, on standard error."""

    level: LogLevel = LogLevel.INFO
    """The lowest level that is logged."""

    format: LogFormat = LogFormat.JSON
    """The format of log lines."""

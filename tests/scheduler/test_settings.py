import itertools
import json
import re
from pathlib import Path

import jsonschema
import pytest
import yaml

from scheduler.features import Feature
from scheduler.settings import (
    Overrides,
    PolicyName,
    Settings,
    SettingsError,
    default,
    load,
    parse,
    parse_address,
    reference,
)
from scheduler.settings.loading import RENAMED
from solver.domain import PACK, SPREAD, NodeReservationLimits, NodeSelectorRequirement, NodeSelectorTerm, Weights

ROOT = Path(__file__).parents[2]
HEAD = "apiVersion: config.dovetail.dev/v1alpha1\nkind: DovetailConfiguration\n"


def test_an_almost_empty_file_gives_the_defaults() -> None:
    assert parse(HEAD, "file") == default()


def test_rights_are_needed_for_features_that_are_switched_on() -> None:
    assert set(Feature) - set(default().features) == {Feature.KUEUE, Feature.REPAIR}
    assert Feature.KUEUE in parse(f"{HEAD}admissionCheck: {{enabled: true}}\n", "file").features
    for mode in ("advise", "apply"):
        assert Feature.REPAIR in parse(f"{HEAD}repair: {{mode: {mode}}}\n", "file").features


def test_the_default_file_gives_the_defaults() -> None:
    assert load(ROOT / "config" / "default.yaml") == default()


@pytest.mark.parametrize(
    ("path", "generate"),
    [
        pytest.param("config/default.yaml", reference.default_file, id="default file"),
        pytest.param("config/schema.json", reference.json_schema, id="schema"),
    ],
)
def test_generated_files_have_not_drifted(path: str, generate: object) -> None:
    assert callable(generate)
    assert (ROOT / path).read_text(encoding="utf-8") == generate(), f"{path}: run `make config`"


def _schema() -> dict[str, object]:
    schema: dict[str, object] = json.loads(reference.json_schema())
    return schema


def test_the_default_file_is_valid_under_the_schema() -> None:
    jsonschema.Draft202012Validator.check_schema(_schema())
    jsonschema.validate(yaml.safe_load(reference.default_file()), _schema(), jsonschema.Draft202012Validator)


def test_the_schema_refuses_an_unknown_key() -> None:
    document = {**yaml.safe_load(HEAD), "profiles": [{"polcy": "pack"}]}
    with pytest.raises(jsonschema.ValidationError, match="polcy"):
        jsonschema.validate(document, _schema(), jsonschema.Draft202012Validator)


def test_every_key_of_the_default_file_is_explained() -> None:
    lines = [line.strip() for line in reference.default_file().splitlines() if line.strip()]
    unexplained = [
        line for above, line in itertools.pairwise(lines) if not line.startswith("#") and not above.startswith("#")
    ]
    assert unexplained == []


def test_every_field_of_the_schema_is_described() -> None:
    definitions = json.loads(reference.json_schema())["$defs"].values()
    fields = [field for definition in definitions for field in definition.get("properties", {}).values()]
    assert all(field["description"] for field in fields)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param("", "expected a mapping that starts with apiVersion", id="empty file"),
        pytest.param("- a", "expected a mapping that starts with apiVersion", id="a list"),
        pytest.param("a: [", "not YAML: did not find expected node content at line 2, column 1", id="no YAML"),
        pytest.param(
            "a: 1\n---\nb: 1",
            "not YAML: expected a single document in the stream but found another document at line 2, column 1",
            id="two documents",
        ),
        pytest.param("kind: X", "apiVersion: missing, write apiVersion: config.dovetail.dev/v1alpha1", id="no version"),
        pytest.param("kind: X", "kind: 'X' is not known, write DovetailConfiguration", id="other kind"),
        pytest.param(
            HEAD + "profiles: [{polcy: pack}]",
            "profiles[0].polcy: unknown field, did you mean policy?",
            id="misspelt field",
        ),
        pytest.param(
            HEAD + "profiles: [{x: 1}]", "profiles[0].x: unknown field, write one of: schedulerName, policy", id="field"
        ),
        pytest.param(HEAD + "x: 1\nlogging: {z: 1}", "x: unknown field", id="first of several"),
        pytest.param(HEAD + "x: 1\nlogging: {z: 1}", "logging.z: unknown field", id="second of several"),
        pytest.param(
            HEAD + "logging: {level: warn}", "logging.level: 'warn' is not known, did you mean warning?", id="word"
        ),
        pytest.param(
            HEAD + "profiles: [{policy: scatter}]",
            "profiles[0].policy: 'scatter' is not known, write one of: pack, spread, topology",
            id="a policy that does not exist",
        ),
        pytest.param(
            HEAD + "profiles: [{schedulerName: a}, {schedulerName: b}, {schedulerName: a}]",
            "profiles[2].schedulerName: 'a' is the name of profiles[0], write another name",
            id="name twice",
        ),
        pytest.param(
            HEAD + "profiles: []", "profiles: [] is out of range, expected a list of length >= 1", id="no profile"
        ),
        pytest.param(HEAD + "profiles: [{schedulerName: 'a b'}]", "'a b' is no name: write letters", id="no name"),
        pytest.param(
            HEAD + "leaderElection: {leaseName: Dovetail}",
            "leaderElection.leaseName: 'Dovetail' is no name: write small letters, digits, '-' and '.', a letter or",
            id="no name of a Lease",
        ),
        pytest.param(
            HEAD + "leaderElection: {leaseNamespace: a.b}",
            "leaderElection.leaseNamespace: 'a.b' is no name: write small letters, digits and '-', a letter or",
            id="no name of a namespace",
        ),
        pytest.param(
            HEAD + "health: {bindAddress: [a]}",
            "health.bindAddress: expected text, got a list",
            id="a list where a text belongs",
        ),
        pytest.param(
            HEAD + "solver: {budgetSeconds: 1000}",
            "solver.budgetSeconds: 1000 is out of range, expected a number <= 60",
            id="too much",
        ),
        pytest.param(
            HEAD + "solver: {budgetSeconds: .nan}",
            "not YAML: .nan is no number in JSON: put it in quotes",
            id="no number",
        ),
        pytest.param(
            HEAD + "solver: {workers: '2'}", "solver.workers: expected a whole number, got text", id="quoted number"
        ),
        pytest.param(
            HEAD + "devices: {owned: {nodeSelector: {matchLabels: {gpu: true}}}}",
            "devices.owned.nodeSelector.matchLabels[...]: expected text, got true or false, write it in quotes",
            id="unquoted label",
        ),
        pytest.param(HEAD + "solver:", "solver: expected a mapping, got nothing", id="empty section"),
        pytest.param(
            HEAD + "leaderElection: {renewDeadlineSeconds: 14.95}",
            "leaderElection.renewDeadlineSeconds: 14.95 is too long, write at most leaseDurationSeconds - 0.5 (14.5)",
            id="renewal as long as the lease",
        ),
        pytest.param(
            HEAD + "leaderElection: {retryPeriodSeconds: 9}",
            "leaderElection.retryPeriodSeconds: 9 is too long, write less than renewDeadlineSeconds / 1.2 (8.33)",
            id="retries too rare",
        ),
        pytest.param(
            HEAD + "commit: {requestTimeoutSeconds: 5}",
            "commit.requestTimeoutSeconds: 5 is too long, write less than leaderElection's "
            "leaseDurationSeconds - renewDeadlineSeconds (5)",
            id="writes that outlive the lease",
        ),
        pytest.param(
            HEAD + "queue: {initialBackoffSeconds: 20}",
            "queue.initialBackoffSeconds: 20 is too long, write at most maxBackoffSeconds (10)",
            id="backoff that shrinks",
        ),
        pytest.param(
            HEAD + "api: {bindAddress: ':8443'}",
            "api.bindAddress: :8443 is no loopback address, and callers send tokens: write tlsCertFile and tlsKeyFile, "
            "or 127.0.0.1:PORT",
            id="tokens in plain text",
        ),
        pytest.param(
            HEAD + "api: {bindAddress: '80'}", "api.bindAddress: '80' is no address", id="no address of the API"
        ),
        pytest.param(
            HEAD + "solver: {snapshotFolder: /data}\nhistory: {files: {folder: /data/}}",
            "history.files.folder: /data/ is solver.snapshotFolder, too",
            id="one folder for two kinds of files",
        ),
        pytest.param(
            HEAD + "api: {tlsCertFile: a}",
            "api.tlsKeyFile: is empty, write the path of a file",
            id="half a certificate",
        ),
        pytest.param(
            HEAD + "health: {bindAddress: '80'}",
            "health.bindAddress: '80' is no address: write host:port",
            id="no address",
        ),
        pytest.param(
            HEAD + "metrics: {tlsKeyFile: a}",
            "metrics.tlsCertFile: is empty, write the path of a file",
            id="half a certificate of metrics",
        ),
        pytest.param(
            HEAD + "metrics: {bindAddress: ':8080', tlsCertFile: a, tlsKeyFile: b}",
            "metrics.bindAddress: :8080 is health.bindAddress, too, and probes have no token: write another port",
            id="a certificate for probes",
        ),
        pytest.param(HEAD + "kind: X", "the key 'kind' stands twice", id="key twice"),
        pytest.param(HEAD + "? [a]\n: 1", "a key must be plain text", id="strange key"),
        pytest.param(HEAD + "batch: " + "[" * 100_000, "nested deeper than 200 levels", id="too deep"),
        pytest.param(HEAD + "batch:\n" + "- " * 100_000, "nested deeper than 200 levels", id="too deep in dashes"),
        pytest.param(
            HEAD + f"a: &a {'x' * 100_000}\nb: [{','.join(['*a'] * 11)}]",
            "aliases repeat more than 1000000 values and characters",
            id="aliases",
        ),
        pytest.param(
            HEAD + f"batch: {{maxPods: {'9' * 5000}}}", "expected a whole number, got text", id="too many digits"
        ),
        pytest.param(HEAD + "a: !!bool x", "a value does not fit its tag", id="strange tag"),
        pytest.param(HEAD + f"profiles: [{{policy: {'x' * 5000}}}]", "xxx… (5", id="a long value"),
        pytest.param(HEAD + "".join(f"k{each}: 1\n" for each in range(500)), "and 480 more", id="many keys"),
    ],
)
def test_a_wrong_file_is_refused_with_the_key_and_what_to_write(text: str, message: str) -> None:
    with pytest.raises(SettingsError) as caught:
        parse(text, "my.yaml")
    assert str(caught.value).startswith("my.yaml: ")
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 10_000


def test_everything_that_is_wrong_is_said_at_once() -> None:
    text = (
        "batch: {maxPods: '12', maxPod: 3}\n"
        "queue: {starvationSeconds: 5m}\n"
        "profiles: [{schedulerName: a, policy: pakc}, {schedulerName: 7}]\n"
        "devices: {owned: {drivers: [1, 2]}}\n"
    )
    with pytest.raises(SettingsError) as caught:
        parse(HEAD + text, "my.yaml")
    said = str(caught.value).removeprefix("my.yaml: ").split("; ")
    assert [each.partition(":")[0] for each in said if "unknown field" in each] == ["batch.maxPod"]
    assert {each.partition(":")[0] for each in said if "unknown field" not in each} == {
        "batch.maxPods",
        "queue.starvationSeconds",
        "profiles[0].policy",
        "profiles[1].schedulerName",
        "devices.owned.drivers[0]",
    }


def test_a_wrong_version_is_said_once_and_beside_the_rest() -> None:
    with pytest.raises(SettingsError) as caught:
        parse("apiVersion: v2\nbatch: [1]\n", "my.yaml")
    assert str(caught.value).split("; ") == [
        "my.yaml: apiVersion: 'v2' is not known, write config.dovetail.dev/v1alpha1",
        "kind: missing, write kind: DovetailConfiguration",
        "batch: expected a mapping, got a list",
    ]


def _nested(path: str, value: object) -> dict[str, object]:
    for key in reversed(path.split(".")):
        value = {key: value}
    assert isinstance(value, dict)
    return value


def _at(document: object, path: str) -> object:
    for key in path.split("."):
        assert isinstance(document, dict)
        document = document[key]
    return document


@pytest.mark.parametrize(("old", "new"), RENAMED.items(), ids=RENAMED)
def test_an_old_key_means_the_new_one_and_is_warned_of(old: str, new: str) -> None:
    value = _at(yaml.safe_load(reference.default_file()), new)
    warnings: list[str] = []
    assert parse(HEAD + json.dumps(_nested(old, value))[1:-1], "my.yaml", warnings.append) == default()
    assert warnings == [f"my.yaml: {old} is deprecated, write {new}"]


def test_the_value_of_an_old_key_is_used() -> None:
    warnings: list[str] = []
    text = HEAD + "holds: {maxNodesPercentOfNamespace: 3}\nqueue: {maxPassedOverSeconds: 7}"
    settings = parse(text, "my.yaml", warnings.append)
    assert settings.node_reservations.max_nodes_percent_per_namespace == 3
    assert settings.queue.starvation_seconds == 7
    assert len(warnings) == 3


def test_the_limits_of_reserved_nodes_are_those_of_the_solver() -> None:
    shares = {"maxNodesPercent": 1, "maxNodesPercentPerNamespace": 2, "maxNodesPercentPerGang": 3}
    limits = parse(HEAD + f"nodeReservations: {json.dumps(shares)}", "my.yaml").node_reservations.bounds()
    assert limits == NodeReservationLimits(percent=1, percent_of_namespace=2, percent_of_gang=3)
    assert default().node_reservations.bounds() == NodeReservationLimits()


@pytest.mark.parametrize("old", RENAMED)
def test_neither_the_default_file_nor_the_schema_shows_an_old_key(old: str) -> None:
    name = old.rpartition(".")[2]
    assert f" {name}:" not in reference.default_file()
    assert f'"{name}"' not in reference.json_schema()


def test_metrics_may_have_an_address_of_their_own(tmp_path: Path) -> None:
    settings = _loaded(tmp_path, "", Overrides(bind_address=":1", metrics_bind_address=":2"))
    assert (settings.health.bind_address, settings.metrics.bind_address) == (":1", ":2")


@pytest.mark.parametrize("beside", ["", "metrics: {intervalSeconds: 5}\n"])
def test_the_old_address_is_that_of_health_and_metrics(beside: str) -> None:
    warnings: list[str] = []
    settings = parse(HEAD + beside + "bindAddress: ':1'", "my.yaml", warnings.append)
    assert settings.health.bind_address == settings.metrics.bind_address == ":1"
    assert warnings == ["my.yaml: bindAddress is deprecated, write health.bindAddress and metrics.bindAddress"]


@pytest.mark.parametrize("beside", ["health: {bindAddress: ':2'}", "metrics: {bindAddress: ':2'}"])
def test_the_old_address_beside_a_new_one_is_refused(beside: str) -> None:
    with pytest.raises(SettingsError, match="bindAddress: unknown field"):
        parse(f"{HEAD}{beside}\nbindAddress: ':1'", "my.yaml")


def test_an_old_key_beside_its_new_one_is_refused() -> None:
    with pytest.raises(SettingsError, match=r"queue\.maxPassedOverSeconds: unknown field"):
        parse(HEAD + "queue: {maxPassedOverSeconds: 7, starvationSeconds: 8}", "my.yaml")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param("holds: 7", "nodeReservations: expected a mapping, got a whole number", id="section"),
        pytest.param("queue: [1]", "queue: expected a mapping, got a list", id="section with an old key"),
        pytest.param("queue: {maxPassedOverSeconds: x}", "queue.starvationSeconds: expected a number", id="value"),
    ],
)
def test_a_wrong_value_of_an_old_key_is_refused_under_the_new_one(text: str, message: str) -> None:
    with pytest.raises(SettingsError, match=re.escape(message)):
        parse(HEAD + text, "my.yaml")


def test_times_of_the_lease_are_not_judged_without_election() -> None:
    settings = parse(HEAD + "leaderElection: {enabled: false, renewDeadlineSeconds: 20}", "file")
    assert not settings.leader_election.enabled


@pytest.mark.parametrize(
    ("content", "message"),
    [
        pytest.param(None, "cannot be read: No such file", id="no file"),
        pytest.param(b"\xff\xfe", "cannot be read: not UTF-8", id="no text"),
        pytest.param(b"#" * (2**20 + 1), "is larger than 1024 KiB", id="too large"),
    ],
)
def test_a_file_that_cannot_be_read_is_named(tmp_path: Path, content: bytes | None, message: str) -> None:
    path = tmp_path / "config.yaml"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(SettingsError, match=message) as caught:
        load(path)
    assert str(path) in str(caught.value)


def _loaded(tmp_path: Path, text: str, overrides: Overrides) -> Settings:
    path = tmp_path / "config.yaml"
    path.write_text(HEAD + text, encoding="utf-8")
    return load(path, overrides)


def test_flags_that_are_not_given_leave_the_file_alone(tmp_path: Path) -> None:
    text = "leaderElection: {enabled: false}\nlogging: {level: debug, format: console}\nhealth: {bindAddress: ':1'}\n"
    assert _loaded(tmp_path, text, Overrides()) == parse(HEAD + text, "file")


def test_flags_win_over_the_file(tmp_path: Path) -> None:
    overrides = Overrides(leader_elect=False, bind_address=":1", log_level="debug", log_format="console")
    settings = _loaded(tmp_path, "health: {bindAddress: ':2'}\n", overrides)
    assert not settings.leader_election.enabled
    assert settings.health.bind_address == settings.metrics.bind_address == ":1"
    assert settings.logging.level == "debug"
    assert settings.logging.format == "console"


def test_names_of_the_command_line_replace_the_profiles(tmp_path: Path) -> None:
    settings = _loaded(tmp_path, "profiles: [{schedulerName: a}]\n", Overrides(scheduler_names=("b", "c")))
    assert settings.scheduler_names == {"b", "c"}


def test_the_same_name_twice_on_the_command_line_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="'b' is the name of profiles"):
        _loaded(tmp_path, "", Overrides(scheduler_names=("b", "b")))


def test_a_profile_gives_the_solver_its_policy() -> None:
    assert default().policy("dovetail").name == PolicyName.PACK


def test_a_policy_decides_the_levels_and_a_profile_what_they_weigh() -> None:
    text = HEAD + "profiles: [{schedulerName: a, policy: spread, weights: {nodeAffinity: 7}}, {schedulerName: b}]"
    settings = parse(text, "file")
    assert (settings.policy("a").levels, settings.policy("b").levels) == (SPREAD, PACK)
    assert settings.policy("a").weights == Weights(node_affinity=7)
    assert settings.policy("b").weights == Weights()


def test_a_profile_says_whether_pods_count_or_devices() -> None:
    text = HEAD + "profiles: [{schedulerName: a, placed: devices}, {schedulerName: b}]"
    settings = parse(text, "file")
    assert [settings.policy(name).counts_devices for name in ("a", "b")] == [True, False]


def test_a_profile_says_which_pods_may_be_evicted_for_its_pods() -> None:
    section = "preemption: {devices: true, minimumRunSeconds: 7, maxEvictionsPerMinute: 9}"
    settings = parse(HEAD + f"profiles: [{{schedulerName: a, {section}}}, {{schedulerName: b}}]", "file")
    rules, usual = settings.policy("a").preemption, settings.policy("b").preemption

    assert (rules.is_enabled, rules.frees_devices, rules.minimum_run_seconds) == (True, True, 7)
    assert (rules.most_victims, rules.ceiling, rules.scheduler_names) == (9, 9, ("a", "b"))
    assert (usual.is_enabled, usual.frees_devices) == (True, False)
    off = parse(HEAD + "profiles: [{preemption: {enabled: false}}]", "file")
    assert not off.policy("dovetail").preemption.is_enabled


def test_everything_is_owned_by_default() -> None:
    owned = default().owned_devices()
    assert (owned.drivers, owned.node_terms) == ((), ())


def test_owned_labels_become_one_term_that_needs_them_all() -> None:
    text = HEAD + "devices: {owned: {drivers: [b, a], nodeSelector: {matchLabels: {z: '2', x: '1'}}}}"
    owned = parse(text, "file").policy("dovetail").owned
    assert owned.drivers == ("a", "b")
    assert owned.node_terms == (
        NodeSelectorTerm(
            match_expressions=(
                NodeSelectorRequirement(key="x", operator="In", values=("1",)),
                NodeSelectorRequirement(key="z", operator="In", values=("2",)),
            )
        ),
    )


@pytest.mark.parametrize(
    ("text", "host", "port"),
    [
        pytest.param(":8080", None, 8080, id="every address"),
        pytest.param("0.0.0.0:0", "0.0.0.0", 0, id="any free port"),
        pytest.param("localhost:1", "localhost", 1, id="name"),
        pytest.param("[::1]:65535", "::1", 65535, id="IPv6"),
        pytest.param("[fe80::1%eth0]:80", "fe80::1%eth0", 80, id="IPv6 with a zone"),
    ],
)
def test_an_address_is_read_and_written_back(text: str, host: str | None, port: int) -> None:
    address = parse_address(text)
    assert address == (host, port)
    assert str(address) == text


@pytest.mark.parametrize(
    "text", ["", "80", "::1:80", "[::1]", "a:b", ":65536", "http://a:80", "a:80/x", "[zz]:80", "a b:1"]
)
def test_what_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="write host:port"):
        parse_address(text)


@pytest.mark.parametrize("address", ["127.0.0.1:1", "[::1]:1", "localhost:1"])
def test_the_api_may_do_without_a_certificate_on_the_loopback_interface(tmp_path: Path, address: str) -> None:
    assert _loaded(tmp_path, f"api: {{bindAddress: '{address}'}}\n", Overrides()).api.bind_address == address

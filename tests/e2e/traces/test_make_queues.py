"""The command that replays queues of jobs: files as they are published, runs that are kept, and errors."""

from pathlib import Path

import msgspec
import pytest

from e2e.traces import __main__ as traces
from e2e.traces.queues import job_traces
from e2e.traces.queues.job_traces import Job
from e2e.traces.workload import TraceError

PHILLY = "A3C\trun %s\t-n\t1\t82330\t100.5\t8\nResNet-18 (batch size 64)\trun\t-n\t1\t4888418\t90.0\t1\n"
SHOCKWAVE = (
    "LM (batch size 10)\trun\tlm\t--steps\t1\t134583\t1\tgns\t1\t-1.0\t1418\t0\n"
    "LM (batch size 10)\trun\tlm\t--steps\t1\t134583\t4\tgns\t1\t-1.0\t720\t55\n"
)
TIRESIAS_FIELDS = "job_id,num_gpu,submit_time,iterations,model_name,duration,interval"
TIRESIAS = f"{TIRESIAS_FIELDS}\n0,1,0,606,vgg19,164,30\n1,8,30,133,vgg11,147,23"
CLUSTER = "num_switch,num_node_p_switch,num_gpu_p_node,num_cpu_p_node,mem_p_node\n2,3,4,128,254"
FILES = {
    "gavel-philly/seed=0/0e4a51.trace": PHILLY,
    "gavel-philly/seed=1/0e4a51.trace": PHILLY,
    "gavel-philly/seed=1/925e2b.trace": PHILLY,
    "shockwave/120_0.2_5_100_40_25_0,0.5_multigpu_dynamic.trace": SHOCKWAVE,
    "tiresias/60_job.csv": TIRESIAS,
    "tiresias/n6g4.csv": CLUSTER,
}
PHILLY_FILE, _, _, SHOCKWAVE_FILE, TIRESIAS_FILE, CLUSTER_FILE = FILES


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(exist_ok=True, parents=True)
        (tmp_path / name).write_text(text)
    return tmp_path


def run(folder: Path, *arguments: str) -> int:
    return traces.main(["queues", f"--traces={folder}", f"--results={folder / 'results'}", *arguments])


def test_files_are_read_as_they_are_published(folder: Path) -> None:
    found = {trace.name: trace for trace in job_traces.read_all(folder)}
    assert list(found) == ["philly-0e4a51", "philly-925e2b", "shockwave-120_0.2_5_100_40_25", "tiresias-60_job-n6g4"]
    first, second = found["philly-0e4a51"].jobs
    assert ((first.arrival, first.gpus), (second.arrival, second.gpus)) == ((90.0, 1), (100.5, 8))
    assert [first.seconds, second.seconds] == pytest.approx([100_000, 10_000], rel=1e-4)
    shockwave = found["shockwave-120_0.2_5_100_40_25"]
    assert shockwave.jobs == (Job(0, 0.0, 1, 1418.0), Job(1, 55.0, 4, 720.0))
    assert (shockwave.machines, shockwave.gpus) == (4, 8)
    tiresias = found["tiresias-60_job-n6g4"]
    assert tiresias.jobs == (Job(0, 0.0, 1, 164.0), Job(1, 30.0, 8, 147.0))
    assert (tiresias.machines, tiresias.gpus) == (6, 4)


def test_a_job_that_is_listed_twice_runs_once(folder: Path) -> None:
    (folder / TIRESIAS_FILE).write_text(TIRESIAS + "\n" + TIRESIAS.splitlines()[-1])
    found = {trace.name: trace for trace in job_traces.read_all(folder)}
    assert [job.gpus for job in found["tiresias-60_job-n6g4"].jobs] == [1, 8]


def test_a_virtual_cluster_has_as_few_machines_as_its_load_allows(folder: Path) -> None:
    trace = job_traces.read_all(folder)[0]
    assert trace.load is not None
    assert trace.load <= 0.9 < trace.load * trace.machines / (trace.machines - 1)


def test_runs_are_shown_in_one_table_and_not_made_again(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = (
        "--jobs",
        "tiresias-*",
        "shockwave-*",
        "--policies",
        "best-fit",
        "dovetail",
        "--starvation",
        "300",
        "never",
    )
    assert run(folder, *arguments) == 0
    output = capsys.readouterr()
    assert output.err.splitlines() == [
        f"{trace}, {policy}"
        for trace in ("shockwave-120_0.2_5_100_40_25", "tiresias-60_job-n6g4")
        for policy in ("best-fit", "dovetail-300", "dovetail-never")
    ]
    runs = msgspec.json.decode((folder / "results" / "queues.json").read_bytes())
    assert [(each["trace"], each["policy"]) for each in runs[-2:]] == [
        ("tiresias-60_job-n6g4", "dovetail-300"),
        ("tiresias-60_job-n6g4", "dovetail-never"),
    ]
    assert runs[-1]["waits"] == {name: {"jobs": 1, "mean": 0.0, "p95": 0.0} for name in ("1", "8+")}
    assert "6 × 4 GPUs" in output.out
    assert "<svg" in (folder / "results" / "waits.svg").read_text()

    assert run(folder, *arguments) == 0
    again = capsys.readouterr()
    assert (again.out, again.err) == (output.out, "")


def test_another_load_is_another_run(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ("--jobs", "tiresias-*", "--policies", "first-fit")
    assert run(folder, *arguments) == run(folder, *arguments, "--load", "1500") == 0
    assert capsys.readouterr().err.splitlines() == [
        "tiresias-60_job-n6g4, first-fit",
        "tiresias-60_job-n6g4@1500, first-fit",
    ]
    assert (folder / "results" / "tiresias-60_job-n6g4@1500" / "first-fit.json").exists()


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        (PHILLY_FILE, PHILLY.replace("\t8\n", "\t0\n"), "line 1: scale_factor is '0', not a whole number of 1 or more"),
        (PHILLY_FILE, PHILLY.replace("\t8\n", "\t1.5\n"), "line 1: scale_factor is '1.5'"),
        (PHILLY_FILE, PHILLY.replace("90.0", "-1"), "line 2: arrival_time is '-1', not a number of 0 or more"),
        (PHILLY_FILE, PHILLY.replace("90.0", "nan"), "line 2: arrival_time is 'nan'"),
        (PHILLY_FILE, PHILLY.replace("82330", "inf"), "line 1: total_steps is 'inf'"),
        (PHILLY_FILE, PHILLY.replace("82330", "0"), "line 1: total_steps is 0"),
        (PHILLY_FILE, PHILLY.replace("A3C", "GPT-9"), "line 1: job_type is 'GPT-9'"),
        (PHILLY_FILE, PHILLY.replace("\t-n\t1", "\t-n", 1), "line 1 has 6 fields, not 7"),
        (PHILLY_FILE, "", "has no job"),
        (SHOCKWAVE_FILE, SHOCKWAVE.replace("1418", "long"), "line 1: duration is 'long'"),
        (SHOCKWAVE_FILE, SHOCKWAVE + "\n", "line 3 has 1 fields, not 12"),
        (TIRESIAS_FILE, TIRESIAS.replace("duration", "length"), "line 1: there is no field duration"),
        (TIRESIAS_FILE, TIRESIAS + "\n1,4,30,133,vgg11,147,23", "line 4: job_id is '1', as of another job before it"),
        (TIRESIAS_FILE, TIRESIAS + ",7", "line 3 has more or fewer fields than line 1"),
        (TIRESIAS_FILE, TIRESIAS.replace(",147,23", ""), "line 3 has more or fewer fields than line 1"),
        (TIRESIAS_FILE, TIRESIAS.replace("30,133", "soon,133"), "line 3: submit_time is 'soon'"),
        (CLUSTER_FILE, CLUSTER.replace("2,3", "0,3"), "line 2: num_switch is '0'"),
        (CLUSTER_FILE, CLUSTER.split("\n", maxsplit=1)[0], "describes no cluster"),
    ],
)
def test_a_file_that_says_something_else_is_named(
    folder: Path, capsys: pytest.CaptureFixture[str], name: str, text: str, said: str
) -> None:
    (folder / name).write_text(text)
    assert run(folder, "--policies", "first-fit") == 2
    error = capsys.readouterr().err
    assert f"{folder / name}" in error
    assert said in error
    assert "docs/traces.md" in error


def test_bytes_that_are_no_text_are_named(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / SHOCKWAVE_FILE).write_bytes(b"\xff\xfe")
    assert run(folder) == 2
    assert f"{folder / SHOCKWAVE_FILE}: invalid start byte at byte 0" in capsys.readouterr().err


def test_what_is_missing_is_named(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(folder, "--jobs", "helios-*") == 2
    assert "no trace is named helios-*; there are philly-0e4a51, " in capsys.readouterr().err
    (folder / CLUSTER_FILE).unlink()
    assert run(folder) == 2
    assert "has no cluster, such as n32g4.csv" in capsys.readouterr().err
    with pytest.raises(TraceError, match=r"docs/traces\.md"):
        job_traces.read_all(tmp_path / "nowhere")


@pytest.mark.parametrize("arguments", [("--starvation", "soon"), ("--load", "0"), ("--policies", "fifo")])
def test_arguments_that_mean_nothing_are_refused(folder: Path, arguments: tuple[str, str]) -> None:
    with pytest.raises(SystemExit):
        run(folder, *arguments)


def test_a_recorded_run_that_cannot_be_read_is_named(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ("--jobs", "tiresias-*", "--policies", "first-fit")
    assert run(folder, *arguments) == 0
    (folder / "results" / "tiresias-60_job-n6g4" / "first-fit.json").write_text("{")
    assert run(folder, *arguments) == 2
    assert "first-fit.json" in capsys.readouterr().err

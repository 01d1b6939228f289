"""The command that replays traces: files as they are published, runs that are kept, and errors."""

from pathlib import Path

import msgspec
import pytest

from e2e.traces import __main__ as traces
from e2e.traces import alibaba, published
from e2e.traces.workload import Machine, Shape, TraceError

NODES = "sn,cpu_milli,memory_mib,gpu,model\nn0,8000,1000,2,T4\nn1,16000,1000,4,V100M16\n"
PODS = (
    "name,cpu_milli,memory_mib,num_gpu,gpu_milli,qos,pod_phase,creation_time,deletion_time,scheduled_time\n"
    "p0,1000,10,1,400,LS,Running,0,1,0\np1,2000,10,2,1000,LS,Running,0,1,0\np2,500,10,0,0,BE,Running,0,1,0\n"
)
WITH_MODELS = (
    "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos\n"
    "p0,1000,10,1,1000,V100M32|V100M16,LS\np1,1000,10,1,500,,LS\n"
)
LOADS = ",".join(map(str, range(131)))
CURVES = f"workload,sc_policy,tune,seed,total_gpus,{LOADS}\n" + "".join(
    f"openb_pod_list_default,{policy},1.3,{seed},6,"
    + ",".join(str(min(load, most + seed)) for load in range(131))
    + "\n"
    for policy, most in (("01-Random", 80), ("06-FGD", 90))
    for seed in (0, 2)
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, text in {
        "alibaba-gpu-v2023/openb_node_list_gpu_node.csv": NODES,
        "alibaba-gpu-v2023/openb_pod_list_default.csv": PODS,
        "alibaba-gpu-v2023/openb_pod_list_gpuspec33.csv": WITH_MODELS,
        "fgd-atc23/analysis_allo_discrete.csv": CURVES,
    }.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


def run(folder: Path, *arguments: str) -> int:
    return traces.main([f"--traces={folder}", f"--results={folder / 'results'}", *arguments])


def test_files_are_read_as_they_are_published(folder: Path) -> None:
    assert alibaba.lists(folder) == ("default", "gpuspec33")
    assert alibaba.machines(folder)[1] == Machine("n1", 16_000, 1_000, 4, "V100M16")
    assert alibaba.tasks(folder, "default") == (
        Shape(1_000, 10, 1, 400),
        Shape(2_000, 10, 2, 1_000),
        Shape(500, 10),
    )
    assert [task.models for task in alibaba.tasks(folder, "gpuspec33")] == [("V100M16", "V100M32"), ()]
    known = published.allocated(folder)
    assert (known["default", "fgd"][130], known["default", "random"][130]) == (91.0, 81.0)


def test_runs_are_shown_in_one_table_and_not_made_again(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ("--lists", "default", "--policies", "best-fit", "dovetail", "--seeds", "2")
    assert run(folder, *arguments) == 0
    output = capsys.readouterr()
    assert output.err.count("default, best-fit-4") == 2
    rows = [line.split() for line in output.out.splitlines()]
    (first,) = [row for row in rows if "best-fit" in row]
    (other,) = [row for row in rows if row[:1] == ["dovetail"]]
    assert (first[0], first[2], other[1]) == ("default", "2", "2")
    curves = msgspec.json.decode((folder / "results" / "curves.json").read_bytes())
    assert [(each["policy"], each["seed"]) for each in curves] == [
        ("best-fit", 42),
        ("best-fit", 43),
        ("dovetail", 42),
        ("dovetail", 43),
    ]
    assert "<svg" in (folder / "results" / "allocated.svg").read_text()

    assert run(folder, *arguments) == 0
    again = capsys.readouterr()
    assert (again.out, again.err) == (output.out, "")


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("alibaba-gpu-v2023/openb_pod_list_default.csv", PODS.replace("400", "some"), "line 2: invalid literal"),
        ("alibaba-gpu-v2023/openb_pod_list_default.csv", PODS.replace("num_gpu", "gpus"), "no column 'num_gpu'"),
        ("alibaba-gpu-v2023/openb_node_list_gpu_node.csv", "sn,cpu_milli\nn0\n", "line 2"),
        ("fgd-atc23/analysis_allo_discrete.csv", CURVES.replace("06-FGD", "07-New"), "07-New"),
    ],
)
def test_a_file_that_says_something_else_is_named(
    folder: Path, capsys: pytest.CaptureFixture[str], name: str, text: str, said: str
) -> None:
    (folder / name).write_text(text)
    assert run(folder, "--lists", "default", "--policies", "random", "--seeds", "1") == 2
    error = capsys.readouterr().err
    assert name in error
    assert said in error


def test_what_is_missing_is_named(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(folder, "--lists", "cpu0") == 2
    assert "there is no list cpu0; the folder has default, gpuspec33" in capsys.readouterr().err
    with pytest.raises(TraceError, match=r"docs/traces\.md"):
        alibaba.lists(tmp_path / "nowhere")


def test_a_recorded_run_that_cannot_be_read_is_named(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ("--lists", "default", "--policies", "random", "--seeds", "1")
    assert run(folder, *arguments) == 0
    (folder / "results" / "default" / "random-42.json").write_text("{")
    assert run(folder, *arguments) == 2
    assert "random-42.json" in capsys.readouterr().err


def test_one_pod_is_decided_with_and_without_expected_ones(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    asked = ["one-pod", f"--traces={folder}", "--lists", "default", "--used", "0", "50", "--pods", "3"]
    assert traces.main(asked) == 0
    head, *rows = (line.split() for line in capsys.readouterr().out.splitlines())
    assert head == ["tasks", "GPUs", "in", "use", "ms", "without", "ms", "with", "times"]
    assert [row[:3] for row in rows] == [["default", "0", "%"], ["default", "50", "%"]]
    assert all(float(each) > 0 for row in rows for each in row[3:])


def test_a_load_that_is_never_reached_and_a_list_that_is_not_there_are_said(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert traces.main(["one-pod", f"--traces={folder}", "--lists", "default", "none", "--used", "100"]) == 2
    said = capsys.readouterr()
    assert said.out.splitlines()[1].split() == ["default", "100", "%", "never", "in", "use"]
    assert "openb_pod_list_none.csv" in said.err


def test_a_part_is_a_per_cent(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        traces.main(["one-pod", f"--traces={folder}", "--used", "half"])
    assert "'half' is not a whole number of 0 to 100" in capsys.readouterr().err

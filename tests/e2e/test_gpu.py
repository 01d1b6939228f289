"""What NVML says of cards, as devices of a ResourceSlice: a small NVML of our own, whose values are those of cards."""

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

import pytest

from e2e.nodes import gpu, nvml
from e2e.nodes.nvml import Nvml
from e2e.nodes.records import Container

NOT_SUPPORTED, LIBRARY_NOT_FOUND, FUNCTION_NOT_FOUND, GPU_IS_LOST = 3, 12, 13, 15
"""Codes of NVML."""
H100: Final[dict[str, Any]] = {
    "MigMode": [0, 0],
    "MinorNumber": 0,
    "UUID": "GPU-5f2c",
    "Name": "NVIDIA H100 80GB HBM3",
    "Brand": 14,
    "Architecture": 9,
    "AddressingMode": 1,
    "CudaComputeCapability": (9, 0),
    "PciInfo": SimpleNamespace(busId="00000000:1B:00.0"),
    "MemoryInfo": SimpleNamespace(total=81559 * 2**20),
}
PUBLISHED: Final = {
    "type": {"string": "gpu"},
    "uuid": {"string": "GPU-5f2c"},
    "productName": {"string": "NVIDIA H100 80GB HBM3"},
    "brand": {"string": "Nvidia"},
    "architecture": {"string": "Hopper"},
    "addressingMode": {"string": "HMM"},
    "cudaComputeCapability": {"version": "9.0.0"},
    "driverVersion": {"version": "580.105.8"},
    "cudaDriverVersion": {"version": "13.0.0"},
    "resource.kubernetes.io/pciBusID": {"string": "0000:1b:00.0"},
    "resource.kubernetes.io/pcieRoot": {"string": "pci0000:15"},
    "resource.kubernetes.io/numaNode": {"int": 1},
}


class Error(Exception):
    """NVMLError: `value` is its code."""

    def __init__(self, value: int) -> None:
        super().__init__({GPU_IS_LOST: "GPU is lost", LIBRARY_NOT_FOUND: "NVML Shared Library Not Found"}.get(value))
        self.value = value


class Library:
    """NVML with some cards: the value of a function, or the error code that it fails with."""

    NVMLError = Error

    def __init__(self, *cards: dict[str, Any] | int, starts: int = 0, **system: Any) -> None:
        self.system = {"DriverVersion": "580.105.08", "CudaDriverVersion": 13000, **system}
        self.cards = cards
        self.starts = starts
        self.is_open = False

    def nvmlInit(self) -> None:  # noqa: N802 - NVML's name
        if self.starts:
            raise Error(self.starts)
        self.is_open = True

    def nvmlShutdown(self) -> None:  # noqa: N802 - NVML's name
        self.is_open = False

    def nvmlDeviceGetCount(self) -> int:  # noqa: N802 - NVML's name
        return len(self.cards)

    def nvmlDeviceGetHandleByIndex(self, index: int) -> dict[str, Any]:  # noqa: N802 - NVML's name
        card = self.cards[index]
        if isinstance(card, int):
            raise Error(card)
        return card

    def __getattr__(self, name: str) -> Any:
        of, _, what = name.removeprefix("nvml").partition("Get")

        def ask(*card: dict[str, Any]) -> Any:
            assert self.is_open
            value = card[0][what] if of == "Device" else self.system[what]
            if isinstance(value, Exception):
                raise value
            return value

        return ask


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A machine with two cards behind two roots, with device nodes, and a NUMA node where the firmware says it."""
    for number, (place, numa_node) in enumerate((("15/0000:15:01.0/0000:1b:00.0", 1), ("97/0000:9d:00.0", -1))):
        folder = tmp_path / "sys/devices" / f"pci0000:{place}"
        folder.mkdir(parents=True)
        (folder / "numa_node").write_text(f"{numa_node}\n")
        link = tmp_path / "sys/bus/pci/devices" / folder.name
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(Path("../../..") / folder.relative_to(tmp_path / "sys"))
        node(tmp_path, f"nvidia{number}")
    return tmp_path


def node(root: Path, name: str) -> None:
    (root / "dev").mkdir(exist_ok=True)
    (root / "dev" / name).touch()


def read(root: Path, *cards: dict[str, Any] | int, **more: Any) -> nvml.Cards:
    return nvml.read(Nvml(Library(*cards, **more), root))


def test_a_card_has_the_attributes_of_nvidias_driver(root: Path) -> None:
    node(root, "nvidiactl")
    node(root, "nvidia-uvm")

    found = read(root, H100)

    assert found.devices == ({"name": "gpu-0", "attributes": PUBLISHED, "capacity": {"memory": {"value": "81559Mi"}}},)
    nodes = [{"path": f"/dev/{name}"} for name in ("nvidia0", "nvidiactl", "nvidia-uvm")]
    assert found.edits == {"gpu-0": {"deviceNodes": nodes}}
    assert found.left_out == ()


def test_each_card_has_its_own_place_and_device_node(root: Path) -> None:
    second = {**H100, "MinorNumber": 1, "UUID": "GPU-77", "PciInfo": SimpleNamespace(busId="00000000:9D:00.0")}

    found = read(root, H100, second)

    assert [each["name"] for each in found.devices] == ["gpu-0", "gpu-1"]
    attributes = found.devices[1]["attributes"]
    assert attributes["uuid"] == {"string": "GPU-77"}
    assert attributes["resource.kubernetes.io/pcieRoot"] == {"string": "pci0000:97"}
    assert "resource.kubernetes.io/numaNode" not in attributes  # -1 would be a neighbour of every other -1
    assert found.edits["gpu-1"] == {"deviceNodes": [{"path": "/dev/nvidia1"}]}


@pytest.mark.parametrize(
    ("what", "names"),
    [
        ("UUID", {"uuid"}),
        ("Brand", {"brand"}),
        ("Architecture", {"architecture"}),
        ("AddressingMode", {"addressingMode"}),
        ("CudaComputeCapability", {"cudaComputeCapability"}),
        ("PciInfo", {f"resource.kubernetes.io/{name}" for name in ("pciBusID", "pcieRoot", "numaNode")}),
        ("MigMode", set()),
    ],
)
def test_what_a_card_does_not_have_is_not_published(root: Path, what: str, names: set[str]) -> None:
    (found,) = read(root, {**H100, what: Error(NOT_SUPPORTED)}).devices
    assert found["attributes"] == {key: value for key, value in PUBLISHED.items() if key not in names}


def test_an_older_driver_has_fewer_attributes(root: Path) -> None:
    (found,) = read(root, {**H100, "AddressingMode": Error(FUNCTION_NOT_FOUND)}).devices
    assert set(PUBLISHED) - set(found["attributes"]) == {"addressingMode"}


def test_a_card_with_the_machines_memory_has_no_capacity(root: Path) -> None:
    (found,) = read(root, {**H100, "MemoryInfo": Error(NOT_SUPPORTED)}).devices
    assert "capacity" not in found


def test_brands_and_architectures_that_are_newer_than_this_have_no_name(root: Path) -> None:
    (found,) = read(root, {**H100, "Brand": 99, "Architecture": 99}).devices
    assert set(PUBLISHED) - set(found["attributes"]) == {"brand", "architecture"}


@pytest.mark.parametrize(
    ("said", "version"), [("580.105.08", "580.105.8"), ("470.82", "470.82.0"), ("550.54.15", "550.54.15")]
)
def test_versions_are_semantic(root: Path, said: str, version: str) -> None:
    (found,) = read(root, H100, DriverVersion=said, CudaDriverVersion=12080).devices
    assert found["attributes"]["driverVersion"] == {"version": version}
    assert found["attributes"]["cudaDriverVersion"] == {"version": "12.8.0"}


@pytest.mark.parametrize(
    ("card", "reason"),
    [
        pytest.param(GPU_IS_LOST, "GPU is lost", id="no handle"),
        pytest.param({**H100, "MemoryInfo": Error(GPU_IS_LOST)}, "GPU is lost", id="lost meanwhile"),
        pytest.param({**H100, "MigMode": [1, 1]}, "MIG mode", id="MIG"),
        pytest.param({**H100, "MinorNumber": Error(NOT_SUPPORTED)}, "no minor number", id="no minor number"),
        pytest.param({**H100, "MinorNumber": 7}, "/dev/nvidia7 does not exist", id="no device node"),
    ],
)
def test_a_card_that_no_container_can_use_is_left_out_with_the_reason(
    root: Path, card: dict[str, Any] | int, reason: str
) -> None:
    found = read(root, card, H100)
    assert [each["name"] for each in found.devices] == list(found.edits) == ["gpu-0"]
    (said,) = found.left_out
    assert said.startswith("card 0 is left out: ")
    assert reason in said
    with pytest.raises(nvml.NoCardError, match=rf"card 0 is left out: .*{reason}.*needed are"):
        read(root, card)


def test_no_card_is_an_error_that_says_what_is_needed(root: Path) -> None:
    with pytest.raises(nvml.NoCardError, match="NVML has no card to publish, needed are a card"):
        read(root)
    with pytest.raises(nvml.NoCardError, match=r"NVML does not start \(NVML Shared Library Not Found\); needed are"):
        read(root, H100, starts=LIBRARY_NOT_FOUND)


def test_nvml_is_given_back(root: Path) -> None:
    library = Library(GPU_IS_LOST)
    with pytest.raises(nvml.NoCardError):
        nvml.read(Nvml(library, root))
    assert not library.is_open


@pytest.mark.parametrize(
    ("library", "why"),
    [(None, "nvidia-ml-py is not installed"), (Library(starts=LIBRARY_NOT_FOUND), "NVML does not start")],
)
def test_the_command_says_in_one_line_why_it_cannot_run(
    library: Any, why: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", library)
    assert gpu.main() == 2
    printed = capsys.readouterr()
    assert (printed.out, printed.err.count("\n")) == ("", 1)
    assert why in printed.err
    assert nvml.NEEDED in printed.err


@pytest.mark.parametrize(
    ("count", "text"),
    [(0, "0"), (1000, "1000"), (1536, "1536"), (2**20 + 1024, "1025Ki"), (40 * 2**30, "40Gi"), (2**50, "1024Ti")],
)
def test_memory_is_written_as_the_api_server_writes_it(count: int, text: str) -> None:
    assert nvml.quantity(count) == text


@pytest.mark.parametrize(
    ("opened", "problems"),
    [
        ({"/dev/nvidia0": "", "/dev/nvidia1": "no such file"}, []),
        (
            {"/dev/nvidia0": "not permitted", "/dev/nvidia1": ""},
            ["/dev/nvidia0 was not opened: not permitted", "/dev/nvidia1 was opened, and is another card's"],
        ),
        ({}, ["/dev/nvidia0 was not opened: not tried"]),
    ],
)
def test_a_container_opens_its_card_and_no_other(opened: dict[str, str], problems: list[str]) -> None:
    edits = {f"gpu-{minor}": {"deviceNodes": [{"path": f"/dev/nvidia{minor}"}]} for minor in range(2)}
    has = Container("ns", "p", "uid", "main", 0, {}, ("gpu.nvidia.com/gpu-node/gpu-0",), opened=opened)
    assert gpu.wrong(has, nvml.Cards((), edits)) == problems

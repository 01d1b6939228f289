"""What users get wrong, and what they are told: one golden file for each row of the list, on the demo's hardware."""

import json
from pathlib import Path

import pytest
import yaml

from e2e.fleet.fleets import demo_fleet
from tests.support import manifests as m

CASES = sorted((m.GOLDEN / "lint").glob("*.input.yaml"))
LONGEST = 400


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = demo_fleet()
    path = tmp_path_factory.mktemp("fleet") / "fleet.json"
    return m.write_json(path, (*made.nodes, *made.classes, *made.slices))


@pytest.mark.parametrize("case", CASES, ids=lambda path: path.name.removesuffix(".input.yaml"))
def test_the_message_says_what_to_write_instead(case: Path, fleet: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status = m.run("simulate", "-f", fleet, case, "-o", "json")
    printed = capsys.readouterr()
    answer = json.loads(printed.out)
    waiting = {
        each["pod"]: [f"{reason['code']}: {reason['message']}" for reason in each["reasons"]]
        for each in answer["unplaced"]
    }
    found = {
        "status": int(status),
        "told": [line.replace(str(case), "FILE") for line in printed.err.splitlines()],
        "placed": {each["pod"]: each["node"] for each in answer["placements"]},
        "waiting": waiting,
    }
    assert all(len(line) < LONGEST for lines in waiting.values() for line in lines)
    output = case.with_name(case.name.replace(".input.", ".output."))
    if m.IS_UPDATE:
        output.write_text(yaml.safe_dump(found, sort_keys=False, width=10_000), encoding="utf-8")
    assert found == yaml.safe_load(output.read_text(encoding="utf-8"))


def test_every_row_has_its_file() -> None:
    assert len(CASES) >= 14

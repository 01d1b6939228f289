"""The shipped examples, read as a person applies them: manifests in order, and what each pod says it ends as."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

Manifest = dict[str, Any]

FOLDER = Path(__file__).parents[2] / "examples"
EXPECT = "dovetail.dev/expect"
EXPECT_REASON = "dovetail.dev/expect-reason"
STATES = ("Running", "Pending")


@dataclass(frozen=True, slots=True)
class Expectation:
    """What a pod is to end as; a pending one for a reason that contains the text."""

    state: str
    reason: str = ""

    @classmethod
    def of(cls, metadata: Manifest) -> "Expectation | None":
        """Read it from the annotations of a pod or of a pod template; None where there is none."""
        annotations = metadata.get("annotations") or {}
        state = annotations.get(EXPECT)
        return None if state is None else cls(state, annotations.get(EXPECT_REASON, ""))


@dataclass(frozen=True, slots=True)
class Example:
    """One file of `examples/`."""

    path: Path
    manifests: tuple[Manifest, ...]

    @property
    def pod_specs(self) -> Iterator[tuple[Manifest, Manifest, int]]:
        """Yield (metadata, spec, number of pods) of each pod and each pod template."""
        for manifest in self.manifests:
            if manifest["kind"] == "Pod":
                yield manifest["metadata"], manifest["spec"], 1
            elif manifest["kind"] == "Deployment":
                template = manifest["spec"]["template"]
                yield template["metadata"], template["spec"], manifest["spec"].get("replicas", 1)

    @property
    def pod_count(self) -> int:
        """The number of pods that the file leads to."""
        return sum(count for _, _, count in self.pod_specs)

    def text_for(self, scheduler: str) -> str:
        """Return the file for another scheduler than Dovetail, which need not give Dovetail's reasons."""
        text = self.path.read_text().replace("schedulerName: dovetail", f"schedulerName: {scheduler}")
        return "\n".join(line for line in text.splitlines() if EXPECT_REASON not in line)


def read_examples(folder: Path = FOLDER) -> tuple[Example, ...]:
    """Read all example files in reading order."""
    return tuple(
        Example(path, tuple(each for each in yaml.safe_load_all(path.read_text()) if each))
        for path in sorted(folder.glob("*.yaml"))
    )

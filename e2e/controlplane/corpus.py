"""
Writes the corpus: an object of each kind and API version with every field set, from the Go types of each Kubernetes.

`python -m e2e.controlplane.corpus [VERSION...]`, after a new version or patch in `go/*.mod`. Tests in
`tests/scheduler/kube/test_corpus_*.py` then name each field that is new.
"""

import argparse
import json
import lzma
import sys
from pathlib import Path

from e2e.controlplane import versions
from e2e.controlplane.build import BuildError, output_of

FOLDER = Path(__file__).parents[2] / "tests" / "golden" / "corpus"


def generated(kubernetes: str) -> bytes:
    """Return the corpus of a version as JSON, one object per line. Raises BuildError."""
    found = json.loads(output_of("./corpus", kubernetes))
    lines = ",\n".join(json.dumps(each, separators=(",", ":")) for each in found.pop("objects"))
    rest = json.dumps(found, separators=(",", ":")).removeprefix("{")
    return f'{{"objects":[\n{lines}\n],{rest}\n'.encode()


def main() -> None:
    """Write the files of the versions that are named, else of all."""
    parser = argparse.ArgumentParser(prog="python -m e2e.controlplane.corpus", description=__doc__)
    parser.add_argument("kubernetes", nargs="*", metavar="VERSION", help=f"of {', '.join(versions.SUPPORTED)}")
    FOLDER.mkdir(parents=True, exist_ok=True)
    for each in parser.parse_args().kubernetes or versions.SUPPORTED:
        path = FOLDER / f"{versions.chosen(each)}.json.xz"
        path.write_bytes(lzma.compress(generated(each)))
        print(path)


if __name__ == "__main__":
    try:
        main()
    except (BuildError, versions.UnknownVersionError) as error:
        sys.exit(str(error))

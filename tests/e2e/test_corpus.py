"""The corpus is that of the Kubernetes modules which the control plane is built from."""

import lzma

import pytest

from e2e.controlplane import corpus, versions


@pytest.mark.controlplane
def test_the_committed_corpus_is_that_of_the_types_of_its_version() -> None:
    kubernetes = versions.chosen()
    committed = lzma.decompress((corpus.FOLDER / f"{kubernetes}.json.xz").read_bytes())
    assert corpus.generated(kubernetes) == committed, f"run python -m e2e.controlplane.corpus {kubernetes}"

"""The fields and types of the API that the wheel has are those of the Kubernetes modules."""

import msgspec
import pytest

from e2e.controlplane import versions
from e2e.controlplane.build import release
from e2e.reading import api_schema
from scheduler.simulation.manifests.api_schema import FILE as COMMITTED
from scheduler.simulation.manifests.api_schema import ApiSchema, in_version


def committed() -> ApiSchema:
    return msgspec.json.decode(COMMITTED.read_bytes(), type=ApiSchema)


def test_it_is_of_the_newest_patches() -> None:
    assert committed().releases == {each: release(each) for each in versions.SUPPORTED}, "run: make api-schema"


@pytest.mark.controlplane
def test_it_is_what_the_openapi_document_of_the_version_says() -> None:
    kubernetes = versions.chosen()
    minor = versions.minor(kubernetes)
    schema = committed()
    kinds, types = api_schema.fields_of(kubernetes)
    found = {kind: name for kind, spans in schema.kinds.items() if (name := in_version(spans, minor))}
    assert found == kinds, "run: make api-schema"
    assert {name: schema.fields(name, minor) for name in types} == types, "run: make api-schema"

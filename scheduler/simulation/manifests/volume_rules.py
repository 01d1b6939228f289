"""Values of volumes and their claims that the API server refuses."""

from collections.abc import Iterator
from typing import Any, Final

from scheduler.simulation.manifests.fields import Body, entries, mapping, spec
from scheduler.simulation.manifests.shapes import Wrong
from solver.domain.quantity import QuantityError, parse

_ALONE: Final = "ReadWriteOncePod"
_MODES: Final = ("ReadWriteOnce", "ReadOnlyMany", "ReadWriteMany", _ALONE)
_KINDS: Final = ("Filesystem", "Block")


def of_claim_spec(claim: Body, at: str) -> Iterator[Wrong]:
    """Give what is wrong with the spec of a PersistentVolumeClaim that stands at a field."""
    requests = mapping(mapping(claim.get("resources")).get("requests"))
    yield from _of_spec(claim, at, requests.get("storage"), f"{at}.resources.requests.storage")


def of_volume(body: Body) -> Iterator[Wrong]:
    """Give what is wrong with a PersistentVolume."""
    described = spec(body)
    yield from _of_spec(described, "spec", mapping(described.get("capacity")).get("storage"), "spec.capacity.storage")


def of_pod_spec(pod: Body, at: str) -> Iterator[Wrong]:
    """Give what is wrong with the claims that a pod's ephemeral volumes make."""
    for index, volume in entries(pod.get("volumes")):
        template = mapping(volume.get("ephemeral")).get("volumeClaimTemplate")
        if isinstance(template, dict):
            field = f"{at}.volumes[{index}].ephemeral.volumeClaimTemplate.spec"
            yield from of_claim_spec(mapping(template.get("spec")), field)


def of_workload(workload: Body) -> Iterator[Wrong]:
    """Give what is wrong with the claims that a StatefulSet makes."""
    for index, template in entries(workload.get("volumeClaimTemplates")):
        yield from of_claim_spec(spec(template), f"spec.volumeClaimTemplates[{index}].spec")


def _of_spec(described: Body, at: str, size: Any, size_at: str) -> Iterator[Wrong]:
    modes = described.get("accessModes")
    if not modes:
        yield Wrong(f"{at}.accessModes", f"missing: write at least one of {', '.join(_MODES)}")
    for index, mode in enumerate(modes if isinstance(modes, list) else ()):
        if mode not in _MODES:
            yield Wrong(f"{at}.accessModes[{index}]", f"is {mode!r}: write one of {', '.join(_MODES)}")
    if isinstance(modes, list) and _ALONE in modes and set(map(str, modes)) != {_ALONE}:
        yield Wrong(f"{at}.accessModes", f"{_ALONE} stands alone: leave out the others, or it")
    kind = described.get("volumeMode")
    if kind is not None and kind not in _KINDS:
        yield Wrong(f"{at}.volumeMode", f"is {kind!r}: write {' or '.join(_KINDS)}")
    yield from _of_size(size, size_at)


def _of_size(size: Any, at: str) -> Iterator[Wrong]:
    if size is None:
        yield Wrong(at, "missing: write a size, such as 10Gi")
        return
    try:
        is_positive = parse(str(size)).nano > 0
    except QuantityError as error:
        yield Wrong(at, str(error))
        return
    if not is_positive:
        yield Wrong(at, f"is {size}: write a size above 0, such as 10Gi")

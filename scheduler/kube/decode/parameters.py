"""Opaque parameters of softened objects: the text that drivers get is the one that the API server has."""

import msgspec

from scheduler.change import Object
from scheduler.kube.decode.json_parts import Softened
from solver.domain import Allocation, Claim, DeviceClass, OpaqueConfig


def restored(value: Object, soft: Softened) -> Object:
    """Give an object that was decoded from softened JSON with its opaque parameters as they came."""
    match value:
        case DeviceClass():
            return msgspec.structs.replace(value, config=_configs(value.config, soft))
        case Claim():
            allocation = _allocation(value.allocation, soft)
            return msgspec.structs.replace(value, config=_configs(value.config, soft), allocation=allocation)
        case _:
            return value


def _allocation(allocation: Allocation | None, soft: Softened) -> Allocation | None:
    if allocation is None:
        return None
    return msgspec.structs.replace(allocation, config=_configs(allocation.config, soft))


def _configs(configs: tuple[OpaqueConfig, ...], soft: Softened) -> tuple[OpaqueConfig, ...]:
    return tuple(msgspec.structs.replace(each, parameters=soft.restored(each.parameters)) for each in configs)

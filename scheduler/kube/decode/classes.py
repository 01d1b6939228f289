"""DeviceClasses (resource.k8s.io/v1) and DeviceTaintRules (v1, v1beta2, v1alpha3: the same shape)."""

import msgspec

from scheduler.kube.decode.shared import (
    ConfigWire,
    MalformedError,
    Metadata,
    SelectorWire,
    TaintWire,
    Wire,
    configs,
    selectors,
    taint,
)
from solver.domain import DeviceClass, DeviceTaintRule


class _ClassSpec(Wire, frozen=True):
    selectors: list[SelectorWire] | None = None
    config: list[ConfigWire] | None = None
    extended_resource_name: str | None = None


class ClassWire(Wire, frozen=True):
    """DeviceClass."""

    metadata: Metadata
    spec: _ClassSpec = _ClassSpec()


class _RuleSelector(Wire, frozen=True):
    driver: str | None = None
    pool: str | None = None
    device: str | None = None
    device_class_name: str | None = None
    selectors: list[msgspec.Raw] | None = None


class _RuleSpec(Wire, frozen=True):
    taint: TaintWire
    device_selector: _RuleSelector | None = None


class RuleWire(Wire, frozen=True):
    """DeviceTaintRule."""

    metadata: Metadata
    spec: _RuleSpec


_class = msgspec.json.Decoder(ClassWire)
_rule = msgspec.json.Decoder(RuleWire)


def decode_class(raw: bytes | msgspec.Raw) -> DeviceClass:
    """Decode a DeviceClass."""
    wire = _class.decode(raw)
    return DeviceClass(
        name=wire.metadata.name,
        selectors=selectors(wire.spec.selectors, "spec.selectors"),
        config=configs(wire.spec.config, "spec.config"),
        extended_resource_name=wire.spec.extended_resource_name or "",
        creation_timestamp=wire.metadata.creation_timestamp or "",
    )


def decode_taint_rule(raw: bytes | msgspec.Raw) -> DeviceTaintRule:
    """
    Decode a DeviceTaintRule.

    A selector by class or CEL (v1alpha3 before Kubernetes 1.35) is refused: ignoring it would taint every device.
    """
    wire = _rule.decode(raw)
    selector = wire.spec.device_selector
    if selector is not None and (selector.device_class_name or selector.selectors):
        raise MalformedError(
            "spec.deviceSelector",
            "selects by deviceClassName or selectors, which no longer exist: use driver, pool, device",
        )
    return DeviceTaintRule(
        name=wire.metadata.name,
        taint=taint(wire.spec.taint),
        driver=selector.driver if selector else None,
        pool=selector.pool if selector else None,
        device=selector.device if selector else None,
        selects_nothing=selector is None,
    )

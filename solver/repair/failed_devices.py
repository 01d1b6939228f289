"""Devices in use that pods have to leave: tainted without a toleration, unhealthy, or suspect."""

from collections import defaultdict
from collections.abc import Iterator, Mapping

from solver.domain import SUSPECT_TAINT, Claim, ClaimId, Device, DeviceId, DeviceTaintRule, Pod, Snapshot, Taint
from solver.rules.taints.values import first_untolerated_taint


def failed_devices(snapshot: Snapshot) -> dict[DeviceId, str]:
    """Return the failed devices that claims hold, each with a sentence fragment that says what is wrong."""
    published = {
        DeviceId(each.driver, each.pool, device.name): device for each in snapshot.slices for device in each.devices
    }
    rules = _rules_by_device(snapshot.taint_rules)
    found: dict[DeviceId, str] = {}
    for claim in snapshot.claims:
        for result in claim.allocation.results if claim.allocation is not None else ():
            if result.admin_access:
                continue
            device = published.get(result.device)
            taints = _taints(device, result.device, rules)
            taint = first_untolerated_taint(taints, result.tolerations)
            if taint is not None:
                found[result.device] = f"it has the taint {taint}"
            elif any(each.key == SUSPECT_TAINT for each in taints):
                found.setdefault(result.device, "a pod failed on it, or it was reported unhealthy")
    claims = {claim.id: claim for claim in snapshot.claims}
    for pod in snapshot.pods:
        found |= dict.fromkeys(_unhealthy(pod, claims), "it is reported unhealthy") if pod.unhealthy else {}
    return found


def _rules_by_device(rules: tuple[DeviceTaintRule, ...]) -> Mapping[str | None, list[DeviceTaintRule]]:
    """Return the rules by the name of the device that they select, None: of any name."""
    found: defaultdict[str | None, list[DeviceTaintRule]] = defaultdict(list)
    for rule in rules:
        if not rule.selects_nothing:
            found[rule.device].append(rule)
    return found


def _taints(
    device: Device | None, key: DeviceId, rules: Mapping[str | None, list[DeviceTaintRule]]
) -> tuple[Taint, ...]:
    selected = (rule for rule in (*rules.get(key.device, ()), *rules.get(None, ())) if _selects(rule, key))
    return (*(() if device is None else device.taints), *(rule.taint for rule in selected))


def _selects(rule: DeviceTaintRule, key: DeviceId) -> bool:
    return rule.driver in {None, key.driver} and rule.pool in {None, key.pool}


def _unhealthy(pod: Pod, claims: Mapping[ClaimId, Claim]) -> Iterator[DeviceId]:
    """Return the devices that a kubelet reports unhealthy (KEP-4680), all of a request where it names none of them."""
    entries = {entry.entry: claims.get(entry.claim) for entry in pod.claims if entry.claim is not None}
    for report in pod.unhealthy:
        claim = entries.get(report.entry)
        if claim is None or claim.allocation is None:
            continue
        given = [
            result.device
            for result in claim.allocation.results
            if report.request in {"", result.request, result.request.partition("/")[0]} and not result.admin_access
        ]
        named = [device for device in given if report.resource_id in {str(device), device.device}]
        yield from named or given

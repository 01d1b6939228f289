"""Claims that the API server refuses, with the field that `simulate` names and its words, and some that just pass."""

from typing import Any, Final

Json = dict[str, Any]

GPU: Final[Json] = {"deviceClassName": "gpu"}


def request(name: str = "gpu", **details: Any) -> Json:
    return {"name": name, "exactly": {**GPU, **details}}


def either(*names: str, **details: Any) -> Json:
    return {"name": "gpu", "firstAvailable": [{"name": name, **GPU, **details} for name in names]}


def devices(*requests: Json, **more: Any) -> Json:
    return {"requests": list(requests), **more}


def selectors(*expressions: str) -> list[Json]:
    return [{"cel": {"expression": each}} for each in expressions]


def constrained(*names: str, attribute: str = "example.com/rack") -> Json:
    constraint = {"requests": list(names), "matchAttribute": attribute}
    return devices(request(), request("nic"), constraints=[constraint])


def configured(*names: str, count: int = 1, **opaque: Any) -> Json:
    filled = {"driver": "gpu.example.com", "parameters": {"a": 1}, **opaque}
    config = {"requests": list(names), "opaque": {key: each for key, each in filled.items() if each is not None}}
    return devices(request(), config=[config] * count)


_LONG: Final = f'device.driver == "{"x" * 10_240}"'

MISTAKES: Final = [
    (devices(*(request(f"r{n}") for n in range(33))), "requests", "are 33: at most 32"),
    (devices(request(), request()), "requests[1].name", "gpu stands twice"),
    (devices(request("")), "requests[0].name", "missing: write a name"),
    (devices(request("GPU_1")), "requests[0].name", "GPU_1 is no name"),
    (devices(request("a" * 64)), "requests[0].name", "is no name"),
    (devices(either("a", "a")), "requests[0].firstAvailable[1].name", "a stands twice"),
    (devices(either("a.b")), "requests[0].firstAvailable[0].name", "a.b is no name"),
    (devices(either(*(f"a{n}" for n in range(9)))), "requests[0].firstAvailable", "are 9: at most 8"),
    (devices({"name": "gpu", "firstAvailable": []}), "requests[0].firstAvailable", "is empty"),
    (devices(either("a", count=-1)), "requests[0].firstAvailable[0].count", "is -1: write 1 or more"),
    (devices(either("a", allocationMode="Some")), "requests[0].firstAvailable[0].allocationMode", "Some is not known"),
    (devices({"name": "gpu", "exactly": {"count": 1}}), "requests[0].exactly.deviceClassName", "missing"),
    (devices(request(deviceClassName="GPU")), "requests[0].exactly.deviceClassName", "GPU is no name"),
    (devices(request(count=2**63)), "requests[0].exactly.count", "is larger than"),
    (devices(request(allocationMode="All", count=1)), "requests[0].exactly.count", "leave it out"),
    (devices(request(selectors=selectors(*["true"] * 33))), "requests[0].exactly.selectors", "are 33: at most 32"),
    (
        devices(either("a", selectors=selectors(*["true"] * 33))),
        "requests[0].firstAvailable[0].selectors",
        "are 33: at most 32",
    ),
    (
        devices(request(selectors=selectors(_LONG))),
        "requests[0].exactly.selectors[0].cel.expression",
        "is longer than 10240 bytes",
    ),
    (devices(request(selectors=selectors(""))), "requests[0].exactly.selectors[0].cel.expression", "missing"),
    (
        devices(request(), constraints=[{"matchAttribute": "example.com/a"}] * 33),
        "constraints",
        "are 33: at most 32",
    ),
    (constrained("gpu", "gpus"), "constraints[0].requests[1]", "gpus is no request of the claim (gpu, nic)"),
    (constrained("gpu/a"), "constraints[0].requests[0]", "gpu/a is no request"),
    (constrained("gpu", "gpu"), "constraints[0].requests[1]", "gpu stands twice"),
    (constrained("gpu", attribute="rack"), "constraints[0].matchAttribute", "lacks its domain"),
    (constrained("gpu", attribute="Example.COM/a"), "constraints[0].matchAttribute", "write example.com/a"),
    (constrained("gpu", attribute="example.com/a-b"), "constraints[0].matchAttribute", "is no attribute"),
    (constrained("gpu", attribute="exa_mple.com/a"), "constraints[0].matchAttribute", "is no attribute"),
    (constrained("gpu", attribute=f"{'a' * 64}/b"), "constraints[0].matchAttribute", "is no attribute"),
    (constrained("gpu", attribute=f"example.com/{'b' * 33}"), "constraints[0].matchAttribute", "is no attribute"),
    (configured(count=33), "config", "are 33: at most 32"),
    (configured("nic"), "config[0].requests[0]", "nic is no request of the claim (gpu)"),
    (devices(request(), config=[{"requests": ["gpu"]}]), "config[0].opaque", "missing"),
    (configured(driver=None), "config[0].opaque.driver", "missing"),
    (configured(driver="GPU_1"), "config[0].opaque.driver", "GPU_1 is no driver"),
    (configured(parameters=None), "config[0].opaque.parameters", "missing"),
    (configured(parameters=[1]), "config[0].opaque.parameters", "is no mapping"),
    (configured(parameters={"a": "x" * 10_240}), "config[0].opaque.parameters", "are larger than 10240 bytes"),
]
"""`spec.devices` of a claim, the field below it, and words of the message."""
SINCE_1_37: Final = frozenset({"write example.com/a"})
"""The messages about what older API servers take."""

FINE: Final = {
    "sizes at their limits": devices(*(request(f"r{n}", selectors=selectors(*["true"] * 32)) for n in range(32))),
    "alternatives of one name in two requests": devices(
        either("a", "b"), {"name": "nic", "firstAvailable": [{"name": "a", **GPU}]}
    ),
    "an alternative called as a request": devices(either("nic"), request("nic")),
    "as many alternatives as can be": devices(either(*(f"a{n}" for n in range(8)))),
    "a count that is left out": devices(request(), request("nic", count=0), request("all", allocationMode="All")),
    "references to requests and alternatives": devices(
        either("a", "b"),
        request("nic"),
        constraints=[{"requests": ["gpu/a", "nic"], "matchAttribute": "example.com/a"}, {"matchAttribute": "a.b/c_1"}],
        config=[{"requests": ["gpu"], "opaque": {"driver": "x", "parameters": {}}}],
    ),
    "names at their limits": devices(request("a" * 63, deviceClassName=f"{'a' * 63}.{'b' * 63}")),
    "capitals in a driver's name": devices(request(), config=[{"opaque": {"driver": "GPU", "parameters": {}}}]),
    "a toleration without an operator": devices(request(tolerations=[{"key": "a", "value": "b"}])),
}
"""`spec.devices` that the API server takes."""

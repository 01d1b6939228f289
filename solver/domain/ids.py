"""
Keys of objects.

They are `NamedTuple`s, because they are hashed, sorted and unpacked often. `str()` gives the form that messages use.
"""

from typing import NamedTuple


class PodId(NamedTuple):
    """A pod by its API key."""

    namespace: str
    name: str

    def __str__(self) -> str:
        """Write it as kubectl users do."""
        return f"{self.namespace}/{self.name}"


class GangId(NamedTuple):
    """
    A gang by the API key of its PodGroup, or by namespace and value of Dovetail's label.

    `source` is the API group of the PodGroup, or `dovetail.dev` for the label: names are unique only within a source.
    """

    namespace: str
    name: str
    source: str

    def __str__(self) -> str:
        """Write it as kubectl users do."""
        return f"{self.namespace}/{self.name}"


class ClaimId(NamedTuple):
    """A ResourceClaim by its API key."""

    namespace: str
    name: str

    def __str__(self) -> str:
        """Write it as kubectl users do."""
        return f"{self.namespace}/{self.name}"


class VolumeClaimId(NamedTuple):
    """A PersistentVolumeClaim by its API key."""

    namespace: str
    name: str

    def __str__(self) -> str:
        """Write it as kubectl users do."""
        return f"{self.namespace}/{self.name}"


class PoolId(NamedTuple):
    """A pool: two drivers may use the same pool name (the node's name is the usual choice)."""

    driver: str
    pool: str

    def __str__(self) -> str:
        """Write it as messages name it."""
        return f"{self.driver}/{self.pool}"


class DeviceId(NamedTuple):
    """A device by driver, pool and name; it is the same device if another slice lists it."""

    driver: str
    pool: str
    device: str

    @property
    def pool_id(self) -> PoolId:
        """The pool of the device."""
        return PoolId(self.driver, self.pool)

    def __str__(self) -> str:
        """Write it as messages name it."""
        return f"{self.driver}/{self.pool}/{self.device}"


class CounterId(NamedTuple):
    """One counter of one counter set; the driver is part of the key, which kube-scheduler lacks (k/k#140434)."""

    driver: str
    pool: str
    counter_set: str
    counter: str


class RequestName(NamedTuple):
    """A request as allocation results, constraints and config name it: `main` or `main/sub`."""

    main: str
    sub: str = ""

    def __str__(self) -> str:
        """`main` or `main/sub`."""
        return f"{self.main}/{self.sub}" if self.sub else self.main

    @classmethod
    def parse(cls, text: str) -> "RequestName":
        """Split `main/sub`; a name without a slash is a main request."""
        main, _, sub = text.partition("/")
        return cls(main, sub)

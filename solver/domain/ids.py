"""
Keys: how things are named, everywhere in the core.

They are `NamedTuple`s because they are hashed, sorted and unpacked all the time.
"""

from typing import NamedTuple


class PodId(NamedTuple):
    """A pod by its API key."""

    namespace: str
    name: str

    def __str__(self) -> str:
        """As kubectl's users write it."""
        return f"{self.namespace}/{self.name}"


class GangId(NamedTuple):
    """
    A gang: by its PodGroup's API key, or by namespace and label value where there is no such object.

    `source` tells apart what may have the same name: the API group of the PodGroup, or `dovetail.dev` for our label.
    """

    namespace: str
    name: str
    source: str

    def __str__(self) -> str:
        """As kubectl's users write it."""
        return f"{self.namespace}/{self.name}"


class ClaimId(NamedTuple):
    """A ResourceClaim by its API key."""

    namespace: str
    name: str

    def __str__(self) -> str:
        """As kubectl's users write it."""
        return f"{self.namespace}/{self.name}"


class VolumeClaimId(NamedTuple):
    """A PersistentVolumeClaim by its API key."""

    namespace: str
    name: str

    def __str__(self) -> str:
        """As kubectl's users write it."""
        return f"{self.namespace}/{self.name}"


class PoolId(NamedTuple):
    """A pool: two drivers may use the same pool name (the node's name is the usual choice)."""

    driver: str
    pool: str

    def __str__(self) -> str:
        """As messages name it."""
        return f"{self.driver}/{self.pool}"


class DeviceId(NamedTuple):
    """A device: the slice object that lists it may change, this triple does not."""

    driver: str
    pool: str
    device: str

    @property
    def pool_id(self) -> PoolId:
        """The pool that the device belongs to."""
        return PoolId(self.driver, self.pool)

    def __str__(self) -> str:
        """As messages name it."""
        return f"{self.driver}/{self.pool}/{self.device}"


class CounterId(NamedTuple):
    """One counter of one counter set; keyed by driver too, which upstream forgets (k/k#140434)."""

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

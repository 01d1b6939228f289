"""The tree of quotas and what is held, from one decision to the next."""

from dataclasses import dataclass, field

from solver.domain import DeviceQuota, Namespace, QuotaKey, QuotaTree, Snapshot
from solver.rules.quotas.holdings import Holdings


@dataclass(slots=True, eq=False)
class QuotaCache:
    """Made anew where quotas or namespaces changed (the tree), and updated where claims or devices did (holdings)."""

    holdings: Holdings = field(default_factory=Holdings)
    _tree: QuotaTree = field(default_factory=QuotaTree)
    _quotas: tuple[DeviceQuota, ...] = ()
    _namespaces: tuple[Namespace, ...] = ()
    _below: dict[int, tuple[str, ...]] = field(default_factory=dict)
    _keys: tuple[QuotaKey, ...] = ()

    def follow(self, snapshot: Snapshot) -> QuotaTree:
        """Return the tree of a snapshot, and count what its claims hold."""
        if self._quotas != snapshot.quotas or self._namespaces is not snapshot.namespaces:
            self._quotas, self._namespaces = snapshot.quotas, snapshot.namespaces
            self._tree = QuotaTree.of(snapshot.quotas, snapshot.namespaces)
            self._keys = self._tree.keys
            self._below = {}
            for namespace, leaf in self._tree.leaf_of.items():
                for index in self._tree.chains[leaf]:
                    self._below[index] = (*self._below.get(index, ()), namespace)
        if self._keys:
            self.holdings.follow(snapshot, self._keys)
        return self._tree

    def namespaces(self, quota: int) -> tuple[str, ...]:
        """Return the namespaces of a quota and of those below it."""
        return self._below.get(quota, ())

    def held(self, quota: int, key: QuotaKey) -> int:
        """Return what the namespaces of a quota hold of a key."""
        return self.holdings.held(self.namespaces(quota), key)

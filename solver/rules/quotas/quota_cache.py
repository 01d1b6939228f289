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
    _unknown: tuple[str, ...] = ()
    """The namespaces that hold something and are not known: they may be of any quota."""
    _keys: tuple[QuotaKey, ...] = ()

    def follow(self, snapshot: Snapshot) -> QuotaTree:
        """Return the tree of a snapshot, and count what its claims hold."""
        if self._quotas != snapshot.quotas or self._namespaces is not snapshot.namespaces:
            self._quotas, self._namespaces = snapshot.quotas, snapshot.namespaces
            self._tree = QuotaTree.of(snapshot.quotas, snapshot.namespaces)
            self._keys = self._tree.keys
            below: dict[int, list[str]] = {}
            for namespace, leaf in self._tree.leaf_of.items():
                for index in self._tree.chains[leaf]:
                    below.setdefault(index, []).append(namespace)
            self._below = {index: tuple(names) for index, names in below.items()}
        if self._keys:
            self.holdings.follow(snapshot, self._keys)
            holding = {*self.holdings.units, *(namespace for namespace, _ in self.holdings.nodes)}
            self._unknown = tuple(sorted(each for each in holding if self._tree.is_unknown(each)))
        return self._tree

    def namespaces(self, quota: int) -> tuple[str, ...]:
        """Return the namespaces of a quota and of those below it."""
        return self._below.get(quota, ())

    def held(self, quota: int, key: QuotaKey) -> int:
        """Return what the namespaces of a quota hold of a key."""
        return self.holdings.held(self.namespaces(quota), key)

    def limited(self, quota: int) -> tuple[str, ...]:
        """Return the namespaces that count for a limit: those of the quota, and those that are not known."""
        return (*self.namespaces(quota), *self._unknown)

    def unknown(self, key: QuotaKey) -> tuple[str, ...]:
        """Return the namespaces that hold something of a key and are not known."""
        return tuple(each for each in self._unknown if self.holdings.held((each,), key))

    def within(self, quota: int, key: QuotaKey) -> tuple[int, int]:
        """
        Return what a quota guarantees beside the guarantees of those below it, and what is held of that.

        Of a leaf this is its guarantee, and what it holds. Of a quota with others below it, it is what these may use
        beyond their own guarantees: the rest of its guarantee, of which they hold what is beyond theirs.
        """
        children = self._tree.children(quota)
        below = [(self._tree.guarantee(each, key), self.held(each, key)) for each in children]
        rest = self._tree.guarantee(quota, key) - sum(guarantee for guarantee, _ in below)
        if not children:
            return rest, self.held(quota, key)
        return rest, sum(max(0, held - guarantee) for guarantee, held in below)

"""Holds, pods that name places, and assumptions come and go in any order: what is shown is what a simple model says."""

from collections import Counter

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from msgspec.structs import replace

from scheduler.change import Change, Kind, Transition
from scheduler.cluster import Cluster, Unit
from scheduler.cluster.holds.hold_cache import HoldCache
from solver.domain import DeviceHold, HeldPlace, LostPlace, Pod, PodMatcher, Seat, open_seats
from tests.support import builders as b
from tests.support import hold_builders as h
from tests.support.cluster_builders import gone, seen, unit

NAMES, NODES = ("h1", "h2"), ("n1", "n2")
PODS = tuple(h.owned(b.pod(name, labels={"app": "x"} if name < "q" else {}), "job") for name in ("p", "q"))
MATCHERS = (h.for_pod("p"), h.for_pod("q"), h.of_owner("job"), h.labelled({"app": "x"}), h.of_owner("other"))
KEYS = tuple(f"{key}/{index}" for key in ("<h1>", "h1-x", "h1-y", "<h2>", "h2-x", "h2-y") for index in range(2))

Shown = dict[str, tuple[HeldPlace, str]]
"""The open places by the name of their hold and their number, and each with the uid of its hold."""


def uids_of(name: str) -> tuple[str, str]:
    """The uids of a hold and of a later one of its name."""
    return f"{name}-x", f"{name}-y"


def places() -> st.SearchStrategy[HeldPlace]:
    devices = st.lists(st.sampled_from([("a", "n1"), ("b", "n1"), ("a", "n2")]), unique=True, max_size=2)
    return st.builds(
        lambda pods, node, held: h.place(pods, node, *(h.whole(*each) for each in held)),
        st.sampled_from(MATCHERS),
        st.sampled_from(NODES),
        devices,
    )


SPECS = st.fixed_dictionaries(
    {uid: st.lists(places(), min_size=1, max_size=2) for name in NAMES for uid in uids_of(name)}
)
"""The places of holds by uid: a spec never changes."""
NUMBERS = st.lists(st.integers(0, 1), unique=True)


class Model:
    """What is known, without any index."""

    def __init__(self) -> None:
        self.observed: dict[str, DeviceHold] = {}
        self.made: dict[str, DeviceHold] = {}
        self.lost: dict[str, str] = {}
        self.bound: set[str] = set()

    def present(self) -> dict[str, DeviceHold]:
        return {**self.made, **self.observed}

    def remember(self, cluster: Cluster) -> None:
        """Forget what was known of holds that have ended; remember the places that pods are seen to use."""
        all_places = {Seat(each, place).id: place for each in self.present().values() for place in each.places}
        self.lost = {key: message for key, message in self.lost.items() if key in all_places}
        named = ((pod.place, pod) for pod in cluster.store.assumed_pods.values() if is_seen(cluster, pod))
        used = {key for key, pod in named if key in all_places and all_places[key].pods.selects(pod)}
        self.bound = {each for each in self.bound if each in all_places} | used

    def shown(self, cluster: Cluster) -> tuple[DeviceHold, ...]:
        return tuple(self._overlaid(each, cluster) for _, each in sorted(self.present().items()))

    def _overlaid(self, hold: DeviceHold, cluster: Cluster) -> DeviceHold:
        pods = list(cluster.store.assumed_pods.values())
        used, lost = set(hold.used), set(hold.lost)
        for place in hold.places:
            key = Seat(hold, place).id
            if key in self.bound or any(pod.place == key and place.pods.selects(pod) for pod in pods):
                used.add(place.index)
            if key in self.lost and place.index not in {each.place for each in hold.lost}:
                lost.add(LostPlace(place.index, self.lost[key]))
        return replace(hold, used=tuple(sorted(used)), lost=tuple(sorted(lost)))


def is_seen(cluster: Cluster, pod: Pod) -> bool:
    observed = cluster.store.pods.get(pod.id)
    return observed is not None and bool(observed.node_name)


class HoldChanges(RuleBasedStateMachine):
    """A cluster, the worker's replica of it, and the model."""

    def __init__(self) -> None:
        super().__init__()
        self.cluster, self.replica, self.model = Cluster(), Cluster(), Model()
        self.units: list[Unit] = []
        self.specs: dict[str, tuple[HeldPlace, ...]] = {}
        for name in NODES:
            self.change(seen(b.node(name)))

    def change(self, change: Change) -> None:
        before = self.open()
        self.follow(before, self.cluster.apply(change))
        self.replica.apply(change)

    def open(self) -> Shown:
        return {
            f"{seat.hold.name}/{seat.place.index}": (seat.place, seat.hold.uid)
            for seat in open_seats(self.cluster.holds.values())
        }

    def follow(self, before: Shown, transitions: tuple[Transition, ...]) -> None:
        """Each place closes once; a hold keeps its places when its uid becomes known."""
        self.model.remember(self.cluster)
        after = self.open()

        def stays(key: str) -> bool:
            (place, uid), (now, now_uid) = before[key], after.get(key, (None, ""))
            return place == now and (uid == now_uid or not uid)

        closed = Counter((key, place) for key, (place, _) in before.items() if not stays(key))
        told = (seat for each in transitions for seat in each.closed)
        assert Counter((f"{seat.hold.name}/{seat.place.index}", seat.place) for seat in told) == closed

    @initialize(specs=SPECS)
    def specs_are(self, specs: dict[str, list[HeldPlace]]) -> None:
        self.specs = {uid: h.hold("", *each).places for uid, each in specs.items()}

    def hold(self, name: str, uid: str) -> DeviceHold:
        return replace(h.hold(name), uid=uid, places=self.specs[uid])

    @rule(name=st.sampled_from(NAMES), number=st.integers(0, 1), used=NUMBERS, lost=NUMBERS, version=st.integers(1, 3))
    def watch_shows(self, name: str, number: int, used: list[int], lost: list[int], version: int) -> None:
        found = replace(self.hold(name, uids_of(name)[number]), used=tuple(sorted(used)), resource_version=str(version))
        found = replace(found, lost=tuple(LostPlace(each, "written") for each in sorted(lost)))
        self.model.observed[name] = found
        self.model.made.pop(name, None)
        self.change(seen(found))

    @rule(name=st.sampled_from(NAMES))
    def watch_shows_gone(self, name: str) -> None:
        self.model.observed.pop(name, None)
        self.change(gone(h.hold(name)))

    @rule()
    def relist(self) -> None:
        for each in tuple(self.model.observed.values()):
            assert self.cluster.apply(seen(each)) == ()
            self.replica.apply(seen(each))

    @rule(name=st.sampled_from(NAMES))
    def make(self, name: str) -> None:
        """The leader begins to make a hold: its uid is not known yet."""
        if name not in self.model.made:
            self.made(replace(self.hold(name, uids_of(name)[0]), uid=""))

    @rule(name=st.sampled_from(NAMES), number=st.integers(0, 1))
    def is_stored(self, name: str, number: int) -> None:
        """The API server answers; a hold that a leader before has stored under the name may have other places."""
        if name in self.model.made:
            self.made(self.hold(name, uids_of(name)[number]))

    def made(self, hold: DeviceHold) -> None:
        before = self.open()
        if hold.name not in self.model.observed:
            self.model.made[hold.name] = hold
        self.follow(before, self.cluster.holds.make(hold))

    @rule(name=st.sampled_from(NAMES))
    def give_up(self, name: str) -> None:
        before = self.open()
        self.model.made.pop(name, None)
        self.follow(before, self.cluster.holds.forget(name))

    @rule(key=st.sampled_from(KEYS))
    def lose(self, key: str) -> None:
        before = self.open()
        if any(Seat(each, place).id == key for each in self.model.present().values() for place in each.places):
            self.model.lost[key] = "taken"
            self.follow(before, self.cluster.holds.lose(key, "taken"))

    @rule(pod=st.sampled_from(PODS), node=st.sampled_from(("", *NODES)), place=st.sampled_from(("", *KEYS)))
    def pod_is_seen(self, pod: Pod, node: str, place: str) -> None:
        self.change(seen(replace(pod, node_name=node, place=place)))

    @rule(pod=st.sampled_from(PODS))
    def pod_ends(self, pod: Pod) -> None:
        self.change(gone(pod))

    @rule(pod=st.sampled_from(PODS), node=st.sampled_from(NODES), place=st.sampled_from(("", *KEYS)))
    def assume(self, pod: Pod, node: str, place: str) -> None:
        found = self.cluster.observed_pod(pod.id)
        if found is None or found.node_name or any(pod.id in {p.pod for p in u.placements} for u in self.units):
            return
        self.units.append(unit(replace(b.placement(pod, node), place=place)))
        before = self.open()
        self.follow(before, self.cluster.assume(self.units[-1]))

    @rule()
    def forget(self) -> None:
        if self.units:
            before = self.open()
            self.follow(before, self.cluster.forget(self.units.pop()))

    @rule(name=st.sampled_from(NAMES))
    def restore(self, name: str) -> None:
        """A change on which `apply` raised is undone."""
        before = self.open()
        self.cluster.reindex(Kind.HOLDS, name, self.model.observed.get(name))
        assert self.open() == before

    @invariant()
    def holds_are_those_of_the_model(self) -> None:
        shown = self.cluster.holds.values()
        assert shown == self.model.shown(self.cluster)
        assert self.cluster.holds.values() is shown
        assert len(self.cluster.holds) == len(shown)

    @invariant()
    def indexes_are_what_a_scan_finds(self) -> None:
        assert_indexed(self.cluster.holds)

    @invariant()
    def the_replica_shows_the_same(self) -> None:
        snapshot = self.replica.snapshot(self.cluster.assumptions())
        assert snapshot.holds == self.cluster.holds.values()
        assert_indexed(self.replica.holds)

    @invariant()
    def nothing_is_kept_of_what_has_ended(self) -> None:
        assumed = self.cluster.holds.export()
        keys = {Seat(each, place).id for each in self.cluster.holds.values() for place in each.places}
        assert {*assumed.used, *(key for key, _ in assumed.lost)} <= keys
        assert {each.name: each for each in assumed.made} == self.model.made

    @invariant()
    def what_is_unwritten_is_what_the_status_lacks(self) -> None:
        for name, observed in self.model.observed.items():
            shown = self.cluster.holds.get(name)
            assert shown is not None
            unwritten = self.cluster.holds.unwritten(name)
            known = {each.place for each in observed.lost}
            bound = {each.index for each in observed.places if Seat(observed, each).id in self.model.bound}
            new = (bound - {*observed.used}) | {each.place for each in shown.lost if each.place not in known}
            assert (unwritten is None) == (new <= {*observed.used, *known})
            if unwritten is not None:
                assert set(unwritten.used) == bound | {*observed.used}
                assert unwritten.lost == shown.lost


def assert_indexed(cache: HoldCache) -> None:
    seats = {seat.id: seat.place for seat in open_seats(cache.values())}
    assert set(cache.nodes) == {place.node for place in seats.values()}
    for name in NODES:
        on = {key: place for key, place in seats.items() if place.node == name}
        assert {seat.id: seat.place for seat in cache.seats_on(name)} == on
    pools = {each.device.pool_id for place in seats.values() for each in place.devices}
    every = {b.result("r", "a", name).device.pool_id for name in NODES} | pools
    for pool in every:
        in_pool = {key for key, place in seats.items() if any(each.device.pool_id == pool for each in place.devices)}
        assert sorted(seat.id for seat in cache.seats_with((pool,))) == sorted(in_pool)
        assert cache.has_seats_with(pool) == bool(in_pool)
    assert sorted(seat.id for seat in cache.seats_with(every)) == sorted(key for key in seats if seats[key].devices)
    for device in {each.device for place in seats.values() for each in place.devices}:
        having = {key for key, place in seats.items() if any(each.device == device for each in place.devices)}
        assert sorted(seat.id for seat in cache.seats_with((device,))) == sorted(having)
        assert not cache.has_seats_with(device._replace(device="free"))
    for pod in (*PODS, b.pod("r", labels={"app": "x"}), b.pod("r"), h.owned(b.pod("r"), "other")):
        assert cache.has_seat_for(pod) == any(place.pods.selects(pod) for place in seats.values())
        alone = sorted(key for key, place in seats.items() if place.pods.pod_uid == pod.uid)
        assert sorted(seat.id for seat in cache.seats_of(pod.uid)) == alone


TestHoldChanges = HoldChanges.TestCase
TestHoldChanges.settings = settings(max_examples=60, stateful_step_count=25)


def test_a_matcher_that_selects_nothing_is_no_seat() -> None:
    cache = HoldCache()
    cache.make(h.hold("h1", h.place(PodMatcher(namespace=b.NAMESPACE), "n1")))
    assert not any(map(cache.has_seat_for, PODS))

"""What a transition tells pods that wait: what frees or opens nothing is left out."""

import msgspec

from scheduler.change import Transition
from scheduler.cluster.nominations import is_void
from scheduler.cluster.object_store import ObjectStore
from solver.domain import Pod, ResourceSlice


def told(store: ObjectStore, transition: Transition) -> Transition | None:
    """
    Return what a transition tells; None where it tells nothing.

    A void nomination reserved nothing, so its end frees nothing. Devices of a pool that is not complete cannot be used
    yet; but what they take of their nodes may change, where they do.
    """
    before, after = transition.before, transition.after
    if isinstance(before, Pod) and (name := before.nominated_node_name) and is_void(before, store.nodes.get(name)):
        return msgspec.structs.replace(transition, before=msgspec.structs.replace(before, nominated_node_name=""))
    if isinstance(after, ResourceSlice) and store.slice_index.awaits_others(after):
        both = (before, after) if isinstance(before, ResourceSlice) else (after,)
        if not any(device.takes_node_resources for each in both for device in each.devices):
            return None
    return transition

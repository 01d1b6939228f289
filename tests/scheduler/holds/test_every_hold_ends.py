"""Whatever fails, and whoever leads: once all deadlines have passed nothing is held, stored or remembered."""

import asyncio
import contextlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from scheduler.holds.hold_requests import HoldRefused
from scheduler.kube.errors import AnswerLost, Forbidden, KubeError, ServerError
from tests.support import builders as b
from tests.support import hold_builders as h
from tests.support.cluster_builders import gone, seen
from tests.support.hold_stage import HoldStage, request

NAMES = ("", "h1", "h2")
NODES = ("n1", "n2")
ERRORS: tuple[KubeError | None, ...] = (None, None, AnswerLost("lost"), ServerError(500), Forbidden(403))

STEPS = st.one_of(
    st.tuples(st.just("hold"), st.sampled_from(NAMES), st.sampled_from(NODES), st.booleans()),
    st.tuples(st.just("release"), st.sampled_from(NAMES)),
    st.tuples(st.just("fails"), st.sampled_from(ERRORS), st.booleans(), st.booleans(), st.booleans()),
    st.tuples(st.just("watch"), st.booleans()),
    st.tuples(st.just("bound"), st.sampled_from(NODES), st.booleans()),
    st.tuples(st.sampled_from(("relist", "delivered", "leader", "ended", "owner", "pass", "pass"))),
)


async def carried_out(stage: HoldStage, step: tuple[object, ...]) -> None:
    match step:
        case ("hold", str(name), str(node), bool(has_two)):
            places = [h.place(h.of_owner("job"), node, f"gpu-{n}") for n in range(1 + has_two)]
            with contextlib.suppress(HoldRefused):
                await stage.keeper.hold(request(*places, name=name))
        case ("release", str(name)):
            for each in stage.cluster.holds.values():
                if each.uid and each.name.startswith(name):
                    stage.keeper.release(each.uid)
        case ("fails", error, bool(acts), bool(is_late), bool(is_away)):
            stage.server.error = error if isinstance(error, KubeError) else None
            stage.server.acts, stage.server.arrives_late, stage.server.is_away = acts, is_late, is_away
        case ("watch", bool(is_watching)):
            stage.is_watching = is_watching
            if is_watching:
                stage.show()
        case ("bound", str(node), bool(names)):
            seat = next(iter(stage.cluster.holds.seats_on(node)), None)
            pod = h.owned(b.pod(f"pod-{node}", f"pod-{node}", cpu=1), "job" if names else "other")
            stage.see(seen(b.held(f"pod-{node}", b.result("gpu", "gpu-0", node), node_name=node)))
            stage.see(seen(replace(pod, node_name=node, place=seat.id if seat is not None and names else "")))
        case _:
            await happened(stage, str(step[0]))


async def happened(stage: HoldStage, what: str) -> None:
    match what:
        case "relist":
            stage.relist()
        case "delivered":
            stage.server.deliver()
        case "leader":
            await stage.change_leader()
        case "ended":
            for node in NODES:
                stage.see(gone(b.pod(f"pod-{node}")))
                stage.see(gone(b.claim(f"pod-{node}")))
        case "owner":
            stage.server.owners.clear()
        case _:
            await stage.passes(3)


@settings(max_examples=60)
@given(steps=st.lists(STEPS, max_size=25))
def test_every_hold_ends(steps: list[tuple[object, ...]]) -> None:
    async def run() -> None:
        with pytest.MonkeyPatch.context() as monkeypatch:
            stage = await HoldStage(monkeypatch).lead()
            for step in steps:
                await carried_out(stage, step)
            await carried_out(stage, ("fails", None, False, False, False))
            stage.server.deliver()
            await carried_out(stage, ("watch", True))
            await stage.passes(200)
            assert stage.server.stored == {}
            assert stage.cluster.holds.values() == ()
            assert not any(stage.cluster.holds.seats_on(node) for node in NODES)
            await stage.end()

    asyncio.run(run())

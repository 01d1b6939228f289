"""A pod whose claim does not appear reads whether its template is missing."""

from typing import cast

import pytest
from msgspec.structs import replace

from scheduler.kube.client import Client
from scheduler.kube.errors import ApiError, KubeError, NotFound
from scheduler.status.awaited_templates import AwaitedTemplates
from solver import missing_claims
from solver.domain import Pod, PodClaim, Reason, ReasonCode
from tests.support.builders import pod

PATH = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaimtemplates/"
NONE = (
    "ResourceClaimTemplate gone does not exist; the pod waits for it (spec.resourceClaims[1].resourceClaimTemplateName)"
)


class Server:
    """In place of the client: templates that exist, and an error for the others."""

    def __init__(self, *names: str, error: KubeError | None = None) -> None:
        self.names = names
        self.error = error or NotFound(404, "NotFound", "not found")
        self.read: list[str] = []

    async def request(self, method: str, path: str) -> bytes:
        assert method == "GET"
        self.read.append(path.removeprefix(PATH))
        if self.read[-1] in self.names:
            return b"{}"
        raise self.error


def of_templates(*names: str) -> Pod:
    entries = tuple(PodClaim(entry=f"e{number}", template=name) for number, name in enumerate(names))
    return replace(pod("p"), claims=entries)


async def messages(server: Server, asked: Pod) -> list[str]:
    templates = AwaitedTemplates(cast("Client", server), lambda: 0.0)
    found = await templates.name_missing(asked, missing_claims(asked, lambda _: False))
    return [each.message for each in found]


async def test_a_template_that_does_not_exist_is_named() -> None:
    assert await messages(Server("there"), of_templates("there", "gone", "gone")) == [
        "the claim of entry e0, from ResourceClaimTemplate there, does not exist yet; the pod waits for it",
        NONE,
    ]


async def test_a_named_claim_has_no_template_to_read() -> None:
    server = Server()
    assert await messages(server, pod("p", "c")) == [
        "claim c does not exist yet; the pod waits for it (spec.resourceClaims[0].resourceClaimName)"
    ]
    assert server.read == []


@pytest.mark.parametrize("error", [ApiError(403, "Forbidden", "no"), KubeError("no answer")])
async def test_what_cannot_be_read_is_not_called_missing(error: KubeError) -> None:
    (message,) = await messages(Server(error=error), of_templates("gone"))
    assert "does not exist yet" in message


async def test_a_template_is_read_once_for_many_pods_and_again_after_a_while() -> None:
    server, now = Server(), [0.0]
    templates = AwaitedTemplates(cast("Client", server), lambda: now[0])
    late = (Reason(code=ReasonCode.CLAIM_MISSING, message="late"),)
    for seconds in (0.0, 9.0, 10.0):
        now[0] = seconds
        await templates.name_missing(of_templates("gone"), late)

    assert server.read == ["gone", "gone"]

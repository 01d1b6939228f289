"""Admin access to devices needs a label on the namespace (KEP-5018): claims and templates without it are refused."""

from collections.abc import Callable, Iterable, Mapping

from scheduler.change import Change, Kind
from scheduler.simulation.manifests import decoding
from scheduler.simulation.manifests.decoding import decoded
from scheduler.simulation.manifests.documents import Document
from scheduler.simulation.manifests.fields import Body, FieldError, metadata, text
from solver.domain import Namespace


def namespaces(live: Iterable[Change], documents: Iterable[Document]) -> dict[str, Namespace]:
    """Return the namespaces of a cluster and of manifests by name."""
    written = (decoded(Kind.NAMESPACES, document)[0] for document in documents)
    changes = (*live, *(change for change in written if change is not None))
    return {change.key: change.value for change in changes if isinstance(change.value, Namespace)}


def refusal(
    body: Body, claim_spec: Body, where: str, known: Mapping[str, Namespace], warn: Callable[[str], None]
) -> FieldError | None:
    """Return why the spec of a claim (at the path `where`) is refused; a namespace that is not known is a warning."""
    asked = decoding.wants_admin_access(claim_spec)
    if not asked:
        return None
    name = text(metadata(body).get("namespace"))
    wrong = decoding.objection(name, known)
    if wrong:
        return FieldError(f"{where}.{asked}", wrong)
    if name not in known:
        warn(f'adminAccess needs the label {decoding.LABEL}: "true" on namespace {name}: taken as given')
    return None

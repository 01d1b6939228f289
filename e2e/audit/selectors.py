"""Label selectors, which select pods and namespaces (meta/v1 LabelSelector)."""

from e2e.audit.reading import Json


def selects_labels(selector: Json | None, labels: dict[str, str]) -> bool:
    """Say whether a selector matches labels; an absent one selects nothing, an empty one everything."""
    if selector is None:
        return False
    wanted = selector.get("matchLabels") or {}
    return all(labels.get(key) == value for key, value in wanted.items()) and all(
        _holds(each, labels.get(each["key"])) for each in selector.get("matchExpressions") or ()
    )


def labels_of(value: Json) -> dict[str, str]:
    """Return an object's labels."""
    found: dict[str, str] = value["metadata"].get("labels") or {}
    return found


def _holds(requirement: Json, value: str | None) -> bool:
    match requirement["operator"]:
        case "In":
            return value in requirement["values"]
        case "NotIn":
            return value not in requirement["values"]
        case "Exists":
            return value is not None
        case _:
            return value is None

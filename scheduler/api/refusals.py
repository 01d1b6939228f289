"""Answers of the API that are no success: each is a `metav1.Status`, as of the API server."""

import math
from typing import Any, Final

_REASONS: Final = {
    400: "BadRequest",
    401: "Unauthorized",
    403: "Forbidden",
    429: "TooManyRequests",
    500: "InternalError",
    503: "ServiceUnavailable",
}


class Refusal(Exception):  # noqa: N818 - it is no error of ours
    """An answer that is no success."""

    def __init__(self, status: int, message: str, *, reason: str = "", retry_after: float = 0.0) -> None:
        super().__init__(message)
        self.status = status
        self.reason = reason or _REASONS[status]
        self.retry_after = retry_after

    @property
    def document(self) -> dict[str, Any]:
        """The body: a `metav1.Status`."""
        return {
            "apiVersion": "v1",
            "kind": "Status",
            "status": "Failure",
            "code": self.status,
            "reason": self.reason,
            "message": str(self),
        }

    @property
    def headers(self) -> dict[str, str]:
        """When the caller may ask again, where that is known."""
        return {"Retry-After": str(math.ceil(self.retry_after))} if self.retry_after else {}

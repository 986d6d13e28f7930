"""What a client is told when a request cannot be answered."""

from __future__ import annotations


class RequestError(Exception):
    """A mistake of the client, or a moment at which it cannot be served. retry_after: seconds after which it is worth
    another try."""

    def __init__(self, status: int, message: str, retry_after: int | None = None) -> None:
        super().__init__(message)
        self.status, self.message, self.retry_after = status, message, retry_after

    @property
    def headers(self) -> dict[str, str]:
        """Of the answer."""
        return {} if self.retry_after is None else {"Retry-After": str(self.retry_after)}

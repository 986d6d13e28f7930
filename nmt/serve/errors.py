"""The error that a client gets when a request cannot be answered."""

from __future__ import annotations


class RequestError(Exception):
    """A client's mistake, or a temporary overload of the server. `retry_after`: seconds after which to try again."""

    def __init__(self, status: int, message: str, retry_after: int | None = None) -> None:
        super().__init__(message)
        self.status, self.message, self.retry_after = status, message, retry_after

    @property
    def headers(self) -> dict[str, str]:
        """Return the HTTP headers of the answer."""
        return {} if self.retry_after is None else {"Retry-After": str(self.retry_after)}

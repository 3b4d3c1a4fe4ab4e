"""Why a request is not done: each reason with the HTTP status that tells it."""

import math


class Refusal(Exception):
    """A request that is not done. Its message is for the caller: what is wrong, and what to do."""

    status = 400

    def __init__(self, message: str, *, retry_after_s: float | None = None) -> None:
        """retry_after_s: when it may help to ask again."""
        super().__init__(message)
        self.retry_after_s = None if retry_after_s is None else max(1, math.ceil(retry_after_s))


class BadRequest(Refusal):
    """The request itself is wrong: an unknown language, a value out of range."""


class Forbidden(Refusal):
    """The key is missing or unknown, or the service does not do this."""

    status = 403


class NotFound(Refusal):
    """There is no such glossary, document or download, or not for this caller."""

    status = 404


class TooSlow(Refusal):
    """The request did not arrive in time."""

    status = 408


class TooLarge(Refusal):
    """A text, file or glossary is longer than its limit."""

    status = 413


class WrongHost(Refusal):
    """The request names a host that this service is not."""

    status = 421


class TooManyRequests(Refusal):
    """The caller has used up its requests for now."""

    status = 429


class Busy(Refusal):
    """The queue is full, or no worker is ready."""

    status = 503


class Unready(Refusal):
    """A model's folder is being replaced, with no known end."""

    status = 503


class EndsWorkers(Refusal):
    """Workers die of this text. Clients send again what is answered by 5xx, so the status is another one."""


class TooLate(Refusal):
    """The deadline passed before the work was done."""

    status = 504


class Fault(Refusal):
    """The service is at fault; its log says how."""

    status = 500

"""The reasons to refuse a request, each with its HTTP status."""

import math
import re

# A clause that advises an option of a command: at the end of a sentence, or before another piece of advice.
_OPTION = re.compile(r"(?<=[:;] )[^;,:]*--[a-z][^;,:]*, or |(?:, or|;) [^;,:]*--[a-z][^;,:]*(?![^;,:])(?!, or )")


def without_options(message: str) -> str:
    """Return the message of an error without the advice to use options, which clients of the service do not have."""
    return _OPTION.sub("", message)


class Refusal(Exception):
    """A refused request. Its message tells the caller what is wrong and what to do."""

    status = 400

    def __init__(self, message: str, *, retry_after_s: float | None = None) -> None:
        """retry_after_s: seconds after which it may help to try again."""
        super().__init__(message)
        self.retry_after_s = None if retry_after_s is None else max(1, math.ceil(retry_after_s))


class BadRequest(Refusal):
    """The request itself is wrong: an unknown language, a value out of range."""


class BadText(BadRequest):
    """A text cannot be read or translated."""


class Forbidden(Refusal):
    """The key is missing or unknown, or this service does not offer the feature."""

    status = 403


class NotFound(Refusal):
    """The glossary, document or download does not exist, or belongs to another caller."""

    status = 404


class TooSlow(Refusal):
    """The request did not arrive in time."""

    status = 408


class TooLarge(Refusal):
    """A text, file or glossary exceeds its limit."""

    status = 413


class WrongHost(Refusal):
    """The request names a host that this service does not accept."""

    status = 421


class TooManyRequests(Refusal):
    """The caller has used up its requests or space for now."""

    status = 429


class Busy(Refusal):
    """The queue is full, or no worker is ready."""

    status = 503


class Unready(Refusal):
    """A model's folder is being replaced, which may take any time."""

    status = 503


class EndsWorkers(Refusal):
    """The text crashes workers. The status is not 5xx, because clients would send the request again."""


class TooLate(Refusal):
    """The deadline passed before the work was done."""

    status = 504


class Fault(Refusal):
    """The service failed; its log says why."""

    status = 500

"""Who may ask, and how often: API keys, kept as hashes, and a limit on the requests of each caller."""

import time
from collections import OrderedDict
from dataclasses import dataclass

from mtkit.config.serving import ServeConfig
from mtkit.serving.refusals import TooManyRequests
from mtkit.serving.service import Caller

_MOST_CALLERS = 10_000  # whose requests are counted; beyond them, those seen longest ago are forgotten


@dataclass
class _Bucket:
    """Requests that a caller has left; they come back with time."""

    n_left: float
    at: float


class Gate:
    """Lets callers in."""

    def __init__(self, cfg: ServeConfig) -> None:
        self._per_minute = cfg.limits.requests_per_minute
        self._buckets: OrderedDict[str, _Bucket] = OrderedDict()

    def admit(self, key: str | None, address: str) -> Caller:
        """Return the caller with this key, or without one from this address.

        Raises Forbidden for an unknown key, or none where one is needed; TooManyRequests if the caller must wait.
        """
        caller = Caller()
        self._count(f"key {caller.name}" if caller.name else address)
        return caller

    def _count(self, name: str) -> None:
        if self._per_minute is None:
            return
        now = time.monotonic()
        bucket = self._buckets.pop(name, None) or _Bucket(self._per_minute, now)
        self._buckets[name] = bucket
        if len(self._buckets) > _MOST_CALLERS:
            self._buckets.popitem(last=False)
        bucket.n_left = min(self._per_minute, bucket.n_left + (now - bucket.at) * self._per_minute / 60)
        bucket.at = now
        if bucket.n_left < 1:
            wait_s = (1 - bucket.n_left) * 60 / self._per_minute
            raise TooManyRequests(
                f"Slowdown: {self._per_minute} requests a minute; try again in {wait_s:.0f} s", retry_after_s=wait_s
            )
        bucket.n_left -= 1

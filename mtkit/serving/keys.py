"""API keys, stored as hashes, and the limit on the requests of each caller."""

import time
from collections import OrderedDict
from dataclasses import dataclass
from ipaddress import IPv6Address, ip_address, ip_network

from mtkit.config.serving import ServeConfig
from mtkit.serving.caller import Caller
from mtkit.serving.records.key_file import Keys
from mtkit.serving.refusals import Forbidden, TooManyRequests

_MOST_CALLERS = 10_000  # whose requests are counted; beyond them, those seen longest ago are forgotten
_PREFIX_OF_A_CUSTOMER = 64  # bits of an IPv6 address; all others are his to choose


@dataclass
class _Bucket:
    """The number of requests that a caller has left, which refills with time."""

    n_left: float
    at: float


class Gate:
    """Identifies callers and enforces their limits."""

    def __init__(self, cfg: ServeConfig) -> None:
        """Raises ConfigError if the key file cannot be used."""
        self._keys = None if cfg.keys.file is None else Keys(cfg.keys.file)
        self._is_key_required = cfg.keys.required
        self._per_minute = cfg.limits.requests_per_minute
        self._buckets: OrderedDict[str, _Bucket] = OrderedDict()

    def admit(self, key: str | None, address: str) -> Caller:
        """Return the caller with this key or, without a key, from this address.

        A service without keys ignores the key, because some clients always send one.
        Raises Forbidden for an unknown key, or none where one is needed; TooManyRequests if the caller must wait.
        """
        entry = self._keys.find(key) if self._keys is not None and key else None
        if entry is not None:
            self._count(f"key {entry.name}", entry.requests_per_minute or self._per_minute)
            return Caller(entry.name, entry.max_chars)
        self._count(_neighbourhood(address), self._per_minute)  # guesses count, too
        if self._keys is not None and key:
            raise Forbidden("Invalid API key")
        if self._is_key_required:
            raise Forbidden("this service needs an API key; ask its operator for one")
        return Caller()

    def is_key_of(self, name: str, key: str) -> bool:
        """Return whether the key belongs to this name."""
        entry = None if self._keys is None else self._keys.find(key)
        return entry is not None and entry.name == name

    def _count(self, name: str, per_minute: int | None) -> None:
        if per_minute is None:
            return
        now = time.monotonic()
        bucket = self._buckets.pop(name, None) or _Bucket(per_minute, now)
        self._buckets[name] = bucket
        if len(self._buckets) > _MOST_CALLERS:
            self._buckets.popitem(last=False)
        bucket.n_left = min(per_minute, bucket.n_left + (now - bucket.at) * per_minute / 60)
        bucket.at = now
        if bucket.n_left < 1:
            wait_s = (1 - bucket.n_left) * 60 / per_minute
            raise TooManyRequests(
                f"Slowdown: {per_minute} requests a minute; try again in {max(1, wait_s):.0f} s", retry_after_s=wait_s
            )
        bucket.n_left -= 1


def _neighbourhood(address: str) -> str:
    """Return the addresses that count as one caller: an IPv4 address, or a network of IPv6."""
    if ":" not in address:
        return address
    try:
        parsed = ip_address(address)
    except ValueError:
        return address
    if isinstance(parsed, IPv6Address) and parsed.ipv4_mapped is None:
        return str(ip_network((parsed.packed, _PREFIX_OF_A_CUSTOMER), strict=False))
    return address

"""Compare two trees of settings."""

from collections.abc import Iterator, Mapping
from typing import Any


def differences(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[tuple[str, Any, Any]]:
    """Return each key with different values, such as "model.d_model", and both values; None if one is missing."""
    old_values, new_values = dict(_flat(old)), dict(_flat(new))
    return [
        (key, old_values.get(key), new_values.get(key))
        for key in {**old_values, **new_values}
        if old_values.get(key) != new_values.get(key)
    ]


def _flat(values: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in values.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{prefix}{key}.")
        else:
            yield prefix + key, value

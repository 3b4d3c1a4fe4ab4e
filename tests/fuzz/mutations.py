"""Hostile bytes, text and values, drawn from a seed."""

import json
import random
from pathlib import Path
from typing import Any

from mtkit.files import parse_json, sha256_file, write_text

NASTY_WORDS = [
    *("", " ", "\t", "\r", "\x00", "\x1b[2J", "\x85", "\u2028", "\u202e", "\u200b", "\ufeff", "\ufffd", "\U0010ffff"),
    *("</s>", "<s>", "<pad>", "<unk>", "<start>", "<end>", "<0x0A>", "<2de>", "\u2581", "\u2581" * 50, "e\u0301" * 40),
    *(
        "<script>alert(1)</script>",
        "&amp;&lt;",
        "=cmd|' /C calc'!A0",
        "../../../etc/passwd",
        "%s%n",
        "{{7*7}}",
        "$(id)",
    ),
    *(
        "\u0646\u0635",
        "\u65e5\u672c\u8a9e",
        "\U0001f469\u200d\U0001f467",
        "a\u0300\u0301" * 30,
        "9" * 400,
        "-1e999",
        "NaN",
    ),
    *("a" * 3000, "ha " * 700, ". " * 600, "\u4e2d" * 900),
]
NASTY_VALUES: list[Any] = [
    *(None, True, False, 0, -1, 1, 2**31, 2**63, 2**64, 10**24, 10**400, -(10**24)),
    *(0.0, -0.0, 1e-320, 1e308, float("inf"), float("-inf"), float("nan"), 0.5),
    *("", " ", "auto", "null", "\x00", "~nobody/x", "/dev/null", "/etc/passwd", "a" * 5000, "<2de>", "10**9", "\u202e"),
    *([], [[]], [None], {}, {"": {}}, [1, "a", None], {"a": {"b": {"c": []}}}, [0.9, 0.98], [2.0, -1]),
]
_NASTY_BYTES = [
    b"\x00",
    b"\xff",
    b"\x80",
    b"\xf4\x90\x80\x80",
    b"\xed\xa0\x80",
    b"\n",
    b"\r",
    b'"',
    b"'",
    b"[" * 300,
    b"{",
]
_NASTY_BYTES += [
    b"&a ",
    b"*a",
    b"!!int ",
    b"? ",
    b"- ",
    b": ",
    b"#",
    b"\\U",
    b"9" * 30,
    b"\xff" * 8,
    b"\x7f\xff\xff\xff",
]


def mutated(rng: random.Random, data: bytes) -> bytes:
    """Change the bytes in one to four places: flip, cut, repeat, insert, overwrite or truncate."""
    for _ in range(rng.randint(1, 4)):
        start = rng.randrange(len(data) + 1)
        # Headers and the first keys decide most.
        start = min(start, rng.choice([start, 8, 64, 400]))
        end = min(len(data), start + rng.choice([1, 1, 4, 8, 40, 400]))
        chosen = rng.randrange(7)
        if chosen == 0 and start < len(data):
            data = data[:start] + bytes([data[start] ^ (1 << rng.randrange(8))]) + data[start + 1 :]
        elif chosen == 1:
            data = data[:start] + data[end:]
        elif chosen == 2:
            data = data[:end] + data[start:end] * rng.choice([1, 2, 50]) + data[end:]
        elif chosen == 3:
            data = data[:start] + rng.choice(_NASTY_BYTES) + data[start:]
        elif chosen == 4:
            data = data[:start] + rng.choice(_NASTY_BYTES) + data[end:]
        elif chosen == 5:
            data = data[:start]
        else:
            data = data[:start] + rng.randbytes(end - start) + data[end:]
    return data


def with_a_nasty_value(rng: random.Random, values: Any) -> Any:
    """Replace or remove one value at any depth of JSON values, or add one."""
    if rng.random() < 0.25 or not isinstance(values, dict | list) or not values:
        return rng.choice(NASTY_VALUES)
    if isinstance(values, list):
        index = rng.randrange(len(values))
        return [*values[:index], with_a_nasty_value(rng, values[index]), *values[index + 1 :]]
    key = rng.choice([*values])
    chosen = rng.random()
    if chosen < 0.1:
        return {other: value for other, value in values.items() if other != key}
    if chosen < 0.2:
        return {**values, rng.choice(["x", "", "__class__", key + key]): rng.choice(NASTY_VALUES)}
    return {**values, key: with_a_nasty_value(rng, values[key])}


def seal(folder: Path) -> None:
    """Write the checksums of a forged folder into its manifest, if that is still one."""
    path = folder / "manifest.json"
    try:
        manifest = parse_json(path.read_bytes())
        manifest["sha256"] = {name: sha256_file(folder / name) for name in manifest["sha256"]}
    except (ValueError, TypeError, KeyError, OSError):
        return
    write_text(path, json.dumps(manifest))

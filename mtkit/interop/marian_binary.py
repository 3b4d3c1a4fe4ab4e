"""Read and write Marian's binary model files (.bin): named tensors and the model's options; matrices are in int8.

The layout, all little-endian: version and number of items, 64 bits each; for each item the length of its name, its
type, the number of its dimensions and the length of its data, 64 bits each; the names, each with a NUL at its end; the
dimensions, 32 bits each; the length of a gap, 64 bits, and the gap; then the data of all items.
"""

import math
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mtkit.errors import DataError
from mtkit.interop.binary import BinaryReader
from mtkit.interop.marian_options import DESCRIPTION, as_description, read_description

_VERSION = 1
_TEXT, _FLOAT32, _INT8, _INT16 = 0x101, 0x404, 0x4101, 0x4102
_PLAIN_TYPES = {0x102: "int16", 0x104: "int32", 0x108: "int64", 0x402: "float16", 0x408: "float64"}
_PACKED, _INTGEMM = 0x0800, 0x4000  # flags of types with another memory layout
_ALIGNED = 256  # the engine needs each tensor's data at a multiple of this many bytes

Array = NDArray[np.float32]


@dataclass(frozen=True)
class MarianModel:
    """The content of a model file. Matrices are (inputs, outputs), embeddings (vocabulary, width)."""

    path: Path
    tensors: dict[str, Array]
    options: dict[str, Any]  # the YAML stored with the tensors: depth, width, tying, ...


@dataclass(frozen=True)
class _Item:
    name: str
    type: int
    shape: tuple[int, ...]
    start: int  # byte of the file at which its data begins
    size: int  # bytes of its data


def read_marian_binary(path: Path) -> MarianModel:
    """Read and dequantise a model file. Raises DataError if it is not one, is cut off, or has an unknown type."""
    reader = BinaryReader(path)
    data = reader.data
    options: dict[str, Any] = {}
    tensors: dict[str, Array] = {}
    for item in _items(reader):
        if item.name == DESCRIPTION:
            options = read_description(data[item.start : item.start + item.size], path)
        else:
            tensors[item.name] = _tensor(path, data, item)
    if not options:
        raise DataError(f"{path}: {DESCRIPTION} is missing, so the shape of the model is unknown")
    return MarianModel(path, tensors, options)


def _items(reader: BinaryReader) -> list[_Item]:
    path, data = reader.path, reader.data
    version, n_items = reader.read("QQ")
    if version != _VERSION:
        raise DataError(f"{path}: not a Marian binary model: version {version} instead of {_VERSION}")
    if n_items * 32 > len(data):
        raise DataError(f"{path}: its header gives {n_items:,} items, more than its {len(data):,} bytes can hold")
    headers = [reader.read("QQQQ") for _ in range(n_items)]
    names = [reader.bytes(name_length).rstrip(b"\0").decode("utf-8", "replace") for name_length, *_ in headers]
    shapes = [
        tuple(size for [size] in struct.iter_unpack("<i", reader.bytes(4 * n_dimensions)))
        for _, _, n_dimensions, _ in headers
    ]
    [gap] = reader.read("Q")
    reader.skip(gap)
    items = []
    for name, (_, kind, _, size), shape in zip(names, headers, shapes, strict=True):
        items.append(_Item(name, kind, shape, reader.skip(size), size))
    return items


def _tensor(path: Path, data: bytes, item: _Item) -> Array:
    n_elements = math.prod(item.shape)
    widths = {_FLOAT32: 4, _INT8: 1, _INT16: 2}
    if item.type not in widths:
        raise DataError(f"{path}: {item.name}: {_why_not(item.type)}")
    n_bytes = n_elements * widths[item.type]
    if min(item.shape, default=0) < 1 or item.size < n_bytes + (4 if item.type != _FLOAT32 else 0):
        raise DataError(f"{path}: {item.name}: {item.size} bytes of data do not hold the shape {item.shape}")
    if item.type == _FLOAT32:
        return np.frombuffer(data, "<f4", n_elements, item.start).reshape(item.shape).astype(np.float32)
    [multiplier] = struct.unpack_from("<f", data, item.start + n_bytes)
    if not (math.isfinite(multiplier) and multiplier > 0):
        raise DataError(f"{path}: {item.name}: its quantisation multiplier is {multiplier}, not a positive number")
    whole = np.frombuffer(data, "<i1" if item.type == _INT8 else "<i2", n_elements, item.start)
    values = whole.astype(np.float32) / np.float32(multiplier)
    if "Wemb" in item.name:  # also the output matrix, so already transposed
        return values.reshape(item.shape)
    return values.reshape(item.shape[::-1]).T  # transposed, but under its original shape


def _why_not(kind: int) -> str:
    remedy = "convert the model again with `marian-conv --gemm-type intgemm8` or `float32`"
    if kind & (_PACKED | _INTGEMM):
        return f"its type {kind:#06x} has a memory layout for one kind of processor; {remedy}"
    return f"its type {_PLAIN_TYPES.get(kind, f'{kind:#06x}')} is not one of float32, intgemm8, intgemm16; {remedy}"


def marian_binary(tensors: Mapping[str, Array], options: Mapping[str, Any]) -> bytes:
    """Return the content of a model file: embeddings and matrices (`is_matrix`) in int8, other tensors in float32."""
    items = [_item_of(name, tensors[name]) for name in sorted(tensors)]
    text = as_description(options)
    items.append((DESCRIPTION, _TEXT, (len(text),), text))
    names = [name.encode("utf-8") + b"\0" for name, *_ in items]
    head = struct.pack("<QQ", _VERSION, len(items))
    for name, (_, kind, shape, data) in zip(names, items, strict=True):
        head += struct.pack("<QQQQ", len(name), kind, len(shape), len(data))
    head += b"".join(names) + b"".join(struct.pack(f"<{len(shape)}i", *shape) for _, _, shape, _ in items)
    gap = -(len(head) + 8) % _ALIGNED
    return head + struct.pack("<Q", gap) + bytes(gap) + b"".join(data for *_, data in items)


def is_matrix(name: str) -> bool:
    """Return whether a parameter is multiplied, and therefore stored in int8: an embedding, ..._W or ..._Wx."""
    return name.endswith("Wemb") or name[:-1].endswith("_W") or name.endswith("_W")


def _item_of(name: str, values: Array) -> tuple[str, int, tuple[int, ...], bytes]:
    """Return name, type, shape and data; the data fills a multiple of 256 bytes."""
    if is_matrix(name):
        whole, multiplier = quantized(values)
        # Matrices are stored transposed, but an embedding is also the output matrix, used transposed.
        kind, data = _INT8, (whole if name.endswith("Wemb") else whole.T).tobytes() + struct.pack("<f", multiplier)
    else:
        kind, data = _FLOAT32, values.astype("<f4").tobytes()
    return name, kind, values.shape, data + bytes(-len(data) % _ALIGNED)


def quantized(values: Array) -> tuple[NDArray[np.int8], np.float32]:
    """Return a matrix in int8, and its multiplier, which makes the largest absolute value 127, as in `marian-conv`."""
    multiplier = np.float32(127.0) / np.maximum(np.abs(values).max(), np.float32(1e-30))
    return np.clip(np.rint(values * multiplier), -127, 127).astype(np.int8), multiplier

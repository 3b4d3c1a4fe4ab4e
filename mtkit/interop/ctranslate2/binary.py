"""Read CTranslate2's model.bin: the variables by name, as float32 whatever their stored type.

The layout, all little-endian: version, 32 bits; the name of the specification; its revision and the number of
variables, 32 bits each. For each variable its name, the number of its dimensions, 8 bits, the dimensions, 32 bits each,
its type, 8 bits, the length of its data, 32 bits, and the data. Then the number of aliases, 32 bits, and for each its
name and the name of a variable. A name is its length, 16 bits, and as many bytes, of which the last is NUL.
"""

import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from mtkit.errors import DataError
from mtkit.interop.binary import BinaryReader

_VERSIONS = range(4, 7)  # older ones do not store the type of a variable
_SPECIFICATION = "TransformerSpec"
_SCALE = "_scale"
_TYPES = {  # by number: the name, and numpy's type of the stored numbers
    0: ("float32", "<f4"),
    1: ("int8", "<i1"),
    2: ("int16", "<i2"),
    3: ("int32", "<i4"),
    4: ("float16", "<f2"),
    5: ("bfloat16", "<u2"),  # the upper half of a float32
}

Array = NDArray[np.float32]


@dataclass(frozen=True)
class Variables:
    """The content of a model.bin."""

    path: Path
    arrays: dict[str, Array]  # matrices are (outputs, inputs), embeddings (vocabulary, width)
    numbers: dict[str, float]  # settings, such as encoder/num_heads
    flags: frozenset[str]  # those of numbers that are stored in 8 bits, such as true (1) and false (0)
    quantization: str  # the stored type of most weights


@dataclass(frozen=True)
class _Stored:
    type: str
    values: NDArray[np.generic]


def read_ctranslate2_binary(path: Path) -> Variables:
    """Read and dequantise a model file.

    Raises DataError, naming the variable, if the file is not a Transformer of CTranslate2, is cut off or damaged.
    """
    reader = BinaryReader(path)
    [version] = reader.read("I")
    if version not in _VERSIONS:
        raise DataError(
            f"{path}: not a model of CTranslate2, or of a version that mtkit does not read: version {version} instead "
            f"of {_VERSIONS[0]} to {_VERSIONS[-1]}; convert the original model again with CTranslate2 4"
        )
    if (specification := _name(reader)) != _SPECIFICATION:
        raise DataError(f"{path}: its kind of model is {specification!r}; mtkit reads only {_SPECIFICATION}")
    _, n_variables = reader.read("II")
    stored: dict[str, _Stored] = {}
    for _ in range(n_variables):
        name = _name(reader)
        if name in stored:
            raise DataError(f"{path}: {name} occurs twice: the file is damaged")
        stored[name] = _variable(reader, name)
    [n_aliases] = reader.read("I")
    for _ in range(n_aliases):
        alias, name = _name(reader), _name(reader)
        if alias in stored or name not in stored:
            raise DataError(f"{path}: the alias {alias} of {name}: the file is damaged")
        stored[alias] = stored[name]
        if f"{name}{_SCALE}" in stored:
            stored[f"{alias}{_SCALE}"] = stored[f"{name}{_SCALE}"]
    if reader.offset != len(reader.data):
        raise DataError(f"{path}: {len(reader.data) - reader.offset:,} bytes too long: the file is damaged")
    return _dequantised(path, stored)


def _name(reader: BinaryReader) -> str:
    [length] = reader.read("H")
    text = reader.bytes(length)
    try:
        if not text.endswith(b"\0"):
            raise ValueError
        return text[:-1].decode("utf-8")
    except ValueError:
        raise DataError(
            f"{reader.path}: {text[:40]!r} is not a name: the file is damaged, or of another kind"
        ) from None


def _variable(reader: BinaryReader, name: str) -> _Stored:
    [n_dimensions] = reader.read("B")
    shape = reader.read(f"{n_dimensions}I")
    type_id, n_bytes = reader.read("BI")
    if type_id not in _TYPES:
        raise DataError(f"{reader.path}: {name}: unknown type {type_id}: the file is damaged, or newer than mtkit")
    kind, dtype = _TYPES[type_id]
    n_elements = math.prod(shape)
    if n_elements == 0 or n_bytes != n_elements * np.dtype(dtype).itemsize:
        of_shape = " x ".join(map(str, shape[:8])) or "one number"
        raise DataError(
            f"{reader.path}: {name}: {n_bytes:,} bytes of {kind} do not hold the shape {of_shape}: the file is damaged"
        )
    values = np.frombuffer(reader.data, dtype, n_elements, reader.skip(n_bytes))
    return _Stored(kind, values.reshape(shape))


def _dequantised(path: Path, stored: dict[str, _Stored]) -> Variables:
    """Return float32 arrays, and the settings."""
    arrays: dict[str, Array] = {}
    numbers: dict[str, float] = {}
    sizes: dict[str, int] = {}
    dequantised: dict[int, Array] = {}  # an alias is the same object as its variable
    for name, one in stored.items():
        if name.endswith(_SCALE) and name.removesuffix(_SCALE) in stored:
            continue
        if one.values.ndim == 0:
            numbers[name] = float(one.values.item())
            if not math.isfinite(numbers[name]):
                raise DataError(f"{path}: {name}: {numbers[name]} is not a number: the file is damaged")
            continue
        if id(one) not in dequantised:
            dequantised[id(one)] = _float32(path, name, one, stored.get(f"{name}{_SCALE}"))
            sizes[one.type] = sizes.get(one.type, 0) + one.values.size
        arrays[name] = dequantised[id(one)]
    if not arrays:
        raise DataError(f"{path}: contains no weights")
    flags = frozenset(name for name in numbers if stored[name].type == "int8")
    return Variables(path, arrays, numbers, flags, max(sizes, key=lambda kind: sizes[kind]))


def _float32(path: Path, name: str, one: _Stored, scale: _Stored | None) -> Array:
    if one.type == "bfloat16":
        return (one.values.astype(np.uint32) << 16).view(np.float32)
    values = one.values.astype(np.float32)
    if one.type not in ("int8", "int16"):
        return values
    if scale is None:
        raise DataError(f"{path}: {name}: {one.type} without {name}{_SCALE}: the file is damaged")
    divisor = scale.values.astype(np.float32)
    fits = divisor.ndim == 0 or divisor.shape == values.shape[:1]
    if scale.type != "float32" or not fits or not (np.isfinite(divisor) & (divisor > 0)).all():
        raise DataError(f"{path}: {name}{_SCALE}: not a positive number for each row of {name}: the file is damaged")
    of_rows = divisor if divisor.ndim == 0 else divisor.reshape(-1, *[1] * (values.ndim - 1))
    dequantised: Array = np.divide(values, of_rows, dtype=np.float32)
    return dequantised

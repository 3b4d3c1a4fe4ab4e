"""Values from other systems' files: sections of the config and numbers out, or a message that names the file."""

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from mtkit.errors import DataError

_Section = TypeVar("_Section", bound=BaseModel)


def checked(section: type[_Section], values: Mapping[str, Any], path: Path | str) -> _Section:
    """A section of the config. Raises DataError, naming the file that the values come from, if they cannot be."""
    try:
        return section.model_validate(values)
    except ValidationError as error:
        problems = [
            f"{'.'.join(map(str, found['loc']))}={found['input']}: {found['msg']}" if found["loc"] else found["msg"]
            for found in error.errors(include_url=False)
        ]
        raise DataError(f"{path}: {'; '.join(problems).replace('Value error, ', '')}") from error


def number(options: Mapping[str, Any], key: str, default: float, path: Path | str) -> float:
    """The value of the key, the default if there is none. Raises DataError if it is no finite number."""
    value = default if options.get(key) is None else options[key]
    try:
        found = float(value)
    except (TypeError, ValueError, OverflowError):
        found = math.nan
    if not math.isfinite(found):
        raise DataError(f"{path}: {key}: {value} is not a number")
    return found

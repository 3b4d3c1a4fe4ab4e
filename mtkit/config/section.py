"""The base class of the sections of the config: a checked group of keys, and the type of paths."""

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, ValidationInfo


class Section(BaseModel):
    """A group of keys: immutable, without unknown keys."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    def __repr_args__(self) -> Iterable[tuple[str | None, Any]]:
        """Show the keys that differ from their defaults."""
        defaults = {key: field.get_default(call_default_factory=True) for key, field in type(self).model_fields.items()}
        return [(key, value) for key, value in super().__repr_args__() if value != defaults.get(key or "")]

    def _give_way(self, **values: object) -> None:
        """Set keys that the file leaves out to values that fit the others; for validators only."""
        for key, value in values.items():
            if key not in self.model_fields_set:
                self.__dict__[key] = value  # frozen, and not to be taken for written


def is_part(info: ValidationInfo) -> bool:
    """Return whether train.init_from will provide missing keys, so that mtkit cannot check sections yet."""
    return bool((info.context or {}).get("is_part"))


def _resolve(path: Path, info: ValidationInfo) -> Path:
    base = (info.context or {}).get("base")
    try:
        path = path.expanduser()
    except RuntimeError:
        raise ValueError(f"{path}: no such user; for a file with this name, write ./{path}") from None
    return path if base is None else Path(os.path.normpath(Path(base, path)))


# A path in the config file. Relative paths start from the folder of the file (context "base").
ConfigPath = Annotated[Path, AfterValidator(_resolve)]

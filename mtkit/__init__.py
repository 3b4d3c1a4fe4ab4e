"""mtkit: from parallel text to a translator. `Translator.load("runs/NAME").translate(["I love oranges."])`."""

from typing import TYPE_CHECKING

from mtkit.version import __version__

if TYPE_CHECKING:
    from mtkit.translation.translator import Translator

__all__ = ["Translator", "__version__"]


def __getattr__(name: str) -> object:
    # when first used, not before: `import mtkit` and `mtkit --help` load no torch
    if name == "Translator":
        from mtkit.translation.translator import Translator

        return Translator
    raise AttributeError(f"module 'mtkit' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), "Translator"])

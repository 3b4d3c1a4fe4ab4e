"""HTML pages: a template and values in, one self-contained file out that opens without network."""

from collections.abc import Mapping
from datetime import timedelta
from functools import cache
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from mtkit.files import write_text
from mtkit.version import __version__

_TEMPLATES = Path(__file__).parent / "templates"
NO_VALUE = "\N{EN DASH}"


def write_page(path: Path, template: str, *, title: str, **values: object) -> None:
    """Render templates/<template>.html.j2 with title, values and the version of mtkit; written whole or not at all.

    Everything but Markup is escaped. A template may use the filters `tojson`, `fixed(digits)`, `thousands` and
    `duration`; a value that it names and nobody gave is an error.
    """
    write_text(path, render(template, {"title": title, **values}))


def render(template: str, values: Mapping[str, object]) -> str:
    """The page's HTML."""
    return environment().get_template(f"{template}.html.j2").render(values)


@cache
def environment() -> Environment:
    """Where templates come from and what they may use."""
    environment = Environment(
        loader=FileSystemLoader(_TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    # JSON knows no NaN: a page that got one would show nothing, so that it must fail here
    environment.policies["json.dumps_kwargs"] = {"allow_nan": False, "ensure_ascii": False, "separators": (",", ":")}
    environment.globals["version"] = __version__
    environment.filters |= {"fixed": fixed, "thousands": thousands, "duration": duration}
    return environment


def fixed(value: float | None, digits: int = 1) -> str:
    """With this many decimals, a true minus sign and no minus zero; an en dash for no value."""
    return NO_VALUE if value is None else f"{value:z.{digits}f}".replace("-", "\N{MINUS SIGN}")


def thousands(value: int | None) -> str:
    """With a thin space between groups of three digits, which no line break divides; an en dash for no value."""
    return NO_VALUE if value is None else f"{value:,}".replace(",", "\N{NARROW NO-BREAK SPACE}")


def duration(seconds: float | None) -> str:
    """Hours, minutes and seconds as 1:02:03; an en dash for no value."""
    return NO_VALUE if seconds is None else str(timedelta(seconds=round(seconds)))

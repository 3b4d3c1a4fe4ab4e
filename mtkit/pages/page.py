"""Render templates to self-contained HTML pages, which need no network."""

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
    """Write templates/<template>.html.j2, rendered with title, values and mtkit's version, atomically.

    Everything but Markup is escaped. A template may use the filters `tojson`, `fixed(digits)`, `thousands` and
    `duration`; a missing value is an error.
    """
    write_text(path, render(template, {"title": title, **values}))


def render(template: str, values: Mapping[str, object]) -> str:
    """Return the page's HTML."""
    return environment().get_template(f"{template}.html.j2").render(values)


@cache
def environment() -> Environment:
    """Return jinja's environment with the templates and their filters."""
    environment = Environment(
        loader=FileSystemLoader(_TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    # Fail on NaN: it is not JSON, and the page's script would show nothing.
    environment.policies["json.dumps_kwargs"] = {"allow_nan": False, "ensure_ascii": False, "separators": (",", ":")}
    environment.globals["version"] = __version__
    environment.filters |= {"fixed": fixed, "thousands": thousands, "duration": duration}
    return environment


def fixed(value: float | None, digits: int = 1) -> str:
    """Format a value with this many decimals, a true minus sign and no minus zero; None becomes an en dash."""
    return NO_VALUE if value is None else f"{value:z.{digits}f}".replace("-", "\N{MINUS SIGN}")


def thousands(value: int | None) -> str:
    """Format a value with a narrow no-break space between groups of three digits; None becomes an en dash."""
    return NO_VALUE if value is None else f"{value:,}".replace(",", "\N{NARROW NO-BREAK SPACE}")


def duration(seconds: float | None) -> str:
    """Format hours, minutes and seconds as 1:02:03; None becomes an en dash."""
    return NO_VALUE if seconds is None else str(timedelta(seconds=round(seconds)))

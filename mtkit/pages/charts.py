"""Draw charts for pages as inline SVG with the page's colours."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TypeGuard

from markupsafe import Markup

from mtkit.console import shortened

_WIDTH, _HEIGHT = 760, 320  # of the whole drawing; a unit is a pixel at full size
_LEFT, _RIGHT, _TOP, _BOTTOM = 76, 14, 14, 46  # margins around the plot
_N_COLOURS = 8  # --c0 to --c7 of the page
_DASHES = ("none", "8 4", "2 3", "10 3 2 3")  # distinguish lines without colours
_LETTER, _LINE = 7.5, 16  # width of a letter and height of a line of text at 13 pixels, at most
_MARKED, _HOVERED = 40, 200  # at most this many points of a line are visible, or show their value on hover


@dataclass(frozen=True)
class Series:
    """A named line; None or NaN in ys leaves a gap."""

    name: str
    xs: Sequence[float]
    ys: Sequence[float | None]


@dataclass(frozen=True)
class Band:
    """A named area between two lines."""

    name: str
    xs: Sequence[float]
    lows: Sequence[float]
    highs: Sequence[float]


@dataclass(frozen=True)
class Bars:
    """A named set of bars, one per group; None: no bar. lows and highs are the ends of intervals drawn on the bars."""

    name: str
    values: Sequence[float | None]
    lows: Sequence[float | None] | None = None
    highs: Sequence[float | None] | None = None


@dataclass(frozen=True)
class Point:
    """A named place in a plane; the note stands behind its name."""

    name: str
    x: float
    y: float
    note: str = ""


def line_chart(series: Sequence[Series], *, x_label: str, y_label: str, title: str, band: Band | None = None) -> Markup:
    """Draw lines, and a band behind them, over a shared x axis, with a legend; points show their values on hover."""
    for line in series:
        if len(line.xs) != len(line.ys):
            raise ValueError(f"{line.name}: {len(line.xs)} xs but {len(line.ys)} ys")
    points = [[(x, y) for x, y in zip(s.xs, s.ys, strict=True) if _is_number(y)] for s in series]
    edges = [*zip(band.xs, band.lows, strict=True), *zip(band.xs[::-1], band.highs[::-1], strict=True)] if band else []
    xs = _Axis.tight((x for line in [*points, edges] for x, _ in line), _LEFT, _WIDTH - _RIGHT)
    ys = _Axis.around((y for line in [*points, edges] for _, y in line), _HEIGHT - _BOTTOM, _TOP)
    parts = [_grid(ys), _x_ticks(xs), _labels(x_label, y_label)]
    if band:
        outline = "L".join(f"{_at(xs(x))} {_at(ys(y))}" for x, y in edges)
        parts.append(Markup('<path class="band" d="M{}Z"/>').format(outline))
    for i, line in enumerate(series):
        style = _line_style(i)
        parts.append(Markup('<path d="{}" style="{}"/>').format(_path(line, xs, ys), style))
        every = math.ceil(len(points[i]) / _HOVERED) or 1
        kind = "point" if len(points[i]) <= _MARKED else "point hidden"
        parts += [
            Markup(
                '<circle class="{}" cx="{}" cy="{}" r="4" style="fill:var(--c{})"><title>{}</title></circle>'
            ).format(kind, _at(xs(x)), _at(ys(y)), i % _N_COLOURS, f"{line.name}: {_plain(y)} at {x_label} {_plain(x)}")
            for x, y in points[i][::every]
        ]
    swatches = [Markup('<path d="M0 6H26" style="{}"/>').format(_line_style(i)) for i in range(len(series))]
    names = [line.name for line in series]
    if band:
        names.append(band.name)
        swatches.append(Markup('<path class="band" d="M0 0H26V12H0Z"/>'))
    return _figure(title, parts, names, swatches)


def bar_chart(groups: Sequence[str], series: Sequence[Bars], *, y_label: str, title: str) -> Markup:
    """Draw bars from zero, in named groups, with their intervals and a legend."""
    for bars in series:
        for name, column in (("values", bars.values), ("lows", bars.lows), ("highs", bars.highs)):
            if column is not None and len(column) != len(groups):
                raise ValueError(f"{bars.name}: {len(column)} {name} but {len(groups)} groups")
    columns = [column for bars in series for column in (bars.values, bars.lows, bars.highs) if column is not None]
    ys = _Axis.around([0.0, *(v for column in columns for v in column if _is_number(v))], _HEIGHT - _BOTTOM, _TOP)
    room = (_WIDTH - _LEFT - _RIGHT) / max(1, len(groups))
    width = min(60.0, 0.8 * room / max(1, len(series)))
    parts = [_grid(ys), _labels("", y_label)]
    for g, group in enumerate(groups):
        middle = _LEFT + room * (g + 0.5)
        parts.append(_group_name(group, middle, room))
        for i, bars in enumerate(series):
            left = middle + width * (i - len(series) / 2)
            parts.append(_bar(bars, g, group, i, left, width, ys))
    zero = _at(ys(0.0))
    parts.append(
        Markup('<path class="axis" d="M{} {}H{}" style="stroke-width:1"/>').format(_LEFT, zero, _WIDTH - _RIGHT)
    )
    swatches = [
        Markup('<rect x="6" width="14" height="12" style="fill:var(--c{})"/>').format(i % _N_COLOURS)
        for i in range(len(series))
    ]
    return _figure(title, parts, [bars.name for bars in series], swatches)


def scatter_chart(points: Sequence[Point], *, x_label: str, y_label: str, title: str) -> Markup:
    """Draw points with their names and notes next to them; they show their values on hover."""
    xs = _Axis.around((point.x for point in points), _LEFT, _WIDTH - _RIGHT)
    ys = _Axis.around((point.y for point in points), _HEIGHT - _BOTTOM, _TOP)
    parts = [_grid(ys), _x_ticks(xs), _labels(x_label, y_label)]
    taken = [_Box(xs(point.x) - 8, xs(point.x) + 8, ys(point.y) + 4) for point in points]
    for i, point in enumerate(points):
        text = f"{point.name}, {point.note}" if point.note else point.name
        box = _free_box(xs(point.x), ys(point.y), _LETTER * len(text), taken)
        taken.append(box)
        hover = f"{point.name}: {y_label} {_plain(point.y)}, {x_label} {_plain(point.x)}"
        dot = Markup('<circle class="point" cx="{}" cy="{}" r="6" style="fill:var(--c{})"><title>{}</title></circle>')
        label = Markup('<text class="name" x="{}" y="{}" text-anchor="{}">{}</text>')
        end, anchor = (box.left, "start") if box.left > xs(point.x) else (box.right, "end")
        parts.append(dot.format(_at(xs(point.x)), _at(ys(point.y)), i % _N_COLOURS, hover))
        parts.append(label.format(_at(end), _at(box.bottom), anchor, text))
    return _figure(title, parts, [point.name for point in points])


@dataclass(frozen=True)
class _Box:
    """The place of a line of text, or of a point."""

    left: float
    right: float
    bottom: float  # the line that its letters stand on

    def meets(self, other: "_Box") -> bool:
        """Return whether they would overlap."""
        return abs(self.bottom - other.bottom) < _LINE and self.left < other.right and other.left < self.right


def _free_box(x: float, y: float, width: float, taken: Sequence[_Box]) -> _Box:
    """Return a place next to a point for a text: to the right if there is room, and off what is taken."""
    left = x + 11 if x + 11 + width <= _WIDTH - _RIGHT else x - 11 - width
    for shift in sorted(range(-8, 9), key=abs):
        box = _Box(left, left + width, y + 4 + shift * _LINE)
        if _TOP + 8 <= box.bottom <= _HEIGHT - _BOTTOM - 4 and not any(map(box.meets, taken)):
            return box
    return _Box(left, left + width, y + 4)


@dataclass(frozen=True)
class _Axis:
    """A mapping from values to coordinates of the drawing, and the round values to mark."""

    low: float
    high: float
    ticks: Sequence[float]
    start: float
    end: float

    @classmethod
    def tight(cls, values: Iterable[float], start: float, end: float) -> "_Axis":
        """Return an axis from the least value to the greatest."""
        low, high = _extremes(values)
        return cls(low, high, [tick for tick in _round_values(low, high) if low <= tick <= high], start, end)

    @classmethod
    def around(cls, values: Iterable[float], start: float, end: float) -> "_Axis":
        """Return an axis from the round value below the least to the one above the greatest."""
        ticks = _round_values(*_extremes(values))
        return cls(ticks[0], ticks[-1], ticks, start, end)

    def __call__(self, value: float) -> float:
        return self.start + (value - self.low) / (self.high - self.low) * (self.end - self.start)


def _extremes(values: Iterable[float]) -> tuple[float, float]:
    """Return the least and the greatest value; for a single value, 0.5 and 1.5 times it, or 0 and 1."""
    known = list(values)
    low, high = (min(known), max(known)) if known else (0.0, 0.0)
    room = abs(low) / 2
    return (low, high) if high - low > 1e-9 * abs(low) else (low - room, high + (room or 1.0))


def _round_values(low: float, high: float) -> list[float]:
    """Return four to seven multiples of 1, 2 or 5 times a power of ten that enclose low and high."""
    least = (high - low) / 5
    power = 10.0 ** math.floor(math.log10(least))
    step = next(digit * power for digit in (1, 2, 5, 10) if digit * power >= least * (1 - 1e-9))
    return [i * step for i in range(math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9) + 1)]


def _is_number(value: float | None) -> TypeGuard[float]:
    return value is not None and math.isfinite(value)


def _path(line: Series, xs: _Axis, ys: _Axis) -> str:
    """Return the line's d attribute, with a new start after each gap."""
    steps, pen_down = [], False
    for x, y in zip(line.xs, line.ys, strict=True):
        if _is_number(y):
            steps.append(f"{'L' if pen_down else 'M'}{_at(xs(x))} {_at(ys(y))}")
        pen_down = _is_number(y)
    return "".join(steps)


def _line_style(i: int) -> str:
    """Return colour and dashes of the i-th line; the first 32 lines look different."""
    return f"stroke:var(--c{i % _N_COLOURS});stroke-dasharray:{_DASHES[(i + i // _N_COLOURS) % len(_DASHES)]}"


def _bar(bars: Bars, group: int, group_name: str, i: int, left: float, width: float, ys: _Axis) -> Markup:
    """Draw one bar with its interval; nothing if it has no value."""
    value = bars.values[group]
    if not _is_number(value):
        return Markup("")
    low = bars.lows[group] if bars.lows is not None else None
    high = bars.highs[group] if bars.highs is not None else None
    interval, words = Markup(""), f"{bars.name}, {group_name}: {_plain(value)}"
    if _is_number(low) and _is_number(high):
        interval = Markup('<path class="range" d="M{} {}V{}"/>').format(
            _at(left + width / 2), _at(ys(low)), _at(ys(high))
        )
        words += f" ({_plain(low)} to {_plain(high)})"
    top, bottom = sorted((ys(value), ys(0.0)))
    return Markup(
        '<g><title>{}</title><rect x="{}" y="{}" width="{}" height="{}" style="fill:var(--c{})"/>{}</g>'
    ).format(words, _at(left + 1), _at(top), _at(width - 2), _at(bottom - top), i % _N_COLOURS, interval)


def _grid(ys: _Axis) -> Markup:
    """Draw horizontal lines at the marked values, with the values left of them."""
    line = Markup(
        '<path class="grid" d="M{} {}H{}" style="stroke-width:1"/><text x="{}" y="{}" text-anchor="end">{}</text>'
    )
    return Markup("").join(
        line.format(_LEFT, _at(ys(tick)), _WIDTH - _RIGHT, _LEFT - 7, _at(ys(tick) + 4), _plain(tick))
        for tick in ys.ticks
    )


def _x_ticks(xs: _Axis) -> Markup:
    tick_mark = Markup(
        '<path class="axis" d="M{0} {1}v5" style="stroke-width:1"/><text x="{0}" y="{2}" text-anchor="{3}">{4}</text>'
    )
    return Markup("").join(
        tick_mark.format(
            _at(xs(tick)),
            _HEIGHT - _BOTTOM,
            _HEIGHT - _BOTTOM + 19,
            "end" if xs(tick) > _WIDTH - _RIGHT - 20 else "middle",
            _plain(tick),
        )
        for tick in xs.ticks
    )


def _labels(x_label: str, y_label: str) -> Markup:
    """Draw the names of the axes."""
    middle = (_TOP + _HEIGHT - _BOTTOM) / 2
    return Markup(
        '<text x="{}" y="{}" text-anchor="middle">{}</text>'
        '<text transform="translate(14 {}) rotate(-90)" text-anchor="middle">{}</text>'
    ).format(_at((_LEFT + _WIDTH - _RIGHT) / 2), _HEIGHT - 6, x_label, _at(middle), y_label)


def _group_name(name: str, middle: float, room: float) -> Markup:
    """Draw the name under its group, shortened to fit; the hover text has the full name."""
    n_fit = max(3, int(room / _LETTER))
    return Markup('<text x="{}" y="{}" text-anchor="middle">{}<title>{}</title></text>').format(
        _at(middle), _HEIGHT - _BOTTOM + 19, shortened(name, n_fit), name
    )


def _figure(title: str, parts: Sequence[Markup], names: Sequence[str], swatches: Sequence[Markup] = ()) -> Markup:
    """Assemble title, drawing and legend, if there are swatches; the drawing scrolls on a narrow page."""
    legend = Markup("").join(
        Markup('<li><svg viewBox="0 0 26 12" aria-hidden="true">{}</svg>{}</li>').format(swatch, name)
        for name, swatch in zip(names, swatches, strict=bool(swatches))
    )
    if swatches:
        legend = Markup('<ul class="legend">{}</ul>').format(legend)
    return Markup(
        '<figure class="chart"><figcaption>{0}</figcaption>'
        '<div class="scroll" tabindex="0" role="region" aria-label="{0}">'
        '<svg viewBox="0 0 {1} {2}" role="img" aria-label="{3}">{4}</svg></div>'
        "{5}</figure>"
    ).format(title, _WIDTH, _HEIGHT, f"{title}: {', '.join(names)}", Markup("").join(parts), legend)


def _at(coordinate: float) -> str:
    """Format a coordinate with one decimal."""
    return f"{coordinate:.1f}".removesuffix(".0")


def _plain(value: float) -> str:
    """Format a number for people: without exponent for usual sizes, without needless digits, with a true minus sign."""
    rounded = 0.0 if abs(value) < 1e-12 else value
    text = f"{rounded:,.0f}" if abs(rounded) >= 1e4 and abs(rounded) < 1e15 else f"{rounded:.4g}"
    return text.replace("-", "\N{MINUS SIGN}").replace(",", "\N{NARROW NO-BREAK SPACE}")

"""Numbers as text for people. Locale-free; never wider than asked.

Every formatter takes the value first, `None` for "not known" (shown as `–`), and `width`, the most cells it may use.
A number that does not fit loses digits after the point, then its unit's blank, then its unit; one that still does not
fit is shown as `#`, never as another number.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime, tzinfo

ABSENT = "–"
"""Stands for a value that could not be read."""

KIB = 1024
MIB = 1024**2
GIB = 1024**3
TIB = 1024**4

_MEMORY_UNITS = ((TIB, "TiB"), (GIB, "GiB"), (MIB, "MiB"), (KIB, "KiB"), (1, "B"))


def percent(value: float | None, *, width: int = 5) -> str:
    """`97 %`; a value of 0 to 100 rounded to whole numbers. Anything between 0 and 1 is shown as `<1 %`."""
    if value is None:
        return _fit((ABSENT,), width)
    if 0 < value < 1:
        return _fit(("<1 %", "<1%", "<1"), width)
    number = f"{value:.0f}"
    return _fit((f"{number} %", f"{number}%", number), width)


def memory(value: int | None, *, width: int = 9) -> str:
    """`78.1 GiB`: the largest binary unit in which the number is 1 or more."""
    if value is None:
        return _fit((ABSENT,), width)
    size, unit = memory_unit(value)
    if size == 1:
        return _fit((f"{value} B", f"{value}B"), width)
    return _number(value / size, unit, width)


def memory_pair(used: int | None, total: int | None, *, width: int = 14) -> str:
    """`78.1/79.6 GiB`, both in the unit of the larger; `–/79.6 GiB` when only the total is known."""
    if used is None and total is None:
        return _fit((ABSENT,), width)
    size, unit = memory_unit(max(used or 0, total or 0))
    choices = []
    for digits in (1, 0) if max(used or 0, total or 0) / size < 100 else (0,):
        left = ABSENT if used is None else f"{used / size:.{digits}f}"
        right = ABSENT if total is None else f"{total / size:.{digits}f}"
        choices += [f"{left}/{right} {unit}", f"{left}/{right}{unit[0]}", f"{left}/{right}"]
    return _fit(choices, width)


def memory_unit(value: int) -> tuple[int, str]:
    """Bytes and name of the unit in which to show `value`."""
    return next(((size, unit) for size, unit in _MEMORY_UNITS if abs(value) >= size), (1, "B"))


def watts(value: float | None, *, width: int = 7) -> str:
    """`655 W`, from 1,000 W on `4.9 kW`, from a million on `1.2 MW`."""
    if value is None:
        return _fit((ABSENT,), width)
    if round(value) < 1000:
        return _fit((f"{value:.0f} W", f"{value:.0f}W", f"{value:.0f}"), width)
    scaled, unit = (value / 1e3, "kW") if value < 999_500 else (value / 1e6, "MW")
    return _number(scaled, unit, width)


def watts_pair(used: float | None, limit: float | None, *, width: int = 9) -> str:
    """`655/700 W`; `–/700 W` when only the limit is known; `655 W` when only the draw is."""
    if used is None and limit is None:
        return _fit((ABSENT,), width)
    if limit is None:
        return watts(used, width=width)
    left = ABSENT if used is None else f"{used:.0f}"
    choices = [f"{left}/{limit:.0f} W", f"{left}/{limit:.0f}W", f"{left}/{limit:.0f}"]
    if limit >= 10_000:
        kilo = ABSENT if used is None else f"{used / 1e3:.1f}"
        choices = [f"{kilo}/{limit / 1e3:.1f} kW", f"{kilo}/{limit / 1e3:.0f} kW"]
    return _fit(choices, width)


def celsius(value: float | None, *, width: int = 6, ascii_only: bool = False) -> str:
    """`74 °C`; `74 C` where only ASCII can be drawn."""
    if value is None:
        return _fit((ABSENT,), width)
    sign = "C" if ascii_only else "°C"
    return _fit((f"{value:.0f} {sign}", f"{value:.0f}{sign}", f"{value:.0f}"), width)


def gigahertz(megahertz: float | None, *, width: int = 8) -> str:
    """`1.98 GHz` from a clock in MHz."""
    if megahertz is None:
        return _fit((ABSENT,), width)
    number = f"{megahertz / 1000:.2f}"
    return _fit((f"{number} GHz", f"{number}G", number), width)


def count(value: int | None, *, width: int = 6) -> str:
    """`12345`; from where it does not fit, `12k`, `1.2M`."""
    if value is None:
        return _fit((ABSENT,), width)
    choices = [f"{value:d}"]
    for size, unit in ((10**3, "k"), (10**6, "M"), (10**9, "G"), (10**12, "T")):
        if abs(value) >= size:
            large = [f"{value / size:.1f}{unit}", f"{value / size:.0f}{unit}"]
            choices = [choices[0], *large, *choices[1:]]
    return _fit(choices, width)


def rate(bytes_per_second: float | None, *, width: int = 9) -> str:
    """`3.4 GB/s`, in powers of 1,000 as links are sold."""
    if bytes_per_second is None:
        return _fit((ABSENT,), width)
    units = ((1e12, "TB/s"), (1e9, "GB/s"), (1e6, "MB/s"), (1e3, "kB/s"))
    for size, unit in units:
        if abs(bytes_per_second) >= size:
            return _number(bytes_per_second / size, unit, width)
    return _fit((f"{bytes_per_second:.0f} B/s", f"{bytes_per_second:.0f}"), width)


def energy(joules: float | None, *, width: int = 10) -> str:
    """`41 kWh` from joules, from 1,000 kWh on `1.2 MWh`."""
    if joules is None:
        return _fit((ABSENT,), width)
    kilowatt_hours = joules / 3.6e6
    return _number(*((kilowatt_hours, "kWh") if kilowatt_hours < 1000 else (kilowatt_hours / 1e3, "MWh")), width)


def age(seconds: float | None, *, width: int = 9) -> str:
    """How old a value is: `0.4 s`, `41 s`, `2 m 14 s`, `3 h 05 m`, `12 d`."""
    if seconds is None:
        return _fit((ABSENT,), width)
    seconds = max(0.0, seconds)
    if seconds < 9.95:
        return _fit((f"{seconds:.1f} s", f"{seconds:.0f} s", f"{seconds:.0f}s"), width)
    return duration(seconds, width=width)


def duration(seconds: float | None, *, width: int = 9) -> str:
    """A time span in its two largest units: `41 s`, `2 m 14 s`, `3 h 05 m`, `41 d`."""
    if seconds is None:
        return _fit((ABSENT,), width)
    whole = int(max(0.0, seconds))
    minutes, hours, days = whole // 60, whole // 3600, whole // 86400
    if whole < 60:
        return _fit((f"{whole} s", f"{whole}s"), width)
    if hours < 1:
        return _two_units((minutes, "m"), (whole % 60, "s"), width)
    if days < 1:
        return _two_units((hours, "h"), (minutes % 60, "m"), width)
    return _fit((f"{days} d", f"{days}d"), width)


def _two_units(large: tuple[int, str], small: tuple[int, str], width: int) -> str:
    (left, unit), (right, under) = large, small
    both = (f"{left} {unit} {right:02d} {under}", f"{left}{unit} {right:02d}{under}", f"{left}{unit}{right:02d}{under}")
    return _fit((*both, f"{left} {unit}", f"{left}{unit}"), width)


def clock_time(at: datetime | None, as_of: datetime, zone: tzinfo | None, *, width: int = 16) -> str:
    """A moment in `zone` (`None`: this machine's), as short as `as_of` allows: today `09:12:03`, this week
    `Mon 09:12`, else `2026-11-03 09:12`."""
    if at is None:
        return _fit((ABSENT,), width)
    local, now = at.astimezone(zone), as_of.astimezone(zone)
    if local.date() == now.date():
        return _fit((f"{local:%H:%M:%S}", f"{local:%H:%M}"), width)
    if 0 <= (now.date() - local.date()).days < 7:
        weekday = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")[local.weekday()]
        return _fit((f"{weekday} {local:%H:%M}", weekday), width)
    return _fit((f"{local:%Y-%m-%d %H:%M}", f"{local:%Y-%m-%d}", f"{local:%m-%d}"), width)


def numbers(values: Sequence[int]) -> str:
    """`0-3,5` from sorted numbers."""
    runs: list[list[int]] = []
    for value in values:
        if runs and value == runs[-1][-1] + 1:
            runs[-1].append(value)
        else:
            runs.append([value])
    return ",".join(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs)


def _number(value: float, unit: str, width: int) -> str:
    digits = (1, 0) if round(abs(value), 1) < 100 else (0,)
    choices = [f"{value:.{places}f}{gap}{unit}" for places in digits for gap in (" ", "")]
    return _fit([*choices, f"{value:.0f}{unit[0]}"], width)


def _fit(choices: Iterable[str], width: int) -> str:
    return next((text for text in choices if len(text) <= width), "#" * max(0, width))

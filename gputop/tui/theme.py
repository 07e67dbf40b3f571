"""Themes: one YAML file each, checked, made into Textual themes.

Found in the package (`gputop/_themes`, from a wheel), in the checkout (`themes/`), and in the user's own folder, which
wins when a name is in both.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from msgspec import Struct
from msgspec.structs import asdict
from textual.color import Color, ColorParseError
from textual.theme import Theme

import gputop
from gputop import configfile
from gputop.configfile import ConfigProblem

DEFAULT = "gputop-dark"

_PACKAGE = Path(gputop.__file__).parent
SHIPPED: tuple[Path, ...] = (_PACKAGE / "_themes", _PACKAGE.parent / "themes")
"""In a wheel the first exists, in a checkout the second."""


class Colors(Struct, frozen=True, kw_only=True):
    """Every color a theme gives, as `#rrggbb` or a name that Textual knows."""

    background: str
    surface: str
    """Header and footer."""
    panel: str
    """Dialogs and badges."""
    cursor: str
    """The row under the cursor."""
    marked: str
    """Marked rows."""
    text: str
    strong: str
    """Numbers and names that matter."""
    dim: str
    """Units, titles, old values."""
    faint: str
    """What is not known."""
    accent: str
    """Keys, the sorted column, the view in front."""
    ok: str
    warn: str
    bad: str
    track: str
    """The empty part of a meter."""
    meter_1: str
    """Meters from 0 to 25 percent."""
    meter_2: str
    """25 to 60 percent."""
    meter_3: str
    """60 to 90 percent."""
    meter_4: str
    """90 percent and more."""
    trend: str


class ThemeFile(Struct, frozen=True, kw_only=True):
    """The YAML of one theme."""

    name: str
    dark: bool
    colors: Colors


def find(name: str, folders: Sequence[Path]) -> Path | None:
    """The file of theme `name`; earlier folders win."""
    return next((path for folder in folders if (path := folder / f"{name}.yaml").is_file()), None)


def available(folders: Sequence[Path]) -> dict[str, Path]:
    """All themes by name, in alphabetical order."""
    found: dict[str, Path] = {}
    for folder in reversed(folders):
        found |= {path.stem: path for path in sorted(folder.glob("*.yaml"))}
    return dict(sorted(found.items()))


def load(path: Path) -> Theme | list[ConfigProblem]:
    """The theme in a file, or what is wrong with it."""
    document = configfile.read(path, ThemeFile, title=lambda keys, values: "the theme")
    if isinstance(document, list):
        return document
    theme = document.value
    problems = []
    if theme.name != path.stem:
        problems.append(document.problem(("name",), f'name must be "{path.stem}", as the file is called'))
    for name, text in asdict(theme.colors).items():
        try:
            Color.parse(text)
        except ColorParseError:
            problems.append(
                document.problem(("colors", name), f'"{text}" is not a color', 'write it as "#rrggbb", in quotes')
            )
    return problems or _textual(theme)


def named(name: str, user_folder: Path | None = None) -> Theme | list[ConfigProblem]:
    """Theme `name`, or what is wrong with it or with the name."""
    folders = (*((user_folder,) if user_folder else ()), *SHIPPED)
    path = find(name, folders)
    if path is None:
        hint = configfile.did_you_mean(name, list(available(folders)))
        choices = "there are: " + ", ".join(available(folders))
        hint = f"{hint} {choices}" if hint else choices
        return [ConfigProblem("--theme", None, None, f'there is no theme "{name}"', hint)]
    return load(path)


def _textual(theme: ThemeFile) -> Theme:
    colors = theme.colors
    return Theme(
        name=theme.name,
        dark=theme.dark,
        primary=colors.accent,
        secondary=colors.meter_2,
        accent=colors.accent,
        warning=colors.warn,
        error=colors.bad,
        success=colors.ok,
        foreground=colors.text,
        background=colors.background,
        surface=colors.surface,
        panel=colors.panel,
        variables={f"gp-{name.replace('_', '-')}": color for name, color in asdict(colors).items()},
    )

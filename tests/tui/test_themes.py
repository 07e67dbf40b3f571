"""Themes: shipped ones are whole, the user's own win, mistakes are named by line."""

from __future__ import annotations

from pathlib import Path

import pytest
from textual.color import Color
from textual.theme import Theme

from gputop.tui import theme


def lines_of(problems: object) -> list[str]:
    assert isinstance(problems, list)
    return [str(problem) for problem in problems]


@pytest.mark.parametrize("name", ["gputop-dark", "gputop-light"])
def test_shipped_themes_are_found_and_readable(name: str) -> None:
    found = theme.named(name)
    assert isinstance(found, Theme)
    ground = Color.parse(found.variables["gp-background"])
    for role, least in (
        ("text", 7),
        ("strong", 10),
        ("dim", 4.5),
        ("accent", 4.5),
        ("bad", 4.5),
        ("warn", 4.5),
        ("ok", 4),
    ):
        color = Color.parse(found.variables[f"gp-{role}"])
        assert contrast(color, ground) >= least, role


def test_a_theme_in_the_users_folder_wins_and_can_be_new(tmp_path: Path) -> None:
    text = (theme.SHIPPED[1] / "gputop-dark.yaml").read_text()
    (tmp_path / "gputop-dark.yaml").write_text(text.replace('background: "#0e1217"', 'background: "#000001"'))
    (tmp_path / "mine.yaml").write_text(text.replace("name: gputop-dark", "name: mine"))
    dark, mine = theme.named("gputop-dark", tmp_path), theme.named("mine", tmp_path)
    assert isinstance(dark, Theme)
    assert isinstance(mine, Theme)
    assert dark.background == "#000001"
    assert mine.name == "mine"
    assert list(theme.available((tmp_path, *theme.SHIPPED))) == ["gputop-dark", "gputop-light", "mine"]


def test_mistakes_are_named_by_file_line_and_column(tmp_path: Path) -> None:
    text = (theme.SHIPPED[1] / "gputop-dark.yaml").read_text()
    path = tmp_path / "mine.yaml"
    path.write_text(text.replace("name: gputop-dark", "name: mine").replace('ok: "#56b97a"', 'ok: "greenish"'))
    (problem,) = lines_of(theme.load(path))
    assert problem.startswith(f"{path}:")
    assert '"greenish" is not a color' in problem
    path.write_text(text.replace("name: gputop-dark", "name: mine").replace("  ok:", "  okay:"))
    assert any('unknown key "okay"' in line for line in lines_of(theme.load(path)))


def test_an_unknown_theme_names_the_known_ones(tmp_path: Path) -> None:
    (problem,) = lines_of(theme.named("gputop-drak", tmp_path))
    assert 'did you mean "gputop-dark"?' in problem
    assert "gputop-light" in problem


def contrast(one: Color, other: Color) -> float:
    """As WCAG counts it."""

    def luminance(color: Color) -> float:
        parts = [part / 255 for part in color.rgb]
        linear = [part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    high, low = sorted((luminance(one), luminance(other)), reverse=True)
    return (high + 0.05) / (low + 0.05)

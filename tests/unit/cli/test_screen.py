"""The command that shows the screen: what it hands over, and what it refuses before anything is drawn."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gputop.cli.main import main
from gputop.tui import app


@pytest.fixture(autouse=True)
def shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, app.ScreenOptions]]:
    """What `run_screen` was called with; the screen itself is not drawn."""
    calls: list[tuple[Any, app.ScreenOptions]] = []

    def run_screen(make_feed: Any, options: app.ScreenOptions, make_desk: Any, questions: Any) -> int:
        calls.append((make_feed, options))
        return 0

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(app, "run_screen", run_screen)
    monkeypatch.setattr("gputop.cli.screen.refusal", lambda: None)
    monkeypatch.setattr("gputop.cli.options.has_devices", lambda: False)
    monkeypatch.setattr("gputop.settings.locations.SYSTEM_INVENTORY", tmp_path / "none.yaml")
    return calls


def settings(home: Path, text: str) -> Path:
    path = home / ".config" / "gputop" / "settings.yaml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def test_the_screen_gets_the_inventorys_name_and_the_shortest_interval(
    tmp_path: Path, shown: list[tuple[Any, app.ScreenOptions]]
) -> None:
    (tmp_path / "prod.yaml").write_text("hosts: [a, {name: b, interval: 500ms}]", encoding="utf-8")
    assert main(["-f", "prod.yaml"]) == 0
    ((make_feed, options),) = shown
    assert (options.title, options.interval_seconds, options.mouse) == ("prod", 0.5, False)
    assert make_feed is not None


def test_options_beat_the_settings(home: Path, shown: list[tuple[Any, app.ScreenOptions]]) -> None:
    settings(home, "theme: gputop-light\nascii: true\nmouse: true\nkeymap: {retry: F6}\n")
    assert main(["a"]) == 0
    assert main(["a", "--theme", "gputop-dark", "--no-ascii", "--no-mouse"]) == 0
    first, second = (options for _, options in shown)
    assert (first.theme.name, first.ascii_only, first.mouse, first.keymap) == (
        "gputop-light",
        True,
        True,
        {"retry": "F6"},
    )
    assert (second.theme.name, second.ascii_only, second.mouse) == ("gputop-dark", False, False)


@pytest.mark.parametrize(
    ("variables", "is_ascii"),
    [
        ({"LANG": "C.UTF-8"}, False),
        ({"LANG": "de_DE.utf8"}, False),
        ({"LANG": "C"}, True),
        ({}, True),
        ({"LANG": "C.UTF-8", "LC_ALL": "POSIX"}, True),
    ],
)
def test_plain_characters_are_drawn_where_the_locale_knows_no_others(
    variables: dict[str, str],
    is_ascii: bool,
    monkeypatch: pytest.MonkeyPatch,
    shown: list[tuple[Any, app.ScreenOptions]],
) -> None:
    for name in ("LC_ALL", "LC_CTYPE", "LANG"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert main(["a"]) == 0
    assert shown[0][1].ascii_only is is_ascii


def test_with_nothing_to_watch_the_start_page_is_shown(shown: list[tuple[Any, app.ScreenOptions]]) -> None:
    assert main([]) == 0
    assert [make_feed for make_feed, _ in shown] == [None]


def test_the_start_page_leads_to_the_demo_with_the_same_look(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []
    monkeypatch.setattr(app, "run_screen", lambda *_: app.WANTS_DEMO)
    monkeypatch.setattr("gputop.cli.demo.run", lambda args: asked.append(args) or 0)
    assert main(["--theme", "gputop-light", "--ascii"]) == 0
    assert [(args.theme, args.ascii, args.mouse) for args in asked] == [("gputop-light", True, None)]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("theme: nope", 'there is no theme "nope"'),
        ("keymap: {nope: x}", 'settings.yaml:1:10: keymap: unknown command "nope"'),
        ("moose: true", 'settings.yaml:1:1: unknown key "moose" in the settings\n        did you mean "mouse"?'),
    ],
)
def test_wrong_settings_are_said_and_nothing_starts(
    home: Path,
    text: str,
    message: str,
    shown: list[tuple[Any, app.ScreenOptions]],
    capsys: pytest.CaptureFixture[str],
) -> None:
    settings(home, text)
    assert main(["a"]) == 2
    assert message in capsys.readouterr().err
    assert shown == []


def test_a_terminal_in_disorder_is_repaired(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--reset-terminal"]) == 0
    text = capsys.readouterr().out
    assert all(sequence in text for sequence in ("\x1b[?1049l", "\x1b[?25h", "\x1b[?1000l", "\x1b[?2004l"))

"""The settings file and where files live."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from gputop.domain.host import HostKeyPolicy
from gputop.settings import locations
from gputop.settings.load import load
from gputop.settings.schema import Handshakes, Settings


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "settings.yaml"


def test_no_file_and_an_empty_one_mean_no_wishes(file: Path) -> None:
    assert load(file) == Settings()
    file.write_text("# nothing yet\n", encoding="utf-8")
    assert load(file) == Settings()


def test_every_key_is_read(file: Path) -> None:
    text = (
        "theme: t\ninterval: 5s\nhost_keys: ask\nascii: true\nmouse: true\nhandshakes: {per_hop: 4, total: 9}\n"
        "keymap: {retry: R}\n"
    )
    file.write_text(text, encoding="utf-8")
    assert load(file) == Settings(
        theme="t",
        interval=timedelta(seconds=5),
        host_keys=HostKeyPolicy.ASK,
        ascii=True,
        mouse=True,
        handshakes=Handshakes(per_hop=4, total=9),
        keymap={"retry": "R"},
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("them: x", '1:1: unknown key "them" in the settings\n        did you mean "theme"?'),
        ("interval: 5", "a time needs its unit: 5s"),
        ("interval: 1ms", '1:11: "interval" must be between 100ms and 1h'),
        ("host_keys: maybe", '1:12: "host_keys" must be '),
        ("ascii: maybe", '1:8: "ascii" must be auto, true or false, not "maybe"'),
        ("handshakes: {total: 0}", '"total" in handshakes must be a whole number from 1 to 1000, not "0"'),
    ],
)
def test_a_mistake_is_named_with_its_place(file: Path, text: str, message: str) -> None:
    file.write_text(text, encoding="utf-8")
    problems = load(file)
    assert isinstance(problems, list)
    assert message in "\n".join(map(str, problems))
    assert str(problems[0]).startswith(f"{file}:1:")


def test_files_live_where_xdg_says(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(home / "c"))
    monkeypatch.setenv("XDG_STATE_HOME", str(home / "s"))
    assert locations.settings_file() == home / "c" / "gputop" / "settings.yaml"
    assert locations.known_hosts_file() == home / "c" / "gputop" / "known_hosts"
    assert locations.state_folder() == home / "s" / "gputop"
    assert locations.inventory_places() == (
        Path("inventory.yaml"),
        home / "c" / "gputop" / "inventory.yaml",
        Path("/etc/gputop/inventory.yaml"),
    )


def test_the_environment_may_name_several_inventories(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert locations.named_inventories() == ()
    monkeypatch.setenv("GPUTOP_INVENTORY", "~/a.yaml:b.yaml:")
    assert locations.named_inventories() == (home / "a.yaml", Path("b.yaml"))

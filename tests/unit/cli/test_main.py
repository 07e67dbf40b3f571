"""The command line: commands, options in any place, mistakes, exit codes."""

from __future__ import annotations

import argparse
import errno
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from gputop.cli import main as command_line
from gputop.cli.main import COMMANDS, main, parser_for
from gputop.cli.options import Selection, selection
from tests.needs import need


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "inventory.yaml").write_text("hosts: [gpu1, gpu2]\ngroups: {g: {hosts: [gpu2]}}\n", encoding="utf-8")
    return tmp_path


def code_of(*argv: str) -> int:
    try:
        return main(argv)
    except SystemExit as left:
        return int(left.code or 0)


def names(capsys: pytest.CaptureFixture[str], *argv: str) -> list[str]:
    assert code_of("hosts", "--format", "json", *argv) == 0
    return [host["name"] for host in json.loads(capsys.readouterr().out)["hosts"]]


def said(capsys: pytest.CaptureFixture[str], *argv: str) -> str:
    """Standard error of a command line that is refused, with nothing on standard output."""
    assert code_of(*argv) == 2
    written = capsys.readouterr()
    assert written.out == ""
    return written.err


def test_options_may_stand_before_or_after_the_command_and_between_hosts(capsys: pytest.CaptureFixture[str]) -> None:
    right = {"hosts": [{"name": "a", "user": "u", "interval": "3s", "host_keys": "strict"}], "groups": {}}
    for argv in (
        ["-l", "u", "--interval", "3s", "hosts", "--format", "json", "a"],
        ["--format", "json", "hosts", "a", "--interval=3s", "-lu"],
        ["hosts", "a", "-l", "u", "--format", "json", "--interval", "3s"],
    ):
        assert code_of(*argv) == 0
        assert json.loads(capsys.readouterr().out) == right, argv


def test_the_value_of_an_option_is_no_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert "terminal" in said(capsys, "-l", "demo", "gpu1")


def test_a_host_named_like_a_command_follows_two_dashes(capsys: pytest.CaptureFixture[str]) -> None:
    assert names(capsys, "--", "demo", "local") == ["demo", "local"]


@pytest.mark.parametrize(
    ("argv", "right"),
    [
        ([], ["gpu1", "gpu2"]),
        (["@g"], ["gpu2"]),
        (["x[1-2],y"], ["x1", "x2", "y"]),
        (["--exclude", "gpu1"], ["gpu2"]),
        (["--inventory", "a.yaml", "--inventory", "b.yaml"], ["a", "b"]),
    ],
)
def test_hosts_are_selected(
    folder: Path, capsys: pytest.CaptureFixture[str], argv: list[str], right: list[str]
) -> None:
    for name in "ab":
        (folder / f"{name}.yaml").write_text(f"hosts: [{name}]", encoding="utf-8")
    assert names(capsys, *argv) == right


def test_inventories_are_found_in_their_order(
    folder: Path, home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    mine = home / ".config" / "gputop" / "inventory.yaml"
    mine.parent.mkdir(parents=True)
    mine.write_text("hosts: [mine]", encoding="utf-8")
    (folder / "named.yaml").write_text("hosts: [named]", encoding="utf-8")
    (folder / "given.yaml").write_text("hosts: [given]", encoding="utf-8")
    assert names(capsys) == ["gpu1", "gpu2"]
    monkeypatch.setenv("GPUTOP_INVENTORY", "named.yaml")
    assert names(capsys) == ["named"]
    assert names(capsys, "-f", "given.yaml") == ["given"]
    monkeypatch.delenv("GPUTOP_INVENTORY")
    (folder / "inventory.yaml").unlink()
    assert names(capsys) == ["mine"]


def test_settings_give_what_an_inventory_leaves_open(
    home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = home / ".config" / "gputop" / "settings.yaml"
    path.parent.mkdir(parents=True)
    path.write_text("interval: 7s\nhost_keys: ask", encoding="utf-8")
    (tmp_path / "own.yaml").write_text("hosts: [gpu1, {name: gpu2, interval: 1s, host_keys: strict}]", encoding="utf-8")
    assert code_of("-f", str(tmp_path / "own.yaml"), "hosts", "--format", "json", "gpu1", "gpu2", "new") == 0
    hosts = json.loads(capsys.readouterr().out)["hosts"]
    assert [host["interval"] for host in hosts] == ["7s", "1s", "7s"]
    assert [host["host_keys"] for host in hosts] == ["ask", "strict", "ask"]


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["--intervall", "3s"], "unknown option --intervall\n        did you mean --interval?"),
        (["hosts", "--chek"], 'did you mean --check? "gputop hosts --help" lists the options'),
        (["-l"], "-l/--user: expected one argument"),
        (["hosts", "--format", "xml"], "invalid choice: 'xml'"),
        (["keys", "gpu1"], '"gputop keys" takes no hosts, and got "gpu1"'),
        (["hosts", "--inventory", "none.yaml"], "none.yaml: no such inventory file"),
        (["hosts", "--interval", "3", "a"], '--interval "3" is no time\n        write 2s or 500ms'),
        (["hosts", "--interval", "1ms", "a"], "must be between 100ms and 1h"),
        (["hosts", "-p", "0", "a"], '--port "0" is no port'),
        (["hosts", "-i", "none", "-i", "nokey", "a"], "--identity: none: no such file"),
        (["hosts", "--ssh-config", "nofile", "a"], "--ssh-config: nofile: no such file"),
        (["hosts", "-l", "-x", "a"], "expected one argument"),
        (["hosts", "--user=-x", "a"], '--user: the name begins with "-"'),
        (["hosts", "-J", "a,,b", "a"], "--jump: the name is empty"),
        (["hosts", "@x"], 'unknown group "@x" in inventory.yaml\n        groups: g'),
        (["hosts", "gpu[3-1]"], "start after end"),
        (["hosts", "--exclude", "nobody"], "leaves no host out"),
        (["hosts", "--exclude", "gpu[1-2]"], "--exclude leaves every host out"),
        (["hosts", "--check", "--wait", "3"], '--wait "3" is no time'),
        (["hosts", "--log-file", "/nowhere/log"], "cannot write the log file /nowhere/log: No such file or directory"),
    ],
)
def test_a_mistake_is_one_message_with_a_next_step(
    capsys: pytest.CaptureFixture[str], argv: list[str], message: str
) -> None:
    text = said(capsys, *argv)
    assert message in text
    assert text.startswith("gputop: ")
    assert len(text.splitlines()) <= 2


def test_a_mistyped_command_is_no_host(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gputop.cli.screen.refusal", lambda: None)
    text = said(capsys, "snapsht")
    assert text == (
        'gputop: "snapsht" is neither a command nor in an inventory\n'
        '        did you mean "gputop snapshot"? For a host of that name: gputop -- snapsht\n'
    )


def test_a_host_of_the_inventory_is_no_mistyped_command(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "inventory.yaml").write_text("hosts: [snapsht]", encoding="utf-8")
    assert names(capsys, "snapsht") == ["snapsht"]


def test_a_broken_inventory_is_reported_with_places_and_nothing_starts(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "inventory.yaml").write_text("hosts:\n- {name: a, prot: 1}\n- gpu[3-1]\n", encoding="utf-8")
    assert said(capsys, "hosts", "a").startswith('inventory.yaml:2:13: unknown key "prot" in host "a"\n')


def test_many_mistakes_are_counted(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "inventory.yaml").write_text("hosts:\n" + "- no\n" * 30, encoding="utf-8")
    assert said(capsys, "hosts").endswith("\nand 10 more\n")


def test_an_inventory_without_hosts_is_an_error(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "inventory.yaml").write_text("hosts: []", encoding="utf-8")
    assert "inventory.yaml: no host is listed" in said(capsys, "hosts")


def test_nothing_to_watch_says_what_to_do(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gputop.cli.options.has_devices", lambda: False)
    monkeypatch.setattr("gputop.settings.locations.SYSTEM_INVENTORY", folder / "none.yaml")
    (folder / "inventory.yaml").unlink()
    text = said(capsys, "hosts")
    assert "nothing to watch" in text
    assert "gputop demo" in text


def test_this_machine_is_watched_when_it_has_devices_and_nothing_else_is_known(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gputop.cli.options.has_devices", lambda: True)
    monkeypatch.setattr("gputop.settings.locations.SYSTEM_INVENTORY", folder / "none.yaml")
    (folder / "inventory.yaml").unlink()
    assert code_of("hosts") == 0
    assert "this machine" in capsys.readouterr().out


def test_this_machine_may_be_named_beside_others(capsys: pytest.CaptureFixture[str]) -> None:
    assert code_of("hosts", "local,gpu1") == 0
    _, mine, other = capsys.readouterr().out.splitlines()
    assert "this machine" in mine
    assert other.startswith("gpu1 ")


NO_SCREEN = 'gputop: the screen needs a terminal: {}\n        "gputop snapshot" prints the fleet once\n'


def test_without_a_terminal_there_is_no_screen(capsys: pytest.CaptureFixture[str]) -> None:
    assert said(capsys, "gpu1") == NO_SCREEN.format("standard input is no terminal")


def test_a_terminal_that_only_prints_lines_gets_no_screen(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for stream in ("stdin", "stdout"):
        monkeypatch.setattr(f"sys.{stream}.isatty", lambda: True)
    monkeypatch.setenv("TERM", "dumb")
    assert said(capsys, "gpu1") == NO_SCREEN.format("TERM=dumb only prints lines")


@pytest.mark.parametrize("closed", ["<&-", ">&-", "<&- >&-"])
def test_closed_streams_are_as_if_they_led_nowhere(closed: str) -> None:
    command = f"{sys.executable} -m gputop gpu1 {closed}"
    ran = subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)
    assert (ran.returncode, ran.stdout, ran.stderr) == (2, "", NO_SCREEN.format("standard input is no terminal"))


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command.name)
def test_every_command_has_help_that_names_all_shared_options(command: command_line.Command) -> None:
    text = parser_for(command).format_help()
    assert text.startswith(f"usage: gputop {command.name}")
    assert "--debug" in text
    assert ("--inventory" in text) == command.takes_hosts


def test_the_help_lists_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert code_of("--help") == 0
    text = capsys.readouterr().out
    assert all(f"  {command.name} " in text and command.summary in text for command in COMMANDS)


def _broken(failure: BaseException) -> object:
    def run(args: argparse.Namespace) -> int:
        raise failure

    return run


def test_a_bug_is_one_line_and_a_kept_traceback(
    home: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gputop.cli.keys.run", _broken(ValueError("odd\x1b[2J")))
    assert code_of("keys") == 1
    kept = home / ".local" / "state" / "gputop" / "crash.log"
    assert capsys.readouterr().err == (
        f"gputop: internal error: ValueError: odd\\x1b[2J\n        the traceback is in {kept}\n"
    )
    assert "Traceback" in kept.read_text(encoding="utf-8")
    assert kept.stat().st_mode & 0o777 == 0o600


def test_ctrl_c_ends_with_130(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gputop.cli.keys.run", _broken(KeyboardInterrupt()))
    assert code_of("keys") == 130


def run_program(*argv: str, stdout: int = subprocess.PIPE, **environment: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [sys.executable, "-m", "gputop", *argv],
        stdin=subprocess.DEVNULL,
        stdout=stdout,
        stderr=subprocess.PIPE,
        env=os.environ | environment,
        timeout=60,
        check=False,
    )


def test_a_reader_that_leaves_is_no_error() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    try:
        ran = run_program("hosts", "--format", "yaml", "gpu[1-9999]", stdout=writer)
    finally:
        os.close(writer)
    assert (ran.returncode, ran.stderr) == (0, b"")


def test_a_full_disk_is_said_in_one_line() -> None:
    full = os.open("/dev/full", os.O_WRONLY)
    try:
        ran = run_program("hosts", "--format", "yaml", "gpu[1-9999]", stdout=full)
    finally:
        os.close(full)
    assert ran.returncode == 1
    assert ran.stderr.decode() == f"gputop: cannot write the output: {os.strerror(errno.ENOSPC)}\n"


def test_an_old_locale_costs_characters_and_not_the_output() -> None:
    ran = run_program("hosts", "a", LC_ALL="C", PYTHONUTF8="0", PYTHONCOERCECLOCALE="0")
    assert (ran.returncode, ran.stderr) == (0, b"")
    assert b"?" in ran.stdout.splitlines()[1].split()


def test_gputop_keys_prints_the_keys_that_the_user_chose(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    settings = tmp_path / "gputop" / "settings.yaml"
    settings.parent.mkdir()
    settings.write_text("keymap: {quit: Q}\n")
    assert code_of("keys") == 0
    assert re.search(r"^Q +quit ", capsys.readouterr().out, re.MULTILINE)
    settings.write_text("keymap: [\n")
    assert "settings.yaml" in said(capsys, "keys")


@pytest.mark.parametrize("argv", [["keys"], ["hosts"], ["snapshot", "--demo"], ["read", "inventory.yaml"]])
def test_every_mistake_in_a_keymap_is_told_with_its_place_by_every_command_that_reads_settings(
    argv: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    settings = tmp_path / "gputop" / "settings.yaml"
    settings.parent.mkdir()
    settings.write_text("interval: 2h\nkeymap:\n  nope: x\n  mark.togle: y\n  retry: F5\n  act.drain: U\n")
    (settings.parent / "xid.yaml").write_text("xids: []\n")
    lines = [line for line in said(capsys, *argv).splitlines() if not line.startswith(" ")]
    assert lines[:4] == [
        f'{settings}:1:11: "interval" must be between 100ms and 1h',
        f'{settings}:3:3: keymap: unknown command "nope"',
        f'{settings}:4:3: keymap: unknown command "mark.togle"',
        f'{settings}:6:14: keymap: "U" stands for both act.resume and act.drain',
    ]
    assert lines[4].startswith(f"{settings.parent}/xid.yaml:1:1: ")


def test_a_plan_keeps_its_inventory_by_the_whole_path(folder: Path) -> None:
    args = parser_for(next(command for command in COMMANDS if command.name == "hosts")).parse_words(
        ["-f", "inventory.yaml"]
    )
    chosen = selection(args)
    assert isinstance(chosen, Selection)
    assert chosen.files == (str(folder / "inventory.yaml"),)


SSH_CONFIG = """\
Host gpu01
  HostName 10.9.8.7
  Port 2200
  User ops
  ProxyJump b1
Host b1
  HostName bastion.example
  User jmp
"""


def test_gputop_hosts_shows_what_ssh_config_makes_of_them(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    need("ssh")
    (folder / "config").write_text(SSH_CONFIG)
    (folder / "inventory.yaml").write_text(
        "defaults: {ssh_config: config}\nhosts: [gpu01, {name: gpu02, address: 10.9.8.8, user: me, jump: b1}]\n"
    )
    assert code_of("hosts") == 0
    assert [line.split()[:5] for line in capsys.readouterr().out.splitlines()] == [
        ["HOST", "ADDRESS", "PORT", "USER", "JUMP"],
        ["gpu01", "10.9.8.7", "2200", "ops", "jmp@bastion.example:22"],
        ["gpu02", "10.9.8.8", "22", "me", "jmp@bastion.example:22"],
    ]


def test_an_ssh_config_that_ssh_does_not_take_is_told_once(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    need("ssh")
    (folder / "config").write_text("Hosst x\n")
    assert code_of("hosts", "--ssh-config", "config", "-l", "me", "gpu[1-3]") == 1
    said = capsys.readouterr()
    assert [line.split()[:5] for line in said.out.splitlines()[1:]] == [
        [f"gpu{number}", "–", "–", "me", "–"] for number in (1, 2, 3)
    ]
    assert said.err.startswith("gputop: gpu[1-3]: ssh_config: ")
    assert said.err.count("Bad configuration option") == 1


def test_ssh_is_not_asked_about_thousands_of_hosts(capsys: pytest.CaptureFixture[str]) -> None:
    assert code_of("hosts", "gpu[1-257]") == 0
    assert "ssh_config was not asked about more than 256 hosts" in capsys.readouterr().err

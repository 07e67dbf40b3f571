"""What is not documented fails here."""

from __future__ import annotations

import re
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest
from msgspec import Struct

from gputop.actions.admission import Word
from gputop.cli.diagnostics import Exit
from gputop.cli.main import COMMANDS, SCREEN, Command, parser_for
from gputop.domain.action import Consent
from gputop.domain.link import LinkState
from gputop.domain.problem import ProblemKind
from gputop.inventory.schema import GroupEntry, HostEntry, InventoryFile, PolicyKeys
from gputop.settings.schema import ActionSettings, Handshakes, Settings
from gputop.tui.commands import COMMANDS as KEY_COMMANDS
from gputop.tui.dialogs.plan import AGREES

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"


def page(name: str) -> str:
    return (DOCS / name).read_text(encoding="utf-8")


def pages() -> list[Path]:
    return [*sorted(ROOT.glob("*.md")), *sorted(DOCS.rglob("*.md"))]


@cache
def anchors(path: Path) -> frozenset[str]:
    """The anchors of a page's headings, the way that GitHub makes them."""
    text = re.sub(r"^```.*?^```", "", path.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
    titles = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return frozenset(re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles)


def test_the_generated_parts_of_the_docs_are_what_the_code_says() -> None:
    ran = subprocess.run(
        [sys.executable, ROOT / "scripts" / "gen_docs.py", "--check"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr


@pytest.mark.parametrize("name", [*LinkState, *ProblemKind], ids=str)
def test_every_link_state_and_problem_kind_has_its_section_in_troubleshooting(name: str) -> None:
    assert name in anchors(DOCS / "troubleshooting.md")


def test_troubleshooting_has_no_section_for_a_kind_that_is_gone() -> None:
    named = set(re.findall(r"^### (\S+)$", page("troubleshooting.md"), re.MULTILINE))
    assert named - {*LinkState, *ProblemKind} == set()


@pytest.mark.parametrize("state", LinkState, ids=str)
def test_every_link_state_is_in_the_contract(state: LinkState) -> None:
    assert f"| `{state}` |" in page("reference/json.md")


@pytest.mark.parametrize("code", Exit, ids=lambda code: str(int(code)))
def test_every_exit_code_is_in_the_contract(code: Exit) -> None:
    assert f"| {code.value} |" in page("reference/json.md")


@pytest.mark.parametrize("command", [SCREEN, *COMMANDS], ids=lambda command: command.name or "screen")
def test_every_command_and_option_is_in_the_reference(command: Command) -> None:
    text = page("reference/commands.md")
    title = f"## gputop {command.name}".strip()
    assert f"{title}\n" in text
    common, own = (text.partition(f"{head}\n")[2].partition("\n## ")[0] for head in ("## Every command", title))
    section = common + own
    options = [spelling for action in parser_for(command)._actions for spelling in action.option_strings]
    assert [option for option in options if not re.search(rf"`{re.escape(option)}[ `]", section)] == []


def test_every_key_is_in_the_reference() -> None:
    text = page("reference/keys.md")
    assert [command.id for command in KEY_COMMANDS if f"| `{command.id}` |" not in text] == []


@pytest.mark.parametrize("struct", [InventoryFile, HostEntry, GroupEntry], ids=lambda struct: struct.__name__)
def test_every_key_of_the_inventory_is_in_the_reference(struct: type[Struct]) -> None:
    text = page("reference/inventory.md")
    assert [key for key in struct.__struct_encode_fields__ if f"| `{key}` |" not in text] == []


def test_every_key_of_a_policy_is_in_the_reference() -> None:
    table = page("reference/inventory.md").partition("### Policy")[2].partition("### Ranges")[0]
    keys = [key for row in re.findall(r"^\| (`[^|]*`) \|", table, re.MULTILINE) for key in re.findall(r"`(\w+)`", row)]
    assert sorted(keys) == sorted(PolicyKeys.__struct_encode_fields__)


@pytest.mark.parametrize("consent", AGREES)
def test_every_consent_and_its_button_is_in_the_page_of_acts(consent: Consent) -> None:
    assert f"| {AGREES[consent][0]} | `{consent}` |" in page("acts.md")


@pytest.mark.parametrize("word", Word)
def test_every_word_for_where_a_host_stands_is_in_the_page_of_acts(word: Word) -> None:
    assert f"`{word}`" in page("acts.md").replace("\n", " ")


def test_every_setting_is_in_the_reference() -> None:
    keys = {*Settings.__struct_encode_fields__} - {"handshakes", "actions"}
    keys |= {f"handshakes.{key}" for key in Handshakes.__struct_encode_fields__}
    keys |= {f"actions.{key}" for key in ActionSettings.__struct_encode_fields__}
    text = page("reference/settings.md")
    assert [key for key in sorted(keys) if f"| `{key}` |" not in text] == []


def test_the_reference_names_no_setting_that_gputop_does_not_have() -> None:
    table = page("reference/settings.md").partition("| key |")[2].partition("```")[0]
    keys = {key.partition(".")[0] for key in re.findall(r"^\| `([\w.]+)` \|", table, re.MULTILINE)}
    assert keys == set(Settings.__struct_encode_fields__)


@pytest.mark.parametrize("path", pages(), ids=lambda path: path.relative_to(ROOT).as_posix())
def test_every_link_within_the_project_leads_somewhere(path: Path) -> None:
    text = re.sub(r"^```.*?^```", "", path.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
    dead = []
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if re.match(r"[a-z]+:", target):
            continue
        name, _, anchor = target.partition("#")
        aim = (path.parent / name).resolve() if name else path
        if not aim.exists() or (anchor and anchor not in anchors(aim)):
            dead.append(target)
    assert dead == []


@pytest.mark.parametrize("path", pages(), ids=lambda path: path.relative_to(ROOT).as_posix())
def test_every_gputop_command_shown_in_a_page_is_one_that_gputop_takes(path: Path) -> None:
    """Command lines in shell blocks: their command exists, and it knows the options."""
    wrong = []
    for block in re.findall(r"^```(?:sh|console)\n(.*?)^```", path.read_text("utf-8"), re.DOTALL | re.MULTILINE):
        for line in block.splitlines():
            for call in re.findall(r"(?:^|[|;&$] *)gputop((?: [^|;#>]*)?)", line.partition("   #")[0]):
                wrong += [f"gputop{call}: {word}" for word in unknown_options(call.split())]
    assert wrong == []


def unknown_options(words: list[str]) -> list[str]:
    names = {command.name: command for command in COMMANDS}
    command = next((names[word] for word in words if word in names), SCREEN)
    known = {spelling for action in parser_for(command)._actions for spelling in action.option_strings}
    return [word for word in words if word.startswith("-") and word != "--" and word.partition("=")[0] not in known]

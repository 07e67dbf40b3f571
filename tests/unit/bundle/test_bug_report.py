"""The vendor's own report: refused where nobody may act, written down before and after, and nothing of it left."""

from __future__ import annotations

import gzip
import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec import structs

from gputop.actions.audit import AuditFailed
from gputop.bundle import bug_report
from gputop.bundle.items import Item, Packed
from tests.unit.bundle.lab import LATE, LOST, Lab, said

FOLDER = "/tmp/gputop-bug-report.Ab12Cd34Ef"
REPORT = gzip.compress(os.urandom(5000))

MAKE_FOLDER, RUN, LOOK, PIECE, REMOVE = "sh -c umask", "sh -c cd", "sh -c wc", "sh -c tail", "sh -c rm"


@pytest.fixture
def make(tmp_path: Path) -> Callable[..., Lab]:
    def lab(**fields: bool) -> Lab:
        made = Lab(tmp_path, **fields)
        made.answers |= {
            MAKE_FOLDER: said(f"{FOLDER}\n"),
            RUN: said(""),
            LOOK: said(f"{len(REPORT)}\n"),
            PIECE: said(REPORT),
            REMOVE: said(""),
        }
        return made

    return lab


async def reported(lab: Lab, **fields: bool) -> Item:
    spec = structs.replace(lab.hosts["gpu-01"].spec, **fields)
    return await lab.wait(bug_report.bug_report(lab.acts, spec, "gputop-bundle-x", lambda _: None))


def records(lab: Lab) -> list[tuple[str, str | None]]:
    path = lab.stage.folder / "audit.jsonl"
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert {(line["act"], line["host"], line["plan"]) for line in lines} == {
        ("bug-report", "gpu-01", "gputop-bundle-x")
    }
    assert {line["command"] for line in lines} == {"gpu-01: sudo -n nvidia-bug-report.sh"}
    return [(line["event"], line["result"]) for line in lines]


async def test_the_report_is_made_fetched_and_removed_and_both_ends_are_written_down(make: Callable[..., Lab]) -> None:
    lab = make()
    item = await reported(lab)
    assert item.body == Packed(content=REPORT)
    assert item.problem is None
    assert records(lab) == [("intent", None), ("outcome", "verified")]
    assert lab.asked[-1].endswith(f"sh {FOLDER}")
    assert lab.asked[-1].startswith(REMOVE)


@pytest.mark.parametrize(("fields", "guard"), [({"allowed": False}, "read-only"), ({"protected": True}, "protected")])
async def test_a_guard_refuses_it_and_nothing_is_run(
    make: Callable[..., Lab], fields: dict[str, bool], guard: str
) -> None:
    lab = make(**{key: value for key, value in fields.items() if key == "allowed"})
    item = await reported(lab, **{key: value for key, value in fields.items() if key == "protected"})
    assert item.body is None
    assert lab.asked == []
    assert records(lab) == [("refused", guard)]


async def test_without_an_audit_log_nothing_is_run(make: Callable[..., Lab]) -> None:
    lab = make()
    (lab.stage.folder / "audit.jsonl").mkdir()
    with pytest.raises(AuditFailed):
        await reported(lab)
    assert lab.asked == []


@pytest.mark.parametrize(
    ("step", "answer", "problem"),
    [
        (MAKE_FOLDER, said("", 1, "No space left"), "exit status 1: No space left"),
        (MAKE_FOLDER, said("/etc\n"), "no temporary folder could be made"),
        (RUN, said("", 127, "it is not on this host"), "exit status 127: it is not on this host"),
        (RUN, said("", 1, "sudo: a password is required"), "sudo wants a password"),
        (RUN, LATE, "no end within 45 s; it may go on on the host"),
        (LOOK, said("", 1, "Permission denied"), "it made no report that may be read: Permission denied"),
        (PIECE, LOST, "it was made, but not fetched: connection lost"),
        (PIECE, said(""), "it was made, but not fetched: it became shorter"),
    ],
)
async def test_what_goes_wrong_is_said_and_the_folder_is_removed(
    make: Callable[..., Lab], step: str, answer: object, problem: str
) -> None:
    lab = make()
    lab.answers[step] = answer  # type: ignore[assignment]
    item = await reported(lab)
    assert (item.body, item.problem) == (None, problem)
    assert records(lab) == [("intent", None), ("outcome", "failed")]
    assert any(command.startswith(REMOVE) for command in lab.asked) is (step != MAKE_FOLDER)


async def test_a_large_report_comes_in_pieces_and_one_that_is_too_large_is_cut(
    make: Callable[..., Lab], monkeypatch: pytest.MonkeyPatch
) -> None:
    lab = make()
    monkeypatch.setattr(bug_report, "PIECE_BYTES", 2000)
    pieces = {1: REPORT[:2000], 2001: REPORT[2000:4000], 4001: REPORT[4000:]}
    for first, piece in pieces.items():
        script = f'{PIECE} -c "+$2" "$1/nvidia-bug-report.log.gz" | head -c "$3" sh {FOLDER} {first} 2000'
        lab.answers[script] = said(piece)
    assert (await reported(lab)).body == Packed(content=REPORT)
    monkeypatch.setattr(bug_report, "MOST_BYTES", 3000)
    item = await reported(lab)
    assert item.truncated
    assert item.body == Packed(content=REPORT[:3000])

"""What rows say of acts: what is done now, what was done lately, and nothing that does not hold any more."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from msgspec import structs

from gputop.actions.admission import Admission, Word
from gputop.actions.marks import DOING, NEWS_SECONDS, marks
from gputop.domain.action import ActionKind
from gputop.domain.record import AuditEvent, AuditRecord
from gputop.fleet.fleet import Fleet
from tests.fakes.acts import a_host
from tests.fakes.clock import START


def a_record(**fields: Any) -> AuditRecord:
    own: dict[str, Any] = {
        "time": START, "event": AuditEvent.OUTCOME, "plan": "p", "act": ActionKind.REBOOT, "host": "gpu-01",
        "user": "ann", "result": "failed", "state_after": "failed",
    }  # fmt: skip
    return AuditRecord(**(own | fields))


def word(*history: AuditRecord, known: Admission | None = None, seconds: float = 10.0, frame_age: float = 60.0) -> str:
    now = START + timedelta(seconds=seconds)
    host = a_host()
    assert host.frame is not None
    frame = structs.replace(host.frame, received_at=now - timedelta(seconds=frame_age))
    fleet = Fleet(as_of=now, hosts={"gpu-01": structs.replace(host, frame=frame)})
    found = marks(fleet, {"gpu-01": known} if known is not None else {}, history, (), now)
    return found["gpu-01"].word if "gpu-01" in found else ""


DRAINED = Admission(host="gpu-01", word=Word.DRAINED)


def test_words_fit_their_column() -> None:
    assert all(len(text) <= 11 for text in (*DOING.values(), *Word)), "the column of the hosts view has 11 cells"
    assert set(DOING) == set(ActionKind)


@pytest.mark.parametrize("result", ["failed", "unverified"])
def test_an_act_that_did_not_go_well_is_news_for_an_hour(result: str) -> None:
    assert word(a_record(result=result)) == result
    assert word(a_record(result=result), known=DRAINED) == result
    assert word(a_record(result=result), known=DRAINED, seconds=NEWS_SECONDS + 1) == "drained"


def test_the_newest_act_on_a_host_counts_and_one_that_did_nothing_does_not() -> None:
    well = a_record(result="verified", state_after="active")
    assert word(well, a_record()) == ""
    assert word(a_record(result="skipped"), well, a_record()) == ""
    assert word(a_record(event=AuditEvent.REFUSED, result="protected"), a_record()) == "failed"


def test_a_drain_that_waits_is_pending_until_something_tells_where_it_stands() -> None:
    waiting = a_record(act=ActionKind.DRAIN, result="pending", state_after="draining")
    assert word(waiting) == "pending"
    assert word(waiting, known=structs.replace(DRAINED, word=Word.DRAINING)) == "draining"


def test_a_stopped_host_is_so_until_it_answers_again() -> None:
    stopped = a_record(act=ActionKind.STOP, result="verified", state_after="stopped")
    assert word(stopped, seconds=9000, frame_age=9100) == "stopped"
    assert word(stopped, known=DRAINED, seconds=20, frame_age=30) == "stopped"
    assert word(stopped, seconds=9000, frame_age=1) == ""


def test_a_host_that_takes_work_again_has_no_word() -> None:
    assert word(known=structs.replace(DRAINED, word=Word.OPEN)) == ""


def test_what_is_done_now_comes_first() -> None:
    found = marks(None, {"gpu-01": DRAINED}, [a_record()], [(ActionKind.RESUME, "gpu-01")], START)
    assert (found["gpu-01"].word, found["gpu-01"].tone) == ("resuming", "now")

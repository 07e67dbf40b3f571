"""Processes of which nothing is known but the pid."""

from __future__ import annotations

from gputop.domain.reading import ProcessReading
from gputop.tui.rows import process_command, process_user


def test_a_pid_of_another_namespace_is_a_question_mark_and_a_missing_part_of_a_known_process_is_none() -> None:
    nobody = ProcessReading(device_index=0, pid=7, memory_used_bytes=1)
    assert (process_user(nobody), process_command(nobody)) == ("?", "?")
    hidden = ProcessReading(device_index=0, pid=7, name="python3")
    assert (process_user(hidden), process_command(hidden)) == ("–", "python3")

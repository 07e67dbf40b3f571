"""Several outputs of one tool as one sample."""

from __future__ import annotations

from typing import Any

from gputop.remote.merge import merged, same_device
from gputop.remote.sample import Sample, new_sample


def sample(*devices: dict[str, Any], **facts: str) -> Sample:
    made = new_sample("x")
    made["devices"], made["facts"] = list(devices), dict(facts)
    return made


def test_the_first_sample_counts_and_the_others_fill_in() -> None:
    one = sample({"index": 0, "power_watts": 5, "model": None}, a="1")
    other = sample({"index": 0, "power_watts": 9, "model": "M"}, a="2", b="3")
    made = merged([one, other])
    assert made["devices"] == [{"index": 0, "power_watts": 5, "model": "M"}]
    assert made["facts"] == {"a": "1", "b": "3"}


def test_a_device_that_only_an_earlier_question_listed_is_none() -> None:
    assert [row["index"] for row in merged([sample({"index": 0}), sample({"index": 0}, {"index": 1})])["devices"]] == [
        0
    ]


def test_a_device_is_known_by_uuid_then_bus_then_index() -> None:
    assert same_device({"index": 0, "uuid": "a"}, {"index": 1, "uuid": "a"})
    assert not same_device({"index": 0, "uuid": "a"}, {"index": 0, "uuid": "b"})
    assert same_device({"index": 0, "pci_bus_id": "0000:05:00.0"}, {"index": 3, "pci_bus_id": "00000000:05:00.0"})
    assert not same_device({"index": 0, "pci_bus_id": "0000:05:00.0"}, {"index": 0, "pci_bus_id": "0000:06:00.0"})
    assert same_device({"index": 0, "uuid": "a"}, {"index": 0, "pci_bus_id": "0000:06:00.0"})


def test_processes_and_partitions_of_both_are_put_together() -> None:
    listed = {
        "index": 0,
        "processes": [{"pid": 1, "command": "a b"}],
        "partitions": [{"index": 0}],
        "processes_known": 1,
    }
    seen = {
        "index": 0,
        "processes": [{"pid": 1, "memory_used_bytes": 7}, {"pid": 2}],
        "partitions": [{"index": 0, "utilization_percent": 5}, {"index": 1}],
    }
    (row,) = merged([sample(listed), sample(seen)])["devices"]
    assert row["processes"] == [{"pid": 1, "command": "a b", "memory_used_bytes": 7}, {"pid": 2}]
    assert row["partitions"] == [{"index": 0, "utilization_percent": 5}, {"index": 1}]

"""Pseudonyms: what they stand in for, and what stays."""

from __future__ import annotations

import pytest

from gputop.bundle.names import Names
from gputop.bundle.redact import LEFT_OUT, Redactor


@pytest.fixture
def redactor() -> Redactor:
    names = Names()
    names.know_host(["gpu-01", "gpu-01.hpc.example.com", "10.0.0.7"])
    names.know_host(["gpu-01-ib"])
    names.know_user("alice")
    names.know_user("CORP\\bob")
    return Redactor(names)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("no route to host (10.0.0.7:22)", "no route to host (addr-1:22)"),
        ("GPU-01.hpc.EXAMPLE.com. gpu-01:", "host-1. host-1:"),
        ("gpu-01-ib gpu-01-eth", "host-2 host-1-eth"),
        ("gpu-010 xgpu-01", "gpu-010 xgpu-01"),
        ("ssh alice@gpu-01", "ssh user-1@host-1"),
        ("CORP\\bob and bob", "user-2 and user-2"),
        ("Alice malice alice2 alice_x", "Alice malice alice2 user-1_x"),
        ("ops@10.0.0.7:22", "user-3@addr-1:22"),
        ("jane.doe@corp.org", "email-1"),
        ("hpc.example.com, example.com", "domain-1, domain-2"),
        ("fe80::1%eth0 [2001:db8::5]:22 peer:2001:db8::5", "addr-1%eth0 [addr-2]:22 peer:addr-2"),
        ("::ffff:10.9.9.9 fe80::2.22 10.9.9.9.22", "addr-1 addr-2.22 addr-3.22"),
        ("aa:bb:cc:dd:ee:ff AA-BB-CC-DD-EE-FF", "mac-1 mac-1"),
        ("Device Serial Number 00-02-c9-ff-fe-11-22-33", "Device Serial Number mac-1"),
        ("Serial Number      : 1654922006536", "Serial Number      : id-1"),
        ("<serial>1654922006536</serial> 1654922006536", "<serial>id-1</serial> id-1"),
        ("serial of gpu-01: A12345", "serial of host-1: id-1"),
        ("GPU-5A1c1a2b-0000-1111-2222-333344445555", "GPU-id-1"),
        ("i-0abcdef12 arn:aws:ec2:eu:1:x ip-10-0-0-7.ec2.internal", "id-1 id-2 ip-addr-1.ec2.internal"),
        ("machine d41d8cd98f00b204e9800998ecf8427e", "machine id-1"),
        ("gpu-01é", "gpu-01é"),
    ],
)
def test_a_text_has_pseudonyms_for_names_and_addresses(redactor: Redactor, text: str, expected: str) -> None:
    assert redactor.text(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "00000000:1B:00.0 PCI:0000:3b:00): 79, pid=4321",
        "10:15:01 up 41 days",
        "VBIOS Version : 96.00.74.00.01",
        "driver 535.183.01, kernel 5.15.0-113-generic",
        "std::vector<int> a::b",
        "127.0.0.1 ::1 0.0.0.0",
        "Serial Number : N/A",
        "root nvidia-persistenced",
        "Xid 79: GPU has fallen off the bus.",
    ],
)
def test_what_is_no_name_stays_as_it_is(redactor: Redactor, text: str) -> None:
    assert redactor.text(text).replace("addr-1", "a::b") == text


def test_a_name_that_one_text_gives_away_is_replaced_in_all(redactor: Redactor) -> None:
    redactor.learn("/home/carol/train.py uid=1003(dave) storage.hpc.example.com")
    assert redactor.text("carol dave storage.hpc.example.com storage") == "user-3 user-4 host-3 storage"


def test_data_is_replaced_by_key_and_words_of_the_format_stay(redactor: Redactor) -> None:
    process = {
        "pid": 7,
        "name": "train-secret",
        "command": "python /home/alice/t.py --x",
        "user": "alice",
        "kind": "compute",
    }
    found = redactor.value(
        {
            "schema": "gputop/1",
            "name": "gpu-01",
            "groups": ["train"],
            "labels": {"rack": "r7"},
            "state": "ok",
            "reason": "replace NIC of alice",
            "processes": [process, {**process, "name": "python", "job": "slurm 57381"}],
            "uuid": "GPU-5a1c1a2b-0000-1111-2222-333344445555",
            "serial": "1654922006536",
            "driver_version": "1.2.3.4",
            "summary": "gpu-01 (10.0.0.7) does not answer alice",
            "nodes": ["gpu-01", "node-9"],
            "count": 3,
            "none": None,
        }
    )
    assert found == {
        "schema": "gputop/1",
        "name": "host-1",
        "groups": ["group-1"],
        "labels": {"rack": "label-1"},
        "state": "ok",
        "reason": LEFT_OUT,
        "processes": [
            {"pid": 7, "name": "program-1", "command": "command-1", "user": "user-1", "kind": "compute"},
            {"pid": 7, "name": "python", "command": "command-1", "user": "user-1", "kind": "compute", "job": "job-1"},
        ],
        "uuid": "GPU-id-1",
        "serial": "id-2",
        "driver_version": "1.2.3.4",
        "summary": "host-1 (addr-1) does not answer user-1",
        "nodes": ["host-1", "host-3"],
        "count": 3,
        "none": None,
    }
    assert redactor.text("python /home/alice/t.py --x of slurm 57381") == "command-1 of job-1"


def test_a_pseudonym_that_somebody_really_has_is_given_to_nobody() -> None:
    names = Names()
    names.know_host(["host-1"])
    names.know_host(["gpu-01"])
    assert Redactor(names).text("host-1 gpu-01") == "host-2 host-3"


def test_the_key_to_the_pseudonyms_has_every_name(redactor: Redactor) -> None:
    redactor.text("10.1.1.1")
    assert redactor.names.originals["host-1"] == ["gpu-01", "gpu-01.hpc.example.com"]
    assert redactor.names.originals["user-2"] == ["bob", "CORP\\bob"]
    assert redactor.names.originals["addr-1"] == ["10.1.1.1"]


def test_names_of_several_machines_do_not_make_them_one() -> None:
    names = Names()
    names.know_host(["a-1"])
    names.know_host(["a-2"])
    names.know_host(["a-1", "vm"])
    assert (names.find("a-1"), names.find("vm"), names.find("a-2")) == ("host-1", "host-1", "host-2")

from __future__ import annotations

import os
import stat
from base64 import b64encode
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gputop.domain.host import HostKeyPolicy
from gputop.domain.problem import Problem, ProblemKind
from gputop.transport.hostkeys import (
    Judgement,
    KnownHosts,
    fingerprint,
    judge,
    judge_authority,
    parse,
    rejection,
)


def blob(seed: int, algorithm: str = "ssh-ed25519") -> bytes:
    name = algorithm.encode()
    return len(name).to_bytes(4, "big") + name + b"\0\0\0\x20" + bytes([seed]) * 32


def key(seed: int, algorithm: str = "ssh-ed25519") -> str:
    return f"{algorithm} {b64encode(blob(seed, algorithm)).decode()}"


def places(content: str, name: str) -> list[str]:
    return [entry.place for entry in parse(content.encode(), "kh").entries(name)]


def test_names_are_found_whatever_their_case_and_behind_a_byte_order_mark() -> None:
    assert places(f"\ufeffNode1,node2 {key(1)}\n", "node1") == ["kh:1"]


def test_a_line_that_makes_no_sense_costs_that_line() -> None:
    content = "\n".join(
        [
            "garbage",
            f"node1 {key(1)}",
            "node1 ssh-ed25519",
            "node1 ssh-ed25519 !!!notbase64",
            f"@weird node1 {key(2)}",
            "|1|broken ssh-ed25519 AAAA",
            f"node1 ssh-rsa {b64encode(blob(3)).decode()}",
            "# a comment",
            "",
            f"node2 {key(4)} a comment with 'quotes",
        ]
    )
    known = parse(content.encode() + b"\n\xff\xfe\xfd", "kh")
    assert known.bad_lines == [1, 3, 4, 5, 6, 7, 11]
    assert [entry.line for entry in known.entries("node1")] == [2]
    assert [entry.line for entry in known.entries("node2")] == [10]


def test_hashed_names_are_found() -> None:
    # made with: ssh-keygen -H, for [127.0.0.1]:2222
    import hashlib
    import hmac

    salt = b"0123456789abcdefghij"
    digest = hmac.digest(salt, b"[127.0.0.1]:2222", hashlib.sha1)
    line = f"|1|{b64encode(salt).decode()}|{b64encode(digest).decode()} {key(1)}\n"
    assert places(line, "[127.0.0.1]:2222") == ["kh:1"]
    assert places(line, "127.0.0.1") == []


@pytest.mark.parametrize(
    ("patterns", "name", "found"),
    [
        ("*.dc1,!bad.dc1", "a.dc1", True),
        ("*.dc1,!bad.dc1", "bad.dc1", False),
        ("gpu?", "gpu1", True),
        ("gpu?", "gpu12", False),
        ("[*.dc1]:2222", "[a.dc1]:2222", True),
        ("[*.dc1]:2222", "a", False),
        ("*", "anything", True),
        ("a.c,*x", "abc", False),
    ],
)
def test_patterns_know_stars_question_marks_and_exclusions_and_nothing_else(
    patterns: str, name: str, found: bool
) -> None:
    assert bool(places(f"{patterns} {key(1)}\n", name)) is found


@pytest.mark.parametrize(
    ("known", "shown", "judgement"),
    [
        (f"h {key(1)}", (1, "ssh-ed25519"), Judgement.TRUSTED),
        (f"h {key(2)}\nh {key(1)}", (1, "ssh-ed25519"), Judgement.TRUSTED),
        (f"h {key(2)}", (1, "ssh-ed25519"), Judgement.CHANGED),
        (f"h {key(2, 'ssh-rsa')}", (1, "ssh-ed25519"), Judgement.OTHER_TYPE),
        (f"other {key(1)}", (1, "ssh-ed25519"), Judgement.UNKNOWN),
        (f"h {key(1)}\n@revoked * {key(1)}", (1, "ssh-ed25519"), Judgement.REVOKED),
        (f"@cert-authority * {key(1)}", (1, "ssh-ed25519"), Judgement.UNKNOWN),
        (f"@revoked * {key(2)}", (1, "ssh-ed25519"), Judgement.UNKNOWN),
    ],
)
def test_a_key_is_judged_by_the_entries_of_its_host(known: str, shown: tuple[int, str], judgement: Judgement) -> None:
    seed, algorithm = shown
    entries = parse(known.encode(), "kh").entries("h")
    assert judge(entries, algorithm, blob(seed, algorithm)).judgement is judgement


def test_an_authority_signs_only_for_its_hosts_and_not_when_revoked() -> None:
    known = parse(f"@cert-authority *.dc1 {key(1)}\n@revoked * {key(2)}\n".encode(), "kh")
    assert judge_authority(known.entries("a.dc1"), blob(1)).judgement is Judgement.TRUSTED
    assert judge_authority(known.entries("a.dc2"), blob(1)).judgement is Judgement.UNKNOWN
    assert judge_authority(known.entries("a.dc1"), blob(2)).judgement is Judgement.REVOKED


def test_an_entry_without_port_counts_when_there_is_none_with_it(tmp_path: Path) -> None:
    file = tmp_path / "known_hosts"
    file.write_text(f"h {key(1)}\n[h]:2222 {key(2)}\n")
    known = KnownHosts(tmp_path / "own")
    assert [entry.line for entry in known.entries("H", 2222, [str(file)])] == [2]
    assert [entry.line for entry in known.entries("h", 2223, [str(file)])] == [1]
    assert [entry.line for entry in known.entries("h", 22, [str(file), "/nowhere"])] == [1]


def test_a_file_is_read_again_when_it_changes(tmp_path: Path) -> None:
    file = tmp_path / "known_hosts"
    file.write_text(f"h {key(1)}\n")
    known = KnownHosts(tmp_path / "own")
    assert len(known.entries("h", 22, [str(file)])) == 1
    file.write_text(f"h {key(1)}\nh {key(2)}\n")
    assert len(known.entries("h", 22, [str(file)])) == 2


def test_accepted_keys_are_added_once_to_gputops_own_file_which_only_its_owner_can_read(tmp_path: Path) -> None:
    known = KnownHosts(tmp_path / "config" / "known_hosts")
    known.own.parent.mkdir()
    known.own.write_text("# no line end")
    known.own.chmod(0o600)
    for _ in range(2):
        known.accept("Host", 2222, "ssh-ed25519", blob(1))
    known.accept("host", 22, "ssh-ed25519", blob(2))
    assert known.own.read_text() == f"# no line end\n[host]:2222 {key(1)}\nhost {key(2)}\n"
    assert judge(known.entries("host", 22, []), "ssh-ed25519", blob(2)).judgement is Judgement.TRUSTED


def test_a_new_own_file_is_private_whatever_the_umask(tmp_path: Path) -> None:
    old = os.umask(0)
    try:
        known = KnownHosts(tmp_path / "gputop" / "known_hosts")
        known.accept("h", 22, "ssh-ed25519", blob(1))
    finally:
        os.umask(old)
    assert stat.S_IMODE(known.own.stat().st_mode) == 0o600


def rejected(
    known: str, *, direct: bool = True, policy: HostKeyPolicy = HostKeyPolicy.STRICT, has_person: bool = False
) -> Problem:
    return rejection(
        judge(parse(known.encode(), "kh").entries("h"), "ssh-ed25519", blob(1)),
        host="h",
        port=22,
        algorithm="ssh-ed25519",
        blob=blob(1),
        checking="ask",
        bad_lines=["kh:9"],
        add_to="kh",
        direct=direct,
        policy=policy,
        has_person=has_person,
    )


@pytest.mark.parametrize(
    ("known", "kind"),
    [
        (f"h {key(2)}", ProblemKind.HOST_KEY_CHANGED),
        (f"h {key(2, 'ssh-rsa')}", ProblemKind.HOST_KEY_OTHER_TYPE),
        (f"@revoked * {key(1)}", ProblemKind.HOST_KEY_REVOKED),
        ("", ProblemKind.HOST_KEY_UNKNOWN),
    ],
)
def test_a_rejection_names_the_fingerprint_the_entry_and_the_next_step(known: str, kind: ProblemKind) -> None:
    problem = rejected(known)
    assert problem.kind is kind
    assert fingerprint(blob(1)) in problem.summary
    assert ("kh:1" in problem.summary) is bool(known)
    assert "kh:9" in (problem.detail or "")
    assert problem.hint


def test_ssh_keyscan_is_named_only_where_it_works() -> None:
    assert "ssh-keyscan -p 22 h >> kh" in (rejected("").hint or "")
    assert "ssh-keyscan" not in (rejected("", direct=False).hint or "")


def test_under_ask_the_next_step_is_the_key_that_asks_again_or_the_screen_that_asks() -> None:
    assert rejected("", policy=HostKeyPolicy.ASK, has_person=True).hint == "F5 asks again"
    assert "screen" in (rejected("", policy=HostKeyPolicy.ASK).hint or "")
    assert "host_keys: ask" in (rejected("").hint or "")


@given(st.binary(max_size=400))
def test_any_bytes_are_read_without_an_error(content: bytes) -> None:
    parse(content, "kh").entries("h")

"""Host patterns."""

from __future__ import annotations

from pathlib import Path

import pytest

from gputop.inventory.expand import LIMIT, BadPattern, expand, fold, split

CASES = Path(__file__).parents[2] / "fixtures" / "cases" / "13-host-ranges.tsv"


def cases() -> list[list[str]]:
    return [line.split("\t") for line in CASES.read_text(encoding="utf-8").splitlines()[1:]]


@pytest.mark.parametrize(("pattern", "count", "right"), cases())
def test_a_pattern_of_real_fleets_comes_out_right(pattern: str, count: str, right: str) -> None:
    hosts = expand(pattern)
    if count == "error":
        assert isinstance(hosts, BadPattern)
        assert right in hosts.summary
        assert f'"{pattern}"' in hosts.summary
    else:
        assert hosts == tuple(right.split())
        assert len(hosts) == int(count)


@pytest.mark.parametrize(
    ("pattern", "right"),
    [
        ("gpu[001-003].dc1", "gpu001.dc1 gpu002.dc1 gpu003.dc1"),
        ("b,a", "b a"),
        ("a[0-6/3]", "a0 a3 a6"),
        ("a[099-101]", "a099 a100 a101"),
        ("a[9-11]", "a9 a10 a11"),
        ("a1,a01", "a1 a01"),
        ("::1", "::1"),
        ("fe80::1%eth0", "fe80::1%eth0"),
        ("10.0.0.[1-2]", "10.0.0.1 10.0.0.2"),
        ("my_host", "my_host"),
    ],
)
def test_a_pattern_stands_for_names(pattern: str, right: str) -> None:
    assert expand(pattern) == tuple(right.split())


@pytest.mark.parametrize(
    ("pattern", "reason"),
    [
        ("gpu[3-1]", 'start after end in "3-1"'),
        ("gpu[01-2]", 'both ends of "01-2" need the same number of digits'),
        ("gpu[1-99999999]", f"more than {LIMIT:,} hosts"),
        ("gpu[1-9999999999999999999999]", "out of range"),
        ("r[1-200]n[1-200]", f"more than {LIMIT:,} hosts"),
        ("gpu[1-6000],gpu[6001-12000]", f"more than {LIMIT:,} hosts"),
        ("gpu[1-", "bracket not closed"),
        ("gpu1]", "bracket not opened"),
        ("gpu[]", "no range of numbers"),
        ("gpu[a-c]", "no range of numbers"),
        ("gpu[1-3/0]", "a step of 0"),
        ("a[1-2][3-4]", "two ranges side by side"),
        ("a0[8-11]", "not a range that ClusterShell understands"),
        ("gpu{1,2}", 'holds "{"'),
        ("[2001:db8::1]", "no range of numbers"),
        ("@train", 'begins with "@"'),
        ("ops@gpu1", 'holds "@"'),
        ("gpu1:22", 'holds ":"'),
        ("gpu*", 'holds "*"'),
        ("a b", "holds a blank"),
        ("a\x1b]0;x", "holds a control character"),
        ("a\x1bc", "holds a control character"),
        ("a\nb", "holds a control character"),
        ("-oProxyCommand=x", 'begins with "-"'),
        ("-[1-2]", 'begins with "-"'),
        ("", "is empty"),
        ("a,,b", "is empty"),
        ("a!b", 'holds "!"'),
        ("a" * 256, "a host name of 256 characters"),
    ],
)
def test_a_bad_pattern_names_no_host_and_says_why(pattern: str, reason: str) -> None:
    hosts = expand(pattern)
    assert isinstance(hosts, BadPattern)
    assert reason in hosts.summary
    assert hosts.summary.isprintable()


def test_names_fold_to_a_short_pattern() -> None:
    assert fold(["gpu001", "gpu002", "gpu003", "login1"]) == "gpu[001-003],login1"
    assert fold(["::1", "gpu1"]) == "::1,gpu1"


def test_commas_in_brackets_do_not_split() -> None:
    assert split("a[1,3],b, c") == ["a[1,3]", "b", "c"]

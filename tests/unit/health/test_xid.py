"""The catalog of Xids and SXids: severities, what users can override, mistakes in words."""

from __future__ import annotations

import pytest

from gputop.health.catalog import CatalogError, default_catalog, parse
from gputop.health.xid import SEVERITIES, graded


@pytest.mark.parametrize(
    ("kind", "code", "message", "severity"),
    [
        ("xid", 13, "", "app"),
        ("xid", 31, "MMU Fault", "app"),
        ("xid", 43, "", "app"),
        ("xid", 45, "", "info"),
        ("xid", 48, "", "reset"),
        ("xid", 63, "Row Remapper: New row marked", "info"),
        ("xid", 64, "", "rma"),
        ("xid", 74, "", "reset"),
        ("xid", 79, "GPU has fallen off the bus.", "reboot"),
        ("xid", 94, "Contained", "restart"),
        ("xid", 95, "Uncontained", "reset"),
        ("xid", 119, "", "reset"),
        ("xid", 130, "", "restart"),
        ("xid", 149, "NETIR_LINK_EVT  Fatal   XC0 i0 Link 01", "reset"),
        ("xid", 149, "NETIR_BER_EVENT Nonfatal XC0 i0 Link 01", "info"),
        ("xid", 154, "GPU recovery action changed from 0x0 (None) to 0x2 (Node Reboot Required)", "reboot"),
        ("xid", 154, "GPU recovery action changed from 0x0 (None) to 0x4 (Drain and Reset)", "reset"),
        ("xid", 154, "GPU recovery action changed from 0x4 (Drain and Reset) to 0x0 (None)", "info"),
        ("xid", 154, "GPU recovery action changed from 0x0 (None) to 0x9 (Something new)", "warn"),
        ("xid", 9, "", "warn"),
        ("xid", 777, "", "warn"),
        ("sxid", 22013, "Non-fatal, Link 44 Minion Link DLREQ interrupt", "info"),
        ("sxid", 20012, "", "warn"),
        ("sxid", 12028, "", "restart"),
        ("sxid", 20034, "", "reset"),
        ("sxid", 23007, "Fatal, ...", "reset"),
        ("sxid", 31999, "Fatal, Link 3", "reset"),
        ("sxid", 31999, "Non-fatal, Link 3", "warn"),
        ("fell-off-bus", None, "", "reboot"),
        ("rm-init-failed", None, "", "reboot"),
        ("something-else", None, "", None),
    ],
)
def test_severity(kind: str, code: int | None, message: str, severity: str | None) -> None:
    assert default_catalog().severity(kind, code, message) == severity


def test_no_code_is_told_of_twice_but_in_the_last_entry() -> None:
    for kind, entries in default_catalog().entries.items():
        codes = [code for entry in entries[:-1] for span in entry.codes for code in span]
        assert len(codes) == len(set(codes)), kind


def test_every_severity_has_a_use() -> None:
    used = {entry.severity for entries in default_catalog().entries.values() for entry in entries}
    assert used == set(SEVERITIES)


def test_events_are_graded_and_the_given_ones_left_alone() -> None:
    event = {"kind": "xid", "code": 79, "message": "", "severity": None}
    assert [found["severity"] for found in graded([event], default_catalog())] == ["reboot"]
    assert event["severity"] is None


def test_a_user_overrides_single_codes() -> None:
    own = parse("xid:\n  - {codes: 94, severity: reset, meaning: ours}\nsame_as: {rm-init-failed: 79}\n")
    catalog = default_catalog().overridden(own)
    assert (catalog.severity("xid", 94, ""), catalog.meaning("xid", 94)) == ("reset", "ours")
    assert catalog.severity("xid", 95, "") == "reset"
    assert catalog.meaning("rm-init-failed", None) == catalog.meaning("xid", 79)
    assert catalog.severity("sxid", 22013, "") == "info"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("- a", "mapping"),
        ("xid: {a: 1}", "list"),
        ("xid: [{codes: 1}]", "severity"),
        ("xid: [{codes: x, severity: info}]", "no code"),
        ("xid: [{codes: 1, severity: bad}]", "none of"),
        ("xid: [{codes: 1, severity: info, sev: 1}]", "unknown key sev"),
        ("xid: [{codes: 1, severity: info, when: [['(', info]]}]", "missing"),
        ("xid: [{codes: 1, severity: info, when: [[a]]}]", "pattern"),
        ("version: 9", "version 9"),
        ("same_as: {a: b}", "same_as"),
        ("a: [", "expected"),
    ],
)
def test_mistakes_are_told_in_words(text: str, words: str) -> None:
    with pytest.raises(CatalogError, match=words):
        parse(text)

"""The catalog of Xids and SXids: severities, what users can override, mistakes in words."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

import pytest

from gputop.domain.reading import DeviceEvent
from gputop.health.catalog import default_catalog, load
from gputop.health.xid import SEVERITIES, Catalog, graded


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
    event = DeviceEvent(kind="xid", code=79, message="")
    (found,) = graded([event], default_catalog())
    assert (found.severity, found.meaning) == ("reboot", "GPU has fallen off the bus")
    assert event.severity is None


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "xid.yaml"


def test_a_user_overrides_single_codes(file: Path) -> None:
    assert load(file) is default_catalog()
    file.write_text("xid:\n  - {codes: 94, severity: reset, meaning: ours}\nsame_as: {rm-init-failed: 79}\n")
    catalog = load(file)
    assert isinstance(catalog, Catalog)
    assert (catalog.severity("xid", 94, ""), catalog.meaning("xid", 94)) == ("reset", "ours")
    assert catalog.severity("xid", 95, "") == "reset"
    assert catalog.meaning("rm-init-failed", None) == catalog.meaning("xid", 79)
    assert catalog.severity("sxid", 22013, "") == "info"


def test_a_copy_of_the_catalog_and_an_empty_file_change_nothing(file: Path) -> None:
    file.write_bytes(files("gputop.health").joinpath("xid.yaml").read_bytes())
    catalog = load(file)
    assert isinstance(catalog, Catalog)
    assert catalog.severity("xid", 79, "") == "reboot"
    file.write_text("# nothing yet\n")
    assert isinstance(load(file), Catalog)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("- a", "the file must be a mapping, not a list"),
        ("xid: {a: 1}", '1:6: "xid" must be a list, not a mapping'),
        ("xid: [{codes: 1}]", 'has no "severity"'),
        ("xid:\n- {codes: 8 x, severity: info}", '2:11: "x" is no code and no range of codes'),
        ("xid: [{codes: 9-8, severity: info}]", '"9-8" is no code'),
        ("xid: [{codes: '', severity: info}]", '"" is no code'),
        (
            "xid: [{codes: 1, severity: bad}]",
            '"severity" in xid 1 must be app, info, reboot, reset, restart, rma, sw or warn, not "bad"',
        ),
        ("xid: [{codes: 1, severity: info, sev: 1}]", 'unknown key "sev"'),
        ("xid: [{codes: 1, severity: info, when: [['(', info]]}]", "is no pattern: missing ), unterminated subpattern"),
        ("xid: [{codes: 1, severity: info, when: [[a]]}]", "a condition is a pattern and a severity"),
        ("xid: [{codes: 1, severity: info, when: [[a, rebot]]}]", 'did you mean "reboot"?'),
        ("version: 9", "1:10: version 9 of the catalog's format is not known"),
        ("same_as: {a: b}", "must be a whole number"),
        ("a: [", "not valid YAML"),
    ],
)
def test_mistakes_are_told_with_their_place(file: Path, text: str, message: str) -> None:
    file.write_text(text)
    problems = load(file)
    assert isinstance(problems, list)
    assert message in "\n".join(map(str, problems))
    assert str(problems[0]).startswith(f"{file}:")

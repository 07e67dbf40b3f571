"""YAML files and their mistakes: where, what, and what to do."""

from __future__ import annotations

from datetime import timedelta
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Literal

import pytest
from msgspec import Meta, Struct, field

from gputop.configfile import Document, duration, parse, read


class Policy(StrEnum):
    STRICT = "strict"
    LOOSE = "loose"


class Item(Struct, kw_only=True, forbid_unknown_fields=True):
    name: str
    port: Annotated[int, Meta(ge=1, le=65535)] | None = None
    wait: timedelta | None = None
    policy: Policy = Policy.STRICT
    look: Literal["auto"] | bool = "auto"
    files: str | list[str] | None = None
    labels: dict[str, str] = field(default_factory=dict)


class File(Struct, kw_only=True, forbid_unknown_fields=True):
    items: list[str | Item] = field(default_factory=list)


def value(text: str | bytes) -> File:
    document = parse(text if isinstance(text, bytes) else text.encode(), File, file="f.yaml")
    assert isinstance(document, Document), "\n".join(map(str, document))
    return document.value


def mistakes(text: str | bytes) -> list[str]:
    problems = parse(
        text if isinstance(text, bytes) else text.encode(),
        File,
        file="f.yaml",
        title=lambda keys, values: f'item "{values["name"]}"' if "name" in values else ".".join(map(str, keys)),
    )
    assert isinstance(problems, list)
    return [str(problem) for problem in problems]


def test_a_file_becomes_its_type() -> None:
    text = "items: [a, {name: b, port: 22, wait: 1h30m, policy: loose, look: true, files: [x, y], labels: {k: v}}]"
    assert value(text).items == [
        "a",
        Item(
            name="b",
            port=22,
            wait=timedelta(minutes=90),
            policy=Policy.LOOSE,
            look=True,
            files=["x", "y"],
            labels={"k": "v"},
        ),
    ]


@pytest.mark.parametrize("text", [b"\xef\xbb\xbfitems: [a]\n", b"items:\r\n- a\r\n", b"items: [a]"])
def test_a_byte_order_mark_and_windows_line_ends_do_no_harm(text: bytes) -> None:
    assert value(text).items == ["a"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "items:\n- name: gpu-07\n  prot: 22\n",
            'f.yaml:3:3: unknown key "prot" in item "gpu-07"\n'
            '        did you mean "port"? Keys allowed here: files, labels, look, name, policy, port, wait',
        ),
        ("items: [{name: a, port: 0}]", 'f.yaml:1:25: "port" in item "a" must be a whole number from 1 to 65535'),
        ("items: [{name: a, port: 08}]", 'f.yaml:1:25: "port" in item "a" must be a whole number'),
        ('items: [{name: a, port: "22"}]', "remove the quotes"),
        ("items: [{name: a, wait: 2}]", "a time needs its unit: 2s"),
        ("items: [{name: a, wait: -2s}]", '"wait" in item "a" must be a time such as 2s or 500ms'),
        ("items: [{name: a, policy: lose}]", 'must be strict or loose, not "lose"'),
        ("items: [{name: a, look: maybe}]", 'must be auto, true or false, not "maybe"'),
        ("items: [{port: 22}]", 'f.yaml:1:9: items.0 has no "name"'),
        ("items: [[a]]", 'f.yaml:1:9: an entry of "items" must be a text or a mapping, not a list'),
        ("items: a", 'f.yaml:1:8: "items" must be a list, not "a"'),
        ("items:\n- name: a\n  port: 1\n  port: 2\n", 'f.yaml:4:3: the key "port" stands twice in item "a"'),
        ("items:\n- name: a\n  port: 1\n  port: 2\n", "first on line 3"),
        ("items: [{name: a, labels: {yes: b}}]", 'quote it: "yes"'),
        ("items: [{name: a, labels: {[x]: b}}]", "a key in items.0.labels is a list "),
        ("items: [{<<: {name: a}}]", "merge keys"),
        ("items: [!vault x]", "must be a text or a mapping, not a value with the tag !vault"),
        ("[a]", "f.yaml:1:1: the file must be a mapping, not a list"),
        ("items: [a\n", "f.yaml:2:1: not valid YAML: while parsing a flow sequence"),
        ("items: [gpu[1-2]]", "needs quotes"),
        ("items:\n\t- a", "f.yaml:2:1: not valid YAML"),
        ("items:\n\t- a", "indent with blanks, not with tabs"),
        ("items:\n- @train", "f.yaml:2:3: not valid YAML"),
        ("items:\n- @train", "a text that begins with @ needs quotes"),
        ("items: *x", "a text that begins with * needs quotes"),
        ("items: a: b", "needs quotes"),
        ("items: []\n---\nitems: []", "f.yaml:2:1: not valid YAML"),
        ("", "f.yaml: the file is empty"),
        ("# nothing\n", "f.yaml: the file is empty"),
        ("items: [a\x07b]", "f.yaml:1:10: control character \\x07"),
        (b"items: [a]\nitems: [\xff]", "f.yaml:2:9: not UTF-8 text"),
    ],
)
def test_a_mistake_is_named_with_its_place(text: str | bytes, message: str) -> None:
    assert message in "\n".join(mistakes(text))


@pytest.mark.parametrize(
    ("word", "kind"), [("no", "true or false"), ("012", "a number"), ("1:30", "a number"), ("2026-01-01", "a date")]
)
def test_a_name_that_yaml_takes_for_something_else_must_be_quoted(word: str, kind: str) -> None:
    assert value(f'items: ["{word}"]').items == [word]
    (message,) = mistakes(f"items:\n- {word}\n")
    assert message.startswith("f.yaml:2:3: ")
    assert message.endswith(f'not {word}: YAML reads it as {kind}\n        quote it: "{word}"')


def test_all_mistakes_are_reported_at_once() -> None:
    assert len(mistakes("items: [no, {name: a, port: x, wait: 2}, {prot: 1}]\nextra: 1\n")) == 6


def test_a_mistake_after_parsing_is_placed_by_its_keys() -> None:
    document = parse(b"items:\n- a\n- name: b\n  labels: {k: v}\n", File, file="f.yaml")
    assert isinstance(document, Document)
    assert str(document.problem(("items", 1, "labels", "k"), "odd", "hint")) == "f.yaml:4:15: odd\n        hint"
    assert document.line(("items", 0)) == 2
    assert document.line(("items", 7, "x")) == 2, "as far as the keys lead"


def test_a_file_that_refers_to_itself_is_a_mistake_and_no_loop() -> None:
    assert mistakes("items: &a [*a]")


def test_a_very_deep_file_is_a_mistake_and_no_crash() -> None:
    assert mistakes("items: " + "[" * 100_000)


def test_a_file_that_cannot_be_read_is_one_line(tmp_path: Path) -> None:
    assert [str(problem) for problem in read(tmp_path / "none.yaml", File)] == [  # type: ignore[union-attr]
        f"{tmp_path}/none.yaml: cannot be read: No such file or directory"
    ]


@pytest.mark.parametrize(("text", "seconds"), [("2s", 2), ("500ms", 0.5), ("1h30m", 5400), ("1.5s", 1.5), ("0s", 0)])
def test_a_time_is_read_with_its_unit(text: str, seconds: float) -> None:
    assert duration(text) == timedelta(seconds=seconds)


@pytest.mark.parametrize("text", ["", "2", "s", "-2s", "+2s", "2 s", "٢s", "nan", "9" * 30 + "h", "1x", ".s", "2s\n"])
def test_what_is_no_time_is_none(text: str) -> None:
    assert duration(text) is None


def test_what_has_no_end_is_not_read_to_it() -> None:
    problems = read(Path("/dev/zero"), File)
    assert isinstance(problems, list)
    assert "is larger than 64 MiB" in str(problems[0])

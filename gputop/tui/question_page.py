"""What dialogs of connecting say: pure functions from questions to lines."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field

from rich.cells import cell_len

from gputop.catalog.text import clean, counted, cut, pad, wrap
from gputop.domain.question import LoginQuestion, PassphraseQuestion, Prompt
from gputop.tui.draw import Span, Spans, fit, remote
from gputop.tui.questions import AskedKey

NAMES_SHOWN = 4
SERVER_LINES = 100
"""Of a server's words are shown; it may send as many as it likes."""

KEY_TYPES = {
    "ssh-ed25519": "ED25519",
    "ssh-rsa": "RSA",
    "ssh-dss": "DSA",
    "ecdsa-sha2-nistp256": "ECDSA 256",
    "ecdsa-sha2-nistp384": "ECDSA 384",
    "ecdsa-sha2-nistp521": "ECDSA 521",
}
"""As ssh-keygen names them; others stand as they are."""

KeyId = tuple[str, str]
"""The server as known_hosts names it, and the fingerprint: what is written down when it is accepted."""


@dataclass(slots=True)
class KeyRow:
    """A key that servers show, and the questions that its acceptance answers."""

    id: KeyId
    names: tuple[str, ...]
    """Of the hosts that wait for it."""
    target: str
    jump: str | None
    kind: str
    same: int
    """Other servers that show the same key."""
    asked: list[AskedKey] = field(default_factory=list)


def key_rows(asked: Iterable[AskedKey]) -> list[KeyRow]:
    """The open questions as rows, in the order that they came; hosts that mean the same server share one."""
    rows: dict[KeyId, KeyRow] = {}
    for one in asked:
        if not one.is_open:
            continue
        question = one.question
        row = rows.setdefault(
            (question.server, question.fingerprint),
            KeyRow(
                id=(question.server, question.fingerprint),
                names=(),
                target=question.target,
                jump=question.jump,
                kind=KEY_TYPES.get(question.algorithm, question.algorithm),
                same=0,
            ),
        )
        row.asked.append(one)
        row.names = tuple(dict.fromkeys((*row.names, question.host, *question.hosts())))
    shown = Counter(row.id[1] for row in rows.values())
    for row in rows.values():
        row.same = shown[row.id[1]] - 1
    return list(rows.values())


@dataclass(slots=True)
class Place:
    """Where a row stands among the lines."""

    first: int
    lines: int


@dataclass(slots=True)
class KeyTable:
    lines: list[Spans]
    places: dict[KeyId, Place]


ADVICE = (
    "No known_hosts has {these}. Compare {each} with the server's own (ssh-keygen -lf on its console); "
    "whoever shows another one listens in."
)
ADVICE_ON_ONE = ADVICE.format(these="this key", each="it")
ADVICE_ON_MANY = ADVICE.format(these="these keys", each="each") + " Space marks a key."


def key_table(
    rows: Sequence[KeyRow], cursor: KeyId | None, marks: Collection[KeyId], width: int, *, advises: bool
) -> KeyTable:
    """The rows under each other: one line each where all fit, else as many as it takes; a fingerprint is never cut."""
    table = KeyTable(lines=[], places={})
    if advises:
        table.lines += _said(ADVICE_ON_ONE if len(rows) == 1 else ADVICE_ON_MANY, max(2, width - 2), "dim")
    names = max((cell_len(_name(row)) for row in rows), default=0)
    targets = max((cell_len(_way(row)) for row in rows), default=0)
    kinds = max((len(row.kind) for row in rows), default=0)
    prints = max((len(row.id[1]) for row in rows), default=0)
    has_same = any(row.same for row in rows)
    fits = 5 + names + 2 + targets + 2 + kinds + 2 + prints + (11 if has_same else 0) <= width
    if fits and rows:
        same = "  SAME KEY" if has_same else ""
        titles = (("HOST", names), ("ADDRESS", targets), ("TYPE", kinds), ("FINGERPRINT", prints))
        head = "  ".join(pad(title, size) for title, size in titles)
        table.lines.append(((f"     {head}{same}", "dim"),))
    for row in rows:
        here, mark = ("›" if row.id == cursor else " "), ("■" if row.id in marks else " ")
        sign: Spans = ((f" {here}", "accent"), (f"{mark} ", "key"))
        style = "strong" if row.id == cursor else "text"
        first = len(table.lines)
        if fits:
            line: list[Span] = [
                *sign,
                (f" {pad(_name(row), names)}  ", style),
                (f"{pad(_way(row), targets)}  ", "dim"),
                (f"{pad(row.kind, kinds)}  ", "text"),
                (pad(row.id[1], prints), style),
            ]
            if row.same:
                line.append((f"  {row.same} more", "warn"))
            table.lines.append(tuple(line))
        else:
            table.lines += _stacked(row, sign, style, width, kinds)
        table.places[row.id] = Place(first, len(table.lines) - first)
    return table


def _stacked(row: KeyRow, sign: Spans, style: str, width: int, kinds: int) -> list[Spans]:
    room = max(2, width - 6)
    name, way = _name(row), _way(row)
    if cell_len(name) + 2 + cell_len(way) <= room:
        lines: list[Spans] = [(*sign, (f" {name}", style), (f"  {way}", "dim"))]
    else:
        lines = [(*sign, (f" {cut(name, room)}", style))]
        lines += [((f"      {piece}", "dim"),) for piece in wrap(way, room)]
    if kinds + 2 + len(row.id[1]) <= room:
        lines.append(((f"      {pad(row.kind, kinds)}  ", "text"), (row.id[1], style)))
    else:
        lines.append(((f"      {row.kind}", "text"),))
        lines += [((f"      {piece}", style),) for piece in wrap(row.id[1], room)]
    if row.same:
        lines.append(((f"      the same key as {counted(row.same, 'other server')}", "warn"),))
    return lines


def _name(row: KeyRow) -> str:
    others = len(row.names) - 1
    return remote(row.names[0]) + (f" (+ {counted(others, 'host')})" if others > 0 else "")


def _way(row: KeyRow) -> str:
    return row.target + (f" by {remote(row.jump)}" if row.jump is not None else "")


def names_of(hosts: Sequence[str]) -> str:
    """The hosts in words: the first names, and how many more."""
    shown = ", ".join(remote(host) for host in hosts[:NAMES_SHOWN])
    return f"{shown} and {len(hosts) - NAMES_SHOWN} more" if len(hosts) > NAMES_SHOWN else shown


def passphrase_lines(question: PassphraseQuestion, width: int) -> list[Spans]:
    """Which key, who waits for it, and what was wrong."""
    room = max(2, width - 2)
    hosts = question.hosts()
    lines: list[Spans] = []
    if question.wrong:
        left = question.tries - question.wrong
        tries = f"{left} more {'try' if left == 1 else 'tries'}"
        lines += _said(f"✕ wrong: it does not open the key ({remote(question.said, '')}); {tries}", room, "bad")
    lines += _said(remote(question.path), room, "strong")
    lines += _said(f"for {counted(len(hosts), 'host')}: {names_of(hosts)}", room)
    return lines + _said("The key is then held open in memory until gputop ends; nothing is written down.", room, "dim")


def login_lines(question: LoginQuestion, width: int, label_width: int) -> list[Spans]:
    """Who asks, and in what words. Those of the server stand behind a bar, whatever is in them."""
    room = max(2, width - 2)
    others = [host for host in question.hosts() if host != question.host]
    lines: list[Spans] = []
    if question.was_refused:
        lines += _said("✕ the server did not take the last answer", room, "bad")
    lines += _said(remote(question.target), room, "strong")
    if question.jump is not None:
        lines += _said(f"reached through jump host {remote(question.jump)}", room)
    if others:
        lines += _said(f"for {counted(len(others), 'host')} behind it: {names_of(others)}", room)
    if not question.is_kbdint:
        return lines + _said("It takes a password, and says nothing about it.", room, "dim")
    words = server_words(question, label_width)
    if words:
        lines.append(((" ┌ words of the server, not of gputop", "faint"),))
        lines += [((" │ ", "warn"), (piece, "text")) for line in words for piece in wrap(line, max(2, room - 3))]
        lines.append(((" └", "faint"),))
    return lines


def server_words(question: LoginQuestion, label_width: int) -> list[str]:
    """What the server says besides the words right before each answer; those too, where they are too long for that."""
    said = question.text.splitlines()
    for prompt in question.prompts:
        *before, label = _lines(prompt) or [""]
        said += before
        if cell_len(label) > label_width - 3:
            said.append(label)
    found = [clean(line).strip() for line in said]
    return [line for line in found if line][-SERVER_LINES:]


def prompt_label(prompt: Prompt, question: LoginQuestion, width: int) -> Spans:
    """What stands before an answer."""
    label = (_lines(prompt) or ["answer"])[-1]
    bar: Spans = ((" │ ", "warn"),) if question.is_kbdint else ((" ", "text"),)
    return fit((*bar, (cut(label, max(1, width - 4)), "strong")), width)


def _lines(prompt: Prompt) -> list[str]:
    """Its lines that say something."""
    return [line for part in prompt.words.splitlines() if (line := clean(part).strip())]


def _said(text: str, width: int, style: str = "text") -> list[Spans]:
    return [((f" {line}", style),) for line in wrap(text, width)]

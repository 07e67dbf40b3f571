"""YAML text and a msgspec type give a value, or every problem with its place in the file.

msgspec declares the shape; the walk over the YAML nodes here replaces its own conversion, because that stops at the
first error and knows no line numbers. Understood types: structs (in unions told apart by their tag), `dict[str, …]`,
lists, `tuple[…, ...]`, unions, `str`, `int`, `float`, `bool`, `None`, `timedelta` (written `2s`, `500ms`, `1h30m`),
enums and literals of texts.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import timedelta
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Final, Generic, TypeVar

import durationpy
import yaml
from msgspec import Struct, inspect

T = TypeVar("T")

Keys = tuple[str | int, ...]
"""The way from the top of a file to a value: keys of mappings and positions in lists."""

Title = Callable[[Keys, Mapping[str, str]], str]
"""Names a mapping for a person, such as `host "gpu-07"`, from the way to it and the plain values in it."""

LARGEST_BYTES: Final = 64 * 1024**2

_Loader: Final = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

_UNPRINTABLE = re.compile("[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""What YAML forbids in a file."""

_DECIMAL = re.compile(r"[-+]?(0|[1-9][0-9]*)")
_NUMBER = re.compile(r"[-+]?(0|[1-9][0-9]*)(\.[0-9]+)?")
_DURATION = re.compile(r"[0-9.]+[a-zµ]+([0-9.]+[a-zµ]+)*", re.ASCII)
_TAG = "tag:yaml.org,2002:"
_BAD: Final = object()


class ConfigProblem(Struct, frozen=True):
    """One mistake in a file: where, what, and what to do about it."""

    file: str
    line: int | None
    """From 1; `None` when the file as a whole is meant."""
    column: int | None
    """From 1."""
    summary: str
    hint: str | None = None

    def __str__(self) -> str:
        place = self.file if self.line is None else f"{self.file}:{self.line}:{self.column}"
        return f"{place}: {self.summary}" + (f"\n        {self.hint}" if self.hint else "")


class Document(Generic[T]):
    """A file that was understood; it remembers where each value stands."""

    def __init__(self, file: str, value: T, root: yaml.Node | None) -> None:
        self.file = file
        self.value = value
        self._root = root

    def problem(self, keys: Keys, summary: str, hint: str | None = None, *, of_key: bool = False) -> ConfigProblem:
        """A problem with the value that `keys` lead to; as far as they lead when there is no such value. `of_key`:
        with the last key itself."""
        line, column = _place(self._key(keys) if of_key else self._node(keys))
        return ConfigProblem(self.file, line, column, summary, hint)

    def line(self, keys: Keys) -> int | None:
        """The line of the value that `keys` lead to, from 1."""
        return _place(self._node(keys))[0]

    def _key(self, keys: Keys) -> yaml.Node | None:
        owner = self._node(keys[:-1])
        names = (
            [name for name, _ in owner.value if name.value == keys[-1]] if isinstance(owner, yaml.MappingNode) else []
        )
        return names[0] if names else owner

    def _node(self, keys: Keys) -> yaml.Node | None:
        node = self._root
        for key in keys:
            match node:
                case yaml.MappingNode():
                    inner = next((value for name, value in node.value if name.value == key), None)
                case yaml.SequenceNode() if isinstance(key, int) and key < len(node.value):
                    inner = node.value[key]
                case _:
                    inner = None
            if inner is None:
                break
            node = inner
        return node


def duration(text: str) -> timedelta | None:
    """The time that `2s`, `500ms` or `1h30m` stand for; `None` when it is none. A bare number has no unit: `None`."""
    if _DURATION.fullmatch(text) is None:
        return None
    try:
        return durationpy.from_str(text)
    except (durationpy.DurationError, ValueError, OverflowError):
        return None


def as_duration(seconds: float) -> str:
    """What `duration` would read as `seconds`, in the largest unit that is enough."""
    for unit, size in (("d", 86400), ("h", 3600), ("m", 60)):
        if seconds >= size and seconds % size == 0:
            return f"{seconds / size:.0f}{unit}"
    return f"{seconds:g}s"


def did_you_mean(word: str, known: Sequence[str]) -> str | None:
    """`did you mean "port"?`, or `None` when no known word is near."""
    near = get_close_matches(word, known, n=1)
    return f'did you mean "{near[0]}"?' if near else None


def read(
    path: Path, kind: type[T], *, title: Title | None = None, empty: T | None = None
) -> Document[T] | list[ConfigProblem]:
    """The file at `path` as a `kind`, or what is wrong with it. `empty`: the value of a file without content."""
    data = contents(path)
    if isinstance(data, ConfigProblem):
        return [data]
    return parse(data, kind, file=str(path), title=title, empty=empty)


def contents(path: Path) -> bytes | ConfigProblem:
    """The bytes of a file of a size that a person may have written: what is no file may have no end."""
    try:
        with path.open("rb") as file:
            data = file.read(LARGEST_BYTES + 1)
    except OSError as failure:
        return ConfigProblem(str(path), None, None, f"cannot be read: {failure.strerror or failure}")
    if len(data) > LARGEST_BYTES:
        return ConfigProblem(str(path), None, None, f"is larger than {LARGEST_BYTES // 1024**2} MiB")
    return data


def parse(
    data: bytes, kind: type[T], *, file: str, title: Title | None = None, empty: T | None = None
) -> Document[T] | list[ConfigProblem]:
    """`data` as a `kind`, or every problem that can be found in one go. `file` names it in messages."""
    document, problems = parse_what_is_right(data, kind, file=file, title=title, empty=empty)
    return problems if problems or document is None else document


def parse_what_is_right(
    data: bytes,
    kind: type[T],
    *,
    file: str,
    title: Title | None = None,
    empty: T | None = None,
    gaps: Callable[[Keys], bool] = lambda keys: False,
) -> tuple[Document[T] | None, list[ConfigProblem]]:
    """`data` as a `kind` without what is wrong in it, so that the rest can be looked at too, and what that is. `gaps`:
    the lists in which `None` stands for an entry that is wrong; any other list is left out as a whole."""
    root = _root(data, file)
    if isinstance(root, ConfigProblem):
        return None, [root]
    if root is None:
        return (Document(file, empty, None), []) if empty is not None else (None, [_nothing(file)])
    walk = _Walk(file, title or _dotted)
    value = walk.value(root, inspect.type_info(kind), ())
    if walk.problems:
        rest = _Walk(file, title or _dotted, gaps)
        value = rest.value(root, inspect.type_info(kind), ())
    return None if value is _BAD else Document(file, value, root), walk.problems


def _nothing(file: str) -> ConfigProblem:
    return ConfigProblem(file, None, None, "the file is empty")


def _root(data: bytes, file: str) -> yaml.Node | ConfigProblem | None:
    """The YAML of a file; `None`: there is none in it."""
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as failure:
        line = data.count(b"\n", 0, failure.start) + 1
        column = failure.start - data.rfind(b"\n", 0, failure.start)
        return ConfigProblem(file, line, column, "not UTF-8 text", "save the file as UTF-8")
    if found := _UNPRINTABLE.search(text):
        before = text[: found.start()]
        line, column = before.count("\n") + 1, len(before) - before.rfind("\n")
        return ConfigProblem(file, line, column, f"control character {ascii(found[0])[1:-1]}", "remove it")
    try:
        root: yaml.Node | None = _Loader(text).get_single_node()
    except yaml.MarkedYAMLError as failure:
        return _syntax_problem(failure, text, file)
    return root


def _syntax_problem(failure: yaml.MarkedYAMLError, text: str, file: str) -> ConfigProblem:
    mark = failure.problem_mark or failure.context_mark
    line, column = (mark.line + 1, mark.column + 1) if mark else (1, 1)
    lines = text.split("\n")
    rest = lines[line - 1][column - 1 :] if line <= len(lines) else ""
    hint = None
    if rest.startswith("\t"):
        hint = "indent with blanks, not with tabs"
    elif rest[:1] in tuple("@`%*&!"):
        hint = f"a text that begins with {rest[0]} needs quotes"
    elif "flow" in (failure.context or ""):
        hint = "inside [ ] and { } a text with brackets or commas needs quotes"
    elif rest.startswith(":"):
        hint = 'a text with ": " in it needs quotes, and a key stands at the beginning of its line'
    words = ", ".join(part for part in (failure.context, failure.problem) if part)
    return ConfigProblem(file, line, column, f"not valid YAML: {words}", hint)


def _dotted(keys: Keys, values: Mapping[str, str]) -> str:
    return f'"{".".join(map(str, keys))}"' if keys else "the file"


def _place(node: yaml.Node | None) -> tuple[int | None, int | None]:
    return (None, None) if node is None else (node.start_mark.line + 1, node.start_mark.column + 1)


class _Walk:
    """One pass over the nodes of a file, from the types that `inspect` reports."""

    def __init__(self, file: str, title: Title, gaps: Callable[[Keys], bool] | None = None) -> None:
        """`gaps`: what is wrong is left out, as for `parse_what_is_right`; `None`: it spoils what it stands in."""
        self.file = file
        self.title = title
        self._gaps = gaps
        self.problems: list[ConfigProblem] = []
        self._owners: list[tuple[yaml.MappingNode, Keys]] = []
        self._fields: dict[type, dict[str, inspect.Field]] = {}

    def value(self, node: yaml.Node, kind: inspect.Type, keys: Keys) -> Any:
        """The value of `node`, or `_BAD` after its problems were noted."""
        options = kind.types if isinstance(kind, inspect.UnionType) else (kind,)
        tagged = [option for option in options if isinstance(option, inspect.StructType) and option.tag_field]
        if isinstance(node, yaml.MappingNode) and len(tagged) > 1:
            return self._tagged(node, tagged, keys)
        for option in options:
            match node, option:
                case yaml.MappingNode(), inspect.StructType():
                    return self._struct(node, option, keys)
                case yaml.MappingNode(), inspect.DictType():
                    return self._dict(node, option, keys)
                case yaml.SequenceNode(), inspect.ListType():
                    items = [self.value(item, option.item_type, (*keys, i)) for i, item in enumerate(node.value)]
                    if self._gaps is not None and self._gaps(keys):
                        return [None if item is _BAD else item for item in items]
                    return _BAD if _BAD in items else items
                case yaml.SequenceNode(), inspect.VarTupleType():
                    items = [self.value(item, option.item_type, (*keys, i)) for i, item in enumerate(node.value)]
                    return _BAD if _BAD in items else tuple(items)
        if isinstance(node, yaml.ScalarNode):
            for option in options:
                value = _scalar(node, option)
                if value is not _BAD:
                    return value
        self._mismatch(node, options, keys)
        return _BAD

    def _tagged(self, node: yaml.MappingNode, kinds: Sequence[inspect.StructType], keys: Keys) -> Any:
        """The one of `kinds` whose tag stands in the mapping."""
        name = kinds[0].tag_field or ""
        said = [inner for key, inner in node.value if isinstance(key, yaml.ScalarNode) and key.value == name]
        by_tag = {str(kind.tag): kind for kind in kinds}
        if said and isinstance(said[0], yaml.ScalarNode) and said[0].value in by_tag:
            return self._struct(node, by_tag[said[0].value], keys)
        subject = f'"{keys[-1]}"' if keys else "the file"
        self._note(said[0] if said else node, f'the "{name}" of {subject} must be {_listed(list(by_tag))}')
        return _BAD

    def _struct(self, node: yaml.MappingNode, kind: inspect.StructType, keys: Keys) -> Any:
        fields = self._fields.setdefault(kind.cls, {field.encode_name: field for field in kind.fields})
        self._owners.append((node, keys))
        values: dict[str, Any] = {}
        for name, key, inner in self._pairs(node):
            field = fields.get(name)
            if name == kind.tag_field:
                continue
            if field is None:
                near = did_you_mean(name, list(fields))
                known = [*fields, *filter(None, [kind.tag_field])]
                allowed = f"Keys allowed here: {', '.join(sorted(known))}"
                hint = f"{near} {allowed}" if near else allowed
                self._note(key, f'unknown key "{name}" in {self._owner()}', hint)
                values[name] = _BAD
            else:
                values[field.name] = self.value(inner, field.type, (*keys, name))
        missing = [field.encode_name for field in kind.fields if field.required and field.name not in values]
        for name in missing:
            self._note(node, f'{self._owner()} has no "{name}"', f'add "{name}: …"')
        self._owners.pop()
        if self._gaps is not None:
            values = {name: value for name, value in values.items() if value is not _BAD}
            missing += [field.name for field in kind.fields if field.required and field.name not in values]
        return _BAD if missing or _BAD in values.values() else kind.cls(**values)

    def _dict(self, node: yaml.MappingNode, kind: inspect.DictType, keys: Keys) -> Any:
        self._owners.append((node, keys))
        values = {name: self.value(inner, kind.value_type, (*keys, name)) for name, _, inner in self._pairs(node)}
        self._owners.pop()
        if self._gaps is not None:
            return {name: value for name, value in values.items() if value is not _BAD}
        return _BAD if _BAD in values.values() else values

    def _owner(self) -> str:
        """The mapping that is being read, in words."""
        node, keys = self._owners[-1]
        plain = {
            key.value: value.value
            for key, value in node.value
            if isinstance(key, yaml.ScalarNode) and isinstance(value, yaml.ScalarNode)
        }
        return self.title(keys, plain)

    def _pairs(self, node: yaml.MappingNode) -> Iterator[tuple[str, yaml.Node, yaml.Node]]:
        """Name, key node and value node of each entry whose key is a text that stands there once."""
        seen: dict[str, yaml.Node] = {}
        for key, inner in node.value:
            if not isinstance(key, yaml.ScalarNode):
                self._note(key, f"a key in {self._owner()} is a list or a mapping", "a key is a text")
            elif key.tag == f"{_TAG}merge":
                self._note(key, 'merge keys ("<<") are not understood', "write the keys out")
            elif key.tag != f"{_TAG}str":
                summary = f"the key {key.value} in {self._owner()} is none: {_read_as(key)}"
                self._note(key, summary, f'quote it: "{key.value}"')
            elif key.value in seen:
                first = _place(seen[key.value])[0]
                self._note(key, f'the key "{key.value}" stands twice in {self._owner()}', f"first on line {first}")
            else:
                seen[key.value] = key
                yield key.value, key, inner

    def _mismatch(self, node: yaml.Node, options: Sequence[inspect.Type], keys: Keys) -> None:
        names = [key for key in keys if isinstance(key, str)]
        owner = f" in {self._owner()}" if len(names) > 1 and self._owners else ""
        subject = f'"{names[-1]}"{owner}' if names else "the file"
        if keys and isinstance(keys[-1], int):
            subject = f"an entry of {subject}"
        found, hint = "a list" if isinstance(node, yaml.SequenceNode) else "a mapping", None
        if isinstance(node, yaml.ScalarNode):
            found = f'"{node.value}"' if node.value else "nothing"
            if not node.tag.startswith(_TAG):
                found, hint = f"a value with the tag {node.tag}", "remove the tag"
            elif node.tag == f"{_TAG}null" and names and not isinstance(keys[-1], int):
                found, hint = "nothing", f'give a value, or leave "{names[-1]}" out'
            elif node.tag != f"{_TAG}str" and node.value and any(isinstance(o, inspect.StrType) for o in options):
                found, hint = f"{node.value}: {_read_as(node)}", f'quote it: "{node.value}"'
            elif any(isinstance(o, inspect.TimeDeltaType) for o in options) and _DECIMAL.fullmatch(node.value):
                hint = f"a time needs its unit: {node.value}s"
            elif node.style and any(isinstance(o, inspect.IntType | inspect.BoolType) for o in options):
                hint = "remove the quotes"
            for option in options:
                if isinstance(option, inspect.StructType) and option.tag_field and option.tag == node.value:
                    settings = [f"{option.tag_field}: {option.tag}"]
                    settings += [f"{field.encode_name}: …" for field in option.fields if field.required]
                    hint = f"{node.value} has settings of its own: {names[-1]}: {{{', '.join(settings)}}}"
        self._note(node, f"{subject} must be {_expected(options)}, not {found}", hint)

    def _note(self, node: yaml.Node, summary: str, hint: str | None = None) -> None:
        line, column = _place(node)
        problem = ConfigProblem(self.file, line, column, _printable(summary), hint and _printable(hint))
        if problem not in self.problems[-1:]:
            self.problems.append(problem)


def _scalar(node: yaml.ScalarNode, kind: inspect.Type) -> Any:
    text: str = node.value
    tag = node.tag.removeprefix(_TAG)
    match kind:
        case inspect.StrType() if tag == "str":
            return text
        case inspect.EnumType() if text in [member.value for member in kind.cls]:
            return kind.cls(text)
        case inspect.LiteralType() if text in kind.values:
            return text
        case inspect.BoolType() if tag == "bool":
            return text.lower() in ("yes", "true", "on")
        case inspect.IntType() if tag == "int" and _DECIMAL.fullmatch(text) and len(text) < 20:
            return int(text) if _in_range(int(text), kind) else _BAD
        case inspect.FloatType() if tag in ("int", "float") and _NUMBER.fullmatch(text):
            return float(text) if _in_range(float(text), kind) else _BAD
        case inspect.NoneType() if tag == "null":
            return None
        case inspect.TimeDeltaType():
            span = duration(text)
            return _BAD if span is None else span
    return _BAD


def _in_range(number: float, kind: inspect.IntType | inspect.FloatType) -> bool:
    return (
        (kind.ge is None or number >= kind.ge)
        and (kind.le is None or number <= kind.le)
        and (kind.gt is None or number > kind.gt)
    )


def _expected(options: Sequence[inspect.Type]) -> str:
    words: list[str] = []
    for option in options:
        match option:
            case inspect.StrType():
                words.append("a text")
            case inspect.EnumType():
                words += [str(member.value) for member in option.cls]
            case inspect.LiteralType():
                words += [str(value) for value in option.values]
            case inspect.BoolType():
                words += ["true", "false"]
            case inspect.IntType() if option.le is not None:
                words.append(f"a whole number from {option.ge} to {option.le}")
            case inspect.IntType():
                words.append("a whole number" if option.ge is None else f"a whole number of {option.ge} or more")
            case inspect.FloatType() if option.le is not None:
                words.append(f"a number from {option.ge or option.gt or 0:g} to {option.le:g}")
            case inspect.FloatType():
                words.append("a number")
            case inspect.TimeDeltaType():
                words.append("a time such as 2s or 500ms")
            case inspect.ListType() | inspect.VarTupleType():
                words.append("a list")
            case inspect.StructType() | inspect.DictType():
                words.append("a mapping")
            case inspect.NoneType():
                words.append("null")
    return _listed(list(dict.fromkeys(words)))


def _listed(words: Sequence[str]) -> str:
    return " or ".join(filter(None, (", ".join(words[:-1]), words[-1])))


def _read_as(node: yaml.ScalarNode) -> str:
    tag = node.tag.removeprefix(_TAG)
    kinds = {"bool": "true or false", "int": "a number", "float": "a number", "null": "nothing", "timestamp": "a date"}
    return f"YAML reads it as {kinds.get(tag, tag)}"


def _printable(text: str) -> str:
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)

"""Text of keys and values, nested by indentation: `amd-smi metric`, `ixsmi -q` and their like."""

import re
from typing import List, Optional

_LINE = re.compile(r"(?P<key>[^:]*?\S)\s*:(?:\s+(?P<value>.*))?$")
_DEPTH = 40
"""Deeper nesting is no output of a tool."""


class Node:
    """A key with its value, its children, or both."""

    __slots__ = ("children", "key", "value")

    def __init__(self, key: str, value: Optional[str]) -> None:
        self.key = key
        self.value = value
        self.children: List[Node] = []

    def child(self, key: str) -> "Optional[Node]":
        return next((node for node in self.children if node.key.lower() == key), None)

    def get(self, *path: str) -> Optional[str]:
        """The value at a path of keys in small letters."""
        node: Optional[Node] = self
        for key in path:
            node = node.child(key) if node else None
        return node.value if node else None

    def first(self, *paths: str) -> Optional[str]:
        """The value of the first of several paths (`power readings/power draw`) that has one."""
        for path in paths:
            value = self.get(*path.split("/"))
            if value is not None:
                return value
        return None


def parse(text: str) -> List[Node]:
    """The nodes at the left edge."""
    top = Node("", None)
    stack = [(-1, top)]
    last: Optional[Node] = None
    for line in text.split("\n"):
        body = line.strip()
        if not body or not body.strip("=-*+ "):
            continue
        if last is not None and last.value is not None and last.value.startswith("[") and not last.value.endswith("]"):
            last.value += " " + body
            continue
        indent = len(line) - len(line.lstrip())
        while len(stack) > 1 and (stack[-1][0] >= indent or len(stack) > _DEPTH):
            stack.pop()
        found = _LINE.match(body)
        last = Node(found.group("key"), found.group("value") or None) if found else Node(body, None)
        stack[-1][1].children.append(last)
        stack.append((indent, last))
    return top.children

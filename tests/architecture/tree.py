"""The source tree as the architecture tests see it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "gputop"


def modules(below: Path = PACKAGE) -> list[Path]:
    return sorted(below.rglob("*.py"))


def name_of(path: Path) -> str:
    """As the rules write it, such as `gputop/domain/clock.py`."""
    return path.relative_to(ROOT).as_posix()


def parse(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"), filename=str(path))


def dotted(node: ast.expr) -> str | None:
    """`asyncio.sleep` for the expression of that shape; `None` for any other."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        head = dotted(node.value)
        return None if head is None else f"{head}.{node.attr}"
    return None


def imported(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """Each imported module or name as (local name, full dotted name)."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.asname or alias.name.partition(".")[0], alias.name
        elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            for alias in node.names:
                yield alias.asname or alias.name, f"{node.module}.{alias.name}"


def uses(path: Path) -> Iterator[tuple[str, int]]:
    """Every name that the module uses, written out in full through its imports, with its line.

    `from time import monotonic as m; m()` is `time.monotonic` just as `import time; time.monotonic()` is.
    """
    tree = parse(path)
    full = dict(imported(tree))
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute | ast.Name):
            name = dotted(node)
            if name is not None:
                head, _, rest = name.partition(".")
                if head in full:
                    origin = full[head] if not full[head].startswith(f"{head}.") else head
                    name = f"{origin}.{rest}" if rest else origin
                yield name, node.lineno

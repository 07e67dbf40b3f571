"""Numbers with their noun. Here, so that every layer can use it."""

from __future__ import annotations


def counted(number: int, one: str, many: str | None = None) -> str:
    """`1 host`, `2 hosts`; `many`: where its plural is another one."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"

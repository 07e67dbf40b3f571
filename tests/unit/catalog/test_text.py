"""Texts made short."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from gputop.catalog.text import short_model, wrap


@pytest.mark.parametrize(
    ("full", "short"),
    [
        ("NVIDIA H100 80GB HBM3", "H100 80GB"),
        ("NVIDIA A100-SXM4-80GB", "A100 80GB"),
        ("Tesla V100-PCIE-16GB", "V100 16GB"),
        ("Tesla T4", "T4"),
        ("NVIDIA GeForce RTX 4090", "RTX 4090"),
        ("NVIDIA", "NVIDIA"),
        ("NVIDIA [red]L4\x1b[2J\n", "[red]L4[2J"),
        (None, ""),
    ],
)
def test_a_model_is_named_by_what_tells_it_apart(full: str | None, short: str) -> None:
    assert short_model(full) == short


@given(st.text(alphabet="ab 山[]–", max_size=80), st.integers(min_value=2, max_value=30))
def test_wrapped_text_keeps_every_character_and_its_width(text: str, width: int) -> None:
    lines = wrap(text, width)
    assert all(cell_len(line) <= width for line in lines)
    assert "".join(lines).replace(" ", "") == text.replace(" ", "")


def test_text_is_wrapped_at_blanks() -> None:
    assert wrap("one two three", 8) == ["one two", "three"]
    assert wrap("/a/very/long/path", 8) == ["/a/very/", "long/pat", "h"]

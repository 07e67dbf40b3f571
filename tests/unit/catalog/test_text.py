"""Texts made short."""

from __future__ import annotations

import pytest

from gputop.catalog.text import short_model


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

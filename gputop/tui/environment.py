"""Settings that Textual reads from the environment when it is imported; this package imports it first.

What the user has set stays.
"""

from __future__ import annotations

import os

FRAMES_PER_SECOND = "30"
"""The first paint after a pause is immediate; this limits only bursts. What a slow link cannot take is not drawn."""

os.environ.setdefault("TEXTUAL_FPS", FRAMES_PER_SECOND)
os.environ.setdefault("TEXTUAL_ANIMATIONS", "none")
os.environ.setdefault("TEXTUAL_SMOOTH_SCROLL", "0")

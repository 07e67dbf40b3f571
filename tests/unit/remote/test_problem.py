"""Problems in words."""

from __future__ import annotations

import pytest

from gputop.remote.problem import probe_hung


@pytest.mark.parametrize(("seconds", "said"), [(3.2, "3 s"), (119.0, "119 s"), (120.0, "2 min"), (3600.0, "60 min")])
def test_a_long_wait_is_told_in_minutes_so_that_the_line_stands_still(seconds: float, said: str) -> None:
    assert probe_hung("nvmlDeviceGetUUID", seconds, None)["summary"] == f"nvmlDeviceGetUUID has not returned for {said}"

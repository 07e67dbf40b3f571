"""Pure values and pure functions of gputop: standard library and msgspec only."""

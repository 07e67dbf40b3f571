"""User preferences and where files live."""

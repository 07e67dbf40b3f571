"""A Fleet as text: JSON, CSV, tables."""

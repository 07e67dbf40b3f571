"""Pages of text, as pure functions from values to lines: the detail of a host, details of a row, help, start."""

"""The log file: what gputop does, in plain lines; and the tracebacks of its own bugs."""

from __future__ import annotations

import logging
import os
import traceback
from datetime import UTC, datetime
from pathlib import Path

from gputop.cli import diagnostics
from gputop.cli.diagnostics import Exit
from gputop.settings import locations


class _Lines(logging.Formatter):
    """`TIME LEVEL LOGGER HOST MESSAGE`, the time in UTC; control characters of remote text are written as escapes."""

    def format(self, record: logging.LogRecord) -> str:
        host = getattr(record, "host", "-")
        time = datetime.fromtimestamp(record.created, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        head = f"{time} {record.levelname} {record.name} {host}"
        text = record.getMessage()
        if record.exc_info:
            text = f"{text}\n{self.formatException(record.exc_info)}"
        return f"{head} {_printable(text)}"


def _printable(text: str) -> str:
    return "".join(c if c.isprintable() else "\n    " if c == "\n" else ascii(c)[1:-1] for c in text)


def start(log_file: str | None, *, debug: bool) -> Exit | None:
    """Log into `log_file` (with `debug` alone: into the state folder), else nowhere; an exit code when it cannot be
    written. Libraries' warnings never reach standard error: that belongs to the screen and to `diagnostics`."""
    root = logging.getLogger()
    logging.captureWarnings(True)
    if log_file is None and not debug:
        root.addHandler(logging.NullHandler())
        return None
    path = Path(os.path.expanduser(log_file)) if log_file is not None else locations.state_folder() / "gputop.log"
    try:
        if log_file is None:
            path.parent.mkdir(parents=True, exist_ok=True)
        handler = logging.FileHandler(path, encoding="utf-8", errors="backslashreplace")
    except OSError as failure:
        return diagnostics.fail(f"cannot write the log file {path}: {failure.strerror}")
    handler.setFormatter(_Lines())
    root.addHandler(handler)
    root.setLevel(logging.DEBUG if debug else logging.INFO)
    return None


def keep_traceback(failure: BaseException) -> str:
    """Append the traceback of a bug to the state folder (readable by its owner alone); a sentence that says where."""
    text = "".join(traceback.format_exception(failure))
    logging.getLogger("gputop").error("internal error\n%s", text)
    path = locations.state_folder() / "crash.log"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with open(os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600), "w", encoding="utf-8") as file:
            file.write(f"{text}\n")
    except OSError as problem:
        return f"the traceback could not be kept in {path}: {problem.strerror}; --log-file FILE keeps it elsewhere"
    return f"the traceback is in {path}"

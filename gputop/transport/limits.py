"""What the operating system lets one process have."""

from __future__ import annotations

import errno
import resource

TOO_MANY_FILES = frozenset({errno.EMFILE, errno.ENFILE})
"""What opening a file or a socket says when the limit is reached."""


def allow_open_files(wanted: int) -> None:
    """Raise our own limit of open files to `wanted`, or as far as may be: 1,024 are usual, and 256."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        allowed = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, hard))

"""The agent as one piece of bytes, and the command that runs it from memory."""

from __future__ import annotations

import hashlib
import shlex
import zlib
from functools import cache
from importlib.metadata import distribution
from importlib.resources import files
from pathlib import Path

from msgspec import Struct

from gputop.remote.wire import EXIT_NO_PYTHON, EXIT_PAYLOAD_SHORT, SILENCE_LIMIT_SECONDS

# Login shells differ (bash, dash, fish, csh …), and every one of them must pass this text on unchanged to /bin/sh: it
# holds no single quote, no exclamation mark (history of csh), no backslash and no line end. Variables are safe, because
# single quotes keep them in all of these shells. The token alone on a line tells that there is a shell.
_FIND_PYTHON = (
    's=$1; t=$2; shift 2; echo $t; LC_ALL=C; export LC_ALL; n=; command -v nice >/dev/null 2>&1 && n="nice -n 5"; '
    'for p in "$@" python3 /usr/bin/python3 /usr/libexec/platform-python '
    "python3.14 python3.13 python3.12 python3.11 python3.10 python3.9 python3.8 python3.7 python3.6 "
    '/usr/local/bin/python3 "$HOME/.local/bin/python3" /opt/*/bin/python3 python; do '
    'case $p in "~/"*) p=$HOME/${p#??};; esac; '
    '"$p" -I -S -B -c "import sys,zlib,json,threading;sys.exit(sys.version_info<(3,6))" </dev/null >/dev/null 2>&1 '
    '&& exec $n "$p" -I -S -B -u -c "@LOADER@" $s $t; done; exit @NO_PYTHON@'
)

AGENT_WORDS = "exec(zlib.decompress(b))"
"""In the command line of every agent, on any server."""

# Without quotes, for the same reason. The alarm ends it when the network is cut before the payload is complete.
_LOADER = (
    f"import sys,zlib,signal;signal.alarm({SILENCE_LIMIT_SECONDS});n=int(sys.argv[1]);b=sys.stdin.buffer.read(n);"
    f"len(b)==n or sys.exit({EXIT_PAYLOAD_SHORT});{AGENT_WORDS}"
)

_SCRIPT = _FIND_PYTHON.replace("@LOADER@", _LOADER).replace("@NO_PYTHON@", str(EXIT_NO_PYTHON))
_NAME = "gputop"


class Bundle(Struct, frozen=True):
    """What is sent to a server."""

    payload: bytes
    """Compressed Python source."""
    digest: str
    """Hash of the sources: two agents with the same digest are the same program."""


@cache
def bundle() -> Bundle:
    """The agent: the modules of `gputop.remote` and the installed nvidia-ml-py, unchanged."""
    modules = {"gputop": "", "gputop.remote": ""}
    for entry in sorted(files("gputop.remote").iterdir(), key=lambda entry: entry.name):
        if entry.name.endswith(".py") and entry.name not in ("__init__.py", "loader.py"):
            modules["gputop.remote." + entry.name.removesuffix(".py")] = entry.read_text(encoding="utf-8")
    pynvml = Path(str(distribution("nvidia-ml-py").locate_file("pynvml.py")))
    modules["pynvml"] = pynvml.read_text(encoding="utf-8")
    loader = (files("gputop.remote") / "loader.py").read_text(encoding="utf-8")
    source = f"{loader}\nrun({modules!a}, sys.argv[2])\n".encode("ascii")
    return Bundle(zlib.compress(source, 9), hashlib.sha256(source).hexdigest()[:16])


def command(size: int, token: str, python: str | None = None) -> str:
    """The command line that finds a Python, reads `size` bytes of payload from standard input and runs them. `python`
    is tried first. It ends with `EXIT_NO_PYTHON` when there is none of version 3.6 or newer."""
    words = [_NAME, str(size), token, *([python] if python else [])]
    return f"exec /bin/sh -c '{_SCRIPT}' {' '.join(shlex.quote(word) for word in words)}"


def parse_command(line: str) -> tuple[int, str] | None:
    """`(size, token)` of a line made by `command`; `None` for any other line."""
    try:
        words = shlex.split(line)
    except ValueError:
        return None
    if words[:3] != ["exec", "/bin/sh", "-c"] or words[3:5] != [_SCRIPT, _NAME] or len(words) < 7:
        return None
    return (int(words[5]), words[6]) if words[5].isdecimal() else None

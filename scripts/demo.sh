#!/bin/sh
# The demo fleet on the real screen; without a terminal a table of it.
set -eu
cd "$(dirname "$0")/.."

if [ -t 0 ] && [ -t 1 ]; then
    exec .venv/bin/gputop demo "$@"
fi
echo "gputop: no terminal here, so this is a snapshot of the demo fleet; in a terminal, make demo shows it live" >&2
code=0
.venv/bin/gputop snapshot --demo --format table "$@" || code=$?
# 1 says that a host could not be read: the demo fleet always has one.
[ "$code" = 1 ] || exit "$code"

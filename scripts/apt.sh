#!/bin/sh
# Installs Debian packages, as root, without asking.   usage: scripts/apt.sh PACKAGE...
set -eu
export DEBIAN_FRONTEND=noninteractive
log=$(mktemp)
trap 'rm -f "$log"' EXIT
install() { apt-get install -y --no-install-recommends "$@" </dev/null >"$log" 2>&1; }

# The package lists of a fresh machine are empty or old: fetch them only when they are needed.
install "$@" && exit 0
if apt-get update </dev/null >"$log" 2>&1 && install "$@"; then exit 0; fi
tail -n 5 "$log" >&2
exit 1

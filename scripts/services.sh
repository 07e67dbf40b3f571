#!/bin/sh
# Installs what the tests against real services need (Debian and Ubuntu). Nothing is started by it or by hand: the
# tests start their own servers on loopback.
set -eu
cd "$(dirname "$0")/.."
PATH=$PATH:/usr/local/sbin:/usr/sbin:/sbin

packages=
lacks() { packages="$packages $1"; }

command -v sshd >/dev/null 2>&1 || lacks openssh-server
command -v ssh >/dev/null 2>&1 || lacks openssh-client
command -v tmux >/dev/null 2>&1 || lacks tmux
command -v gcc >/dev/null 2>&1 || lacks gcc
[ -e /usr/include/stdio.h ] || lacks libc6-dev
command -v ps >/dev/null 2>&1 || lacks procps
command -v ip >/dev/null 2>&1 || lacks iproute2
command -v sudo >/dev/null 2>&1 || lacks sudo

if [ -z "$packages" ]; then
    echo "gputop: the services for the tests are installed"
    exit 0
fi
line="apt-get install -y --no-install-recommends$packages"
if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null 2>&1; then
    echo "gputop: the tests against real services need, as root: $line" >&2
    exit 2
fi
echo "gputop: running: $line"
# shellcheck disable=SC2086  # a list of names
sh scripts/apt.sh $packages || { echo "gputop: that failed; run it by hand: $line" >&2; exit 1; }

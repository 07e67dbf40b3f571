#!/bin/sh
# Makes .venv, or brings it up to date.   usage: scripts/venv.sh run|dev
#
# run: what gputop itself needs; dev: that and the tools of the tests. A stamp file inside .venv is written last, so a
# .venv without its stamp was interrupted, and is made anew. The stamp names the checkout and the contents of
# pyproject.toml: a moved checkout makes it anew too, changed dependencies bring it up to date.
set -eu
cd "$(dirname "$0")/.."

say() { printf '%s\n' "gputop: $*" >&2; }
fail() { say "$*"; exit 1; }

kind=${1:-run}
case $kind in
    run) extra= ;;
    dev) extra='[dev]' ;;
    *) fail "usage: scripts/venv.sh run|dev" ;;
esac

is_new_enough() { "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; }
can_make_venv() { "$1" -c 'import ensurepip, venv' >/dev/null 2>&1; }
version_of() { "$1" -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null; }

here=$(pwd -P)
wanted="$here $(cksum <pyproject.toml)"
is_current() { [ -f "$1" ] && [ "$(cat "$1")" = "$wanted" ]; }

stamp=.venv/stamp-$kind
if is_current "$stamp" && is_new_enough .venv/bin/python; then exit 0; fi
# The tools of the tests include what gputop needs.
if [ "$kind" = run ] && is_current .venv/stamp-dev && is_new_enough .venv/bin/python; then exit 0; fi

is_usable_venv() {
    for known in .venv/stamp-run .venv/stamp-dev; do
        if [ -f "$known" ] && [ "$(cut -d' ' -f1 <"$known")" = "$here" ]; then
            is_new_enough .venv/bin/python
            return
        fi
    done
    return 1
}

find_python() {
    # The first that runs, is new enough and can make a .venv; else the first that is new enough.
    chosen=
    for candidate in python3.13 python3.12 python3.11 python3; do
        command -v "$candidate" >/dev/null 2>&1 || continue
        # A name that does not run (the shim of a version manager) is passed over.
        is_new_enough "$candidate" || continue
        if can_make_venv "$candidate"; then chosen=$candidate; return; fi
        [ -n "$chosen" ] || chosen=$candidate
    done
}

if ! is_usable_venv; then
    find_python
    if [ -z "$chosen" ]; then
        found=$(version_of python3 || true)
        [ -n "$found" ] && fail "needs Python 3.11 or newer, and python3 is $found: install python3.11 (with its venv) or newer"
        fail "needs Python 3.11 or newer, and found no python3: apt-get install python3 python3-venv"
    fi
    if ! can_make_venv "$chosen"; then
        line="apt-get install -y python$(version_of "$chosen")-venv"
        [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1 ||
            fail "$chosen cannot make a virtual environment (no ensurepip); as root: $line"
        say "$chosen cannot make a virtual environment (no ensurepip); running: $line"
        sh scripts/apt.sh "python$(version_of "$chosen")-venv" || fail "that failed; run it by hand: $line"
    fi
    say "making .venv with $chosen ($(version_of "$chosen"))"
    rm -rf .venv 2>/dev/null || fail "cannot replace $here/.venv: it belongs to another user"
    "$chosen" -m venv .venv >/dev/null || fail "cannot make $here/.venv with $chosen"
fi

rm -f .venv/stamp-run .venv/stamp-dev
say "installing what gputop needs${extra:+ and its test tools} into .venv (the first time takes a minute)"
PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore \
    .venv/bin/python -m pip install --quiet --no-warn-script-location -e ".$extra" </dev/null ||
    fail "pip could not install the packages (its words are above). Without a network: point PIP_INDEX_URL or PIP_FIND_LINKS at a mirror; then run make again"
printf '%s\n' "$wanted" >"$stamp"

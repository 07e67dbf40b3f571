#!/bin/sh
# Fetches the genuine nvidia-smi of Debian (non-free, not stored in the project) into a folder.  usage: genuine_smi.sh DIR
#
# Then: GPUTOP_GENUINE_NVIDIA_SMI=DIR make test ARGS='-k genuine'. It runs on the fake NVML library of the tests, and
# gputop reads what the real program makes of it.
set -eu
dir=${1:?usage: scripts/genuine_smi.sh DIR}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$dir" "$work/parts" "$work/lists/partial"
# Its security updates come from where this machine has its own from.
apt-get indextargets --format '$(REPO_URI) $(RELEASE)' | sort -u | while read -r uri release; do
    case $release in *-security) ;; *) continue ;; esac
    printf 'Types: deb\nURIs: %s\nSuites: %s\nComponents: non-free\nSigned-By: %s\n' \
        "$uri" "$release" /usr/share/keyrings/debian-archive-keyring.gpg
    break
done >"$work/parts/non-free.sources"
set -- -o Dir::Etc::SourceList=/dev/null -o "Dir::Etc::SourceParts=$work/parts" -o "Dir::State::Lists=$work/lists" \
    -o APT::Sandbox::User=root -qq
apt-get "$@" update
(cd "$work" && apt-get "$@" download nvidia-smi libnvidia-ml1)
for package in "$work"/*.deb; do dpkg-deb -x "$package" "$work/tree"; done
cp "$work"/tree/usr/lib/nvidia/current/nvidia-smi "$work"/tree/usr/lib/*/nvidia/current/libnvidia-ml.so.[0-9]*.* "$dir/"
ls "$dir"

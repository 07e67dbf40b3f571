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
command -v munged >/dev/null 2>&1 || lacks munge
command -v slurmctld >/dev/null 2>&1 || lacks slurmctld
command -v slurmd >/dev/null 2>&1 || lacks slurmd
command -v scontrol >/dev/null 2>&1 || lacks slurm-client
command -v etcd >/dev/null 2>&1 || lacks etcd-server
command -v kubectl >/dev/null 2>&1 || lacks kubernetes-client
command -v xz >/dev/null 2>&1 || lacks xz-utils
command -v openssl >/dev/null 2>&1 || lacks openssl
command -v ipmi_sim >/dev/null 2>&1 || lacks openipmi
command -v ipmitool >/dev/null 2>&1 || lacks ipmitool
python3 -c 'import ensurepip, venv' >/dev/null 2>&1 || lacks python3-venv

if [ -n "$packages" ]; then
    line="apt-get install -y --no-install-recommends$packages"
    if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null 2>&1; then
        echo "gputop: the tests against real services need, as root: $line" >&2
        exit 2
    fi
    echo "gputop: running: $line"
    # shellcheck disable=SC2086  # a list of names
    sh scripts/apt.sh $packages || { echo "gputop: that failed; run it by hand: $line" >&2; exit 1; }
fi

# moto speaks EC2 and sushy-tools Redfish. They bring a hundred packages: an environment of their own. The stamp is
# written last, so an interrupted one is made anew.
wanted="$(pwd -P) moto[ec2]>=5.1,<6 flask>=3 flask-cors>=5 sushy-tools>=2,<3"
if [ "$(cat .venv-services/stamp 2>/dev/null)" != "$wanted" ]; then
    echo "gputop: installing moto and sushy-tools into .venv-services (the first time takes a minute)"
    rm -rf .venv-services
    python3 -m venv .venv-services &&
        PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore .venv-services/bin/python -m pip install \
            --quiet --no-warn-script-location \
            'moto[ec2]>=5.1,<6' 'flask>=3' 'flask-cors>=5' 'sushy-tools>=2,<3' </dev/null ||
        { echo "gputop: that failed; the tests of EC2 and Redfish are skipped without it" >&2; exit 1; }
    printf '%s\n' "$wanted" >.venv-services/stamp
fi
echo "gputop: the services for the tests are installed"

#!/bin/sh
# Takes the pictures of the README and the docs anew: the real screen on the demo fleet, at one fixed moment.
set -eu
cd "$(dirname "$0")/.."

take() {
    # Exit code 1 says that a host could not be read: the demo fleet always has one.
    .venv/bin/gputop snapshot --demo --at 2026-03-02T09:30:00Z --format svg --size "$3" --view "$2" \
        --output "docs/images/$1.svg" || [ $? = 1 ]
}

mkdir -p docs/images
take hosts hosts 120x30
take gpus gpus 120x30
take gpu gpu:gpu-001:1 120x48
chmod 644 docs/images/*.svg

"""gputop is killed with SIGKILL at every moment of a stop, a start and a hibernation by EC2, and started again."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.needs import need_that
from tests.services.moto import Moto, program

pytestmark = pytest.mark.timeout(300)

PROGRAM = Path(__file__).with_name("crash_ec2.py")
ENVIRONMENT = {
    **{name: value for name, value in os.environ.items() if not name.startswith("AWS_")},
    "AWS_ACCESS_KEY_ID": "testing",
    "AWS_SECRET_ACCESS_KEY": "testing",
    "AWS_EC2_METADATA_DISABLED": "true",
}
LAUNCH = """
import boto3, sys
ec2 = boto3.client("ec2", region_name="us-east-1", endpoint_url=sys.argv[1])
made = ec2.run_instances(ImageId="ami-12c6146b", MinCount=1, MaxCount=1, InstanceType="g6.xlarge",
                         HibernationOptions={"Configured": True})
print(made["Instances"][0]["InstanceId"])
"""


@pytest.fixture(scope="module")
def moto() -> Iterator[Moto]:
    server = program("moto_server")
    need_that(server, "needs moto: make services")
    assert server is not None
    running = Moto(server)
    try:
        yield running
    finally:
        running.stop()


def run(*argv: str | Path) -> str:
    ran = subprocess.run(
        [sys.executable, *argv], capture_output=True, text=True, timeout=280, check=False, env=ENVIRONMENT
    )
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


@pytest.mark.parametrize("act", ["stop", "start", "hibernate"])
def test_after_a_sigkill_at_any_moment_ec2_was_asked_at_most_once_and_the_journal_is_true(
    act: str, moto: Moto, tmp_path: Path
) -> None:
    instance = run("-c", LAUNCH, moto.url).strip()
    attempts = [json.loads(line) for line in run(PROGRAM, act, tmp_path, moto.url, instance).splitlines()]
    assert len(attempts) > 8
    for attempt in attempts:
        where = f"{act}, killed at moment {attempt['at']}: {attempt}"
        assert attempt["ended"] == -9, where
        assert attempt["went_on"] == 0, where
        assert len(attempt["calls"]) <= 1, where
        done = attempt["state"] == attempt["wanted"]
        assert done is (len(attempt["calls"]) == 1), where  # what the journal says was done, was done
        if attempt["outcomes"] is None:
            assert not attempt["was_open"], where  # nothing was begun, or all was written down
            continue
        [(state, _)] = attempt["outcomes"]
        if act == "hibernate":
            # The played EC2 only stops: that is no hibernation. A call of which nothing is known is not made again.
            assert state in ("failed", "unverified"), where
        else:
            assert (state, done) == ("verified", True), where

"""Acts on real machines over SSH: each is an sshd as process 1 of its own namespaces, and reboots when told to."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.acts.conftest import Background, Gputop
from tests.acts.machines import Machine, Machines
from tests.acts.steps import DO, REASON, audit_of, wait_for


@pytest.fixture(scope="module")
def machine(machines: Machines) -> Machine:
    return machines.add("gpu-a")


@pytest.fixture(scope="module")
def inventory(machines: Machines, machine: Machine) -> Path:
    return machines.inventory(names=("gpu-a",))


@pytest.fixture(autouse=True)
def idle(machine: Machine) -> None:
    """Every test begins with an active, idle machine."""
    machine.wait_until_up()
    machine.devices(
        gpu__0__compute="", gpu__0__mem_used="", gpu__compute_mode="0", gpu__power_limit="700", gpu__broken=""
    )
    machine.run("rm -rf /run/gputop")
    (machine.folder / "smi.log").write_text("")


def test_a_host_without_scheduler_is_drained_verified_and_resumed(
    machine: Machine, inventory: Path, gputop: Gputop
) -> None:
    drained = gputop("drain", "-f", inventory, "gpu-a", *DO, *REASON, "--for", "2h")
    assert drained.returncode == 0, drained.stderr + drained.stdout
    assert "verified    drained" in drained.stdout
    marker = json.loads(machine.run("cat /run/gputop/drain.json"))
    assert marker["reason"] == "replace NIC, ticket 4711"
    assert "until" in marker
    assert "gpu-a  drained by" in gputop("actions").stdout
    records = audit_of(gputop, "--act", "drain")
    assert [record["event"] for record in records] == ["intent", "step", "step", "step", "step", "outcome"]
    assert records[0]["command"].startswith("gpu-a: sudo -n install -D -m 0644 /dev/stdin /run/gputop/drain.json")
    assert records[-1]["state_after"] == "drained"
    resumed = gputop("resume", "-f", inventory, "gpu-a", *DO)
    assert resumed.returncode == 0, resumed.stderr + resumed.stdout
    assert machine.run("ls /run/gputop") == ""
    assert gputop("actions").stdout == ""


def test_without_yes_the_plan_is_printed_and_nothing_is_done(machine: Machine, inventory: Path, gputop: Gputop) -> None:
    for extra in ((), ("--dry-run", *DO)):
        ran = gputop("drain", "-f", inventory, "gpu-a", *REASON, *extra)
        assert ran.returncode == 0, ran.stderr
        assert "sudo -n install -D -m 0644 /dev/stdin /run/gputop/drain.json" in ran.stdout
        assert f"nothing was done; --yes{'' if extra else ' --allow-actions'} does it" in ran.stderr
    assert machine.run("ls /run/gputop 2>/dev/null || echo nothing") == "nothing\n"
    assert audit_of(gputop) == []


def test_a_plan_of_a_host_that_does_not_answer_is_a_plan_and_says_what_would_refuse_it(
    machines: Machines, machine: Machine, gputop: Gputop
) -> None:
    """Exit 0: the plan was made and nothing was done. What it is worth stands in the plan and in the verdict."""
    down = machines.add("gpu-down")
    down.stop()
    path = machines.inventory(names=("gpu-a", "gpu-down"))
    ran = gputop("drain", "-f", path, "gpu-a", "gpu-down", *REASON, "--allow-actions")
    assert ran.returncode == 0, ran.stderr
    assert "gpu-down   now: unreachable" in ran.stdout
    assert "refused by stale-data: gpu-down: there is no reading of now" in ran.stdout
    assert "nothing was done; --yes would be refused (" in ran.stderr
    assert "stale-data" in ran.stderr
    found = json.loads(gputop("drain", "-f", path, "gpu-a", "gpu-down", *REASON, "--format", "json").stdout)
    hosts = {host["host"]: host for host in found["plan"]["hosts"]}
    assert (hosts["gpu-down"]["data_age_seconds"], hosts["gpu-down"]["state"]) == (None, "unknown")
    assert [block["kind"] for block in hosts["gpu-down"]["blocks"]] == ["no-answer"]
    assert {"guard": "stale-data", "host": "gpu-down"}.items() <= next(
        refusal for refusal in found["verdict"]["refusals"] if refusal["guard"] == "stale-data"
    ).items()
    assert found["outcomes"] is None
    refused = gputop("drain", "-f", path, "gpu-a", "gpu-down", *DO, *REASON)
    assert refused.returncode == 4
    assert machine.run("ls /run/gputop 2>/dev/null || echo nothing") == "nothing\n"


def test_a_plan_is_for_the_machine_by_boot_id_machine_id_and_host_key(
    machine: Machine, inventory: Path, gputop: Gputop
) -> None:
    plan = json.loads(gputop("drain", "-f", inventory, "gpu-a", *REASON, "--format", "json").stdout)
    identity = plan["plan"]["hosts"][0]["identity"]
    assert identity["boot_id"] == machine.run("cat /proc/sys/kernel/random/boot_id").strip()
    assert identity["machine_id"] == machine.run("cat /etc/machine-id").strip()
    fingerprint = subprocess.run(["ssh-keygen", "-lf", machine.folder / "host_key.pub"], capture_output=True, text=True)
    assert identity["host_key"] == fingerprint.stdout.split()[1]


def test_yes_without_allow_actions_is_refused_with_exit_4(machine: Machine, inventory: Path, gputop: Gputop) -> None:
    ran = gputop("drain", "-f", inventory, "gpu-a", *REASON, "--yes", "--format", "json")
    assert ran.returncode == 4
    assert ran.stdout == ""
    assert "read-only" in ran.stderr
    assert machine.run("ls /run/gputop 2>/dev/null || echo nothing") == "nothing\n"
    assert [record["event"] for record in audit_of(gputop)] == ["refused"]


def test_a_busy_gpu_keeps_a_drain_waiting_and_the_deadline_names_who_is_left(
    machine: Machine, inventory: Path, gputop: Gputop
) -> None:
    pid = machine.spawn()
    machine.devices(gpu__0__compute=f"{pid}:4096", gpu__0__mem_used="4100")
    ran = gputop("drain", "-f", inventory, "gpu-a", *DO, *REASON, "--deadline", "2s")
    assert ran.returncode == 1
    assert "pending     draining" in ran.stdout
    assert f"sleep (pid {pid}) of ops, 4,096 MiB" in ran.stdout
    machine.devices(gpu__0__compute="", gpu__0__mem_used="")
    machine.run(f"kill {pid}")
    again = gputop("drain", "-f", inventory, "gpu-a", *DO, *REASON)
    assert again.returncode == 0, again.stderr


def test_a_process_of_another_namespace_counts_as_busy(machine: Machine, inventory: Path, gputop: Gputop) -> None:
    machine.devices(gpu__0__compute="4000000:100")
    ran = gputop("drain", "-f", inventory, "gpu-a", *DO, *REASON, "--deadline", "1s")
    assert ran.returncode == 1
    assert "a process that cannot be seen (pid 4000000) of nobody known" in ran.stdout


def test_a_program_of_an_ordinary_user_is_busy_whatever_its_name(
    machine: Machine, machines: Machines, gputop: Gputop
) -> None:
    inventory = machines.inventory(user="root", names=("gpu-a",))  # whose processes they are, root alone sees in here
    pid = machine.spawn(program="nvidia-persistenced")
    machine.devices(gpu__0__compute=f"{pid}:900", gpu__0__mem_used="900")
    ran = gputop("drain", "-f", inventory, "gpu-a", *DO, *REASON, "--deadline", "1s")
    machine.run(f"kill {pid}")
    assert ran.returncode == 1, ran.stdout
    assert f"nvidia-persistenced (pid {pid}) of ops, 900 MiB" in ran.stdout
    service = machine.spawn(user="root", program="nvidia-persistenced")
    machine.devices(gpu__0__compute=f"{service}:900")
    again = gputop("drain", "-f", inventory, "gpu-a", *DO, *REASON)
    machine.run(f"kill {service}")
    assert again.returncode == 0, again.stdout


def test_memory_in_use_without_a_process_counts_as_busy(machine: Machine, inventory: Path, gputop: Gputop) -> None:
    machine.devices(gpu__0__mem_used="9000")
    try:
        ran = gputop("drain", "-f", inventory, "gpu-a", *DO, *REASON, "--deadline", "1s")
    finally:
        machine.devices(gpu__0__mem_used="")
    assert ran.returncode == 1
    assert "9,000 MiB in use without a process that can be seen" in ran.stdout


def test_no_wait_returns_at_once(machine: Machine, inventory: Path, gputop: Gputop) -> None:
    machine.devices(gpu__0__compute="4000000:100")
    ran = gputop("drain", "-f", inventory, "gpu-a", *DO, *REASON, "--no-wait", "--format", "json")
    assert ran.returncode == 0, ran.stderr
    assert json.loads(ran.stdout)["outcomes"][0]["state"] == "pending"


def test_a_reboot_is_proven_by_another_boot_id_and_a_healthy_reading(
    machine: Machine, inventory: Path, gputop: Gputop
) -> None:
    assert gputop("drain", "-f", inventory, "gpu-a", *DO, *REASON).returncode == 0
    before, downs = machine.boot_id, machine.downs
    ran = gputop("reboot", "-f", inventory, "gpu-a", *DO, *REASON, seconds=120)
    assert ran.returncode == 0, ran.stderr + ran.stdout
    assert machine.boot_id != before
    assert machine.downs == downs + 1
    assert "verified    active" in ran.stdout  # the marker lay below /run
    assert "does not answer" in ran.stderr or "a new boot" in ran.stderr


def test_a_reboot_whose_gputop_was_killed_is_proven_by_the_next_one_and_not_repeated(
    machines: Machines, gputop: Gputop, tmp_path: Path
) -> None:
    machine = machines.add("gpu-slow", boot_seconds=4)
    inventory = machines.inventory(names=("gpu-slow",))
    assert gputop("drain", "-f", inventory, "gpu-slow", *DO, *REASON).returncode == 0
    argv = [sys.executable, "-m", "gputop", "reboot", "-f", inventory, "gpu-slow", *DO, *REASON]
    environment = {**os.environ, "XDG_STATE_HOME": str(tmp_path / "state")}
    reboot = subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment)
    try:
        wait_for(lambda: machine.downs == 1, "the machine did not go down")
    finally:
        reboot.kill()
        reboot.wait()
    listed = gputop("actions").stdout
    assert 'in "reboot over SSH"' in listed
    ran = gputop("actions", "--resume", listed.split()[1], "--allow-actions", seconds=90)
    assert ran.returncode == 0, ran.stderr + ran.stdout
    assert machine.downs == 1
    assert [record["result"] for record in audit_of(gputop, "--act", "reboot", "--event", "outcome")] == ["verified"]
    machine.stop()


def test_a_host_that_is_not_drained_is_not_rebooted(machine: Machine, inventory: Path, gputop: Gputop) -> None:
    downs = machine.downs
    ran = gputop("reboot", "-f", inventory, "gpu-a", *DO, *REASON)
    assert ran.returncode == 4
    assert "not-drained" in ran.stderr
    assert machine.downs == downs


def test_a_power_off_over_ssh_is_never_shown_as_verified(machines: Machines, gputop: Gputop) -> None:
    machine = machines.add("gpu-off")
    inventory = machines.inventory(names=("gpu-off",))
    assert gputop("drain", "-f", inventory, "gpu-off", *DO, *REASON).returncode == 0
    plan = gputop("stop", "-f", inventory, "gpu-off", *REASON)
    assert "stops a bill is not known here" in plan.stdout or "power-off over SSH" in plan.stdout
    ran = gputop("stop", "-f", inventory, "gpu-off", *DO, *REASON, seconds=120)
    assert ran.returncode == 1
    assert "unverified  unknown" in ran.stdout
    assert not machine.is_up
    started = gputop("start", "-f", inventory, "gpu-off", *DO)
    assert started.returncode == 4
    assert machine.downs == 1


def test_a_signal_reaches_the_process_that_was_named_and_no_other(
    machine: Machine, inventory: Path, gputop: Gputop
) -> None:
    pid, other = machine.spawn(), machine.spawn()
    ran = gputop("signal", "-f", inventory, "gpu-a", *DO, "--pid", str(pid), "--reason", "stuck")
    assert ran.returncode == 0, ran.stderr + ran.stdout
    assert "it has ended" in ran.stdout
    assert machine.run(f"kill -0 {other} && echo alive") == "alive\n"
    machine.run(f"kill {other}")


def test_a_process_of_root_is_signaled_behind_sudo(machine: Machine, inventory: Path, gputop: Gputop) -> None:
    pid = machine.spawn(user="root")
    ran = gputop("signal", "-f", inventory, "gpu-a", *DO, "--pid", str(pid), "--signal", "KILL", "--reason", "stuck")
    assert ran.returncode == 0, ran.stderr + ran.stdout


def test_a_process_inside_a_container_is_refused(machine: Machine, inventory: Path, gputop: Gputop) -> None:
    machine.run("unshare --pid --fork sleep 12345 >/dev/null 2>&1 </dev/null & :")
    wait_for(lambda: machine.run("pgrep -x sleep || :") != "", "the process did not start")
    pid = machine.run("pgrep -nx sleep").strip()
    ran = gputop("signal", "-f", inventory, "gpu-a", *DO, "--pid", pid, "--reason", "stuck")
    machine.run(f"kill {pid}")
    assert ran.returncode == 4, ran.stdout
    assert "other-namespace" in ran.stderr


def test_a_power_cap_is_set_and_its_old_value_is_shown(machine: Machine, inventory: Path, gputop: Gputop) -> None:
    ran = gputop("power-cap", "-f", inventory, "gpu-a", *DO, "--watts", "500", "--gpu", "0", "--format", "json")
    assert ran.returncode == 0, ran.stderr + ran.stdout
    document = json.loads(ran.stdout)
    [step] = document["plan"]["hosts"][0]["steps"]
    assert step["command"] == "gpu-a: sudo -n nvidia-smi -i GPU-gpu-a-0 -pl 500"
    assert step["undo"]["wanted"]["watts"] == "700"
    assert machine.smi_calls() == ["-i GPU-gpu-a-0 -pl 500"]
    undone = gputop("actions", "--roll-back", document["plan"]["id"], "--allow-actions")
    assert undone.returncode == 0, undone.stderr
    assert machine.smi_calls() == ["-i GPU-gpu-a-0 -pl 500", "-i GPU-gpu-a-0 -pl 700"]


def test_a_reset_is_verified_by_a_fresh_reading(machine: Machine, inventory: Path, gputop: Gputop) -> None:
    ran = gputop("reset", "-f", inventory, "gpu-a", *DO, "--gpu", "1", *REASON)
    assert ran.returncode == 0, ran.stderr + ran.stdout
    assert machine.smi_calls() == ["--gpu-reset -i GPU-gpu-a-1"]


def test_a_gpu_that_somebody_uses_is_not_reset(machine: Machine, inventory: Path, gputop: Gputop) -> None:
    pid = machine.spawn()
    machine.devices(gpu__0__compute=f"{pid}:100")
    ran = gputop("reset", "-f", inventory, "gpu-a", *DO, *REASON)
    machine.run(f"kill {pid}")
    assert ran.returncode == 4
    assert f"sleep (pid {pid}) of ops holds it" in ran.stderr
    assert machine.smi_calls() == []


def test_two_machines_are_drained_the_canary_first(machines: Machines, gputop: Gputop) -> None:
    for name in ("pair-1", "pair-2"):
        machines.add(name)
    inventory = machines.inventory(names=("pair-1", "pair-2"))
    ran = gputop("drain", "-f", inventory, "pair-[1-2]", *DO, *REASON)
    assert ran.returncode == 0, ran.stderr + ran.stdout
    steps = [(record["host"], record["step"]) for record in audit_of(gputop, "--event", "step")]
    assert steps.index(("pair-1", "marker.write")) < steps.index(("pair-2", "marker.write"))
    for name in ("pair-1", "pair-2"):
        machines.machines[name].stop()


def test_two_machines_of_one_image_are_not_taken_for_one_and_one_with_two_names_is(
    machines: Machines, gputop: Gputop
) -> None:
    clones = [machines.add(name) for name in ("clone-1", "clone-2")]
    for clone in clones:
        (clone.folder / "machine-id").write_text("0123456789abcdef0123456789abcdef\n")
    ran = gputop("drain", "-f", machines.inventory(names=("clone-1", "clone-2")), "clone-[1-2]", *DO, *REASON)
    assert ran.returncode == 0, ran.stderr + ran.stdout
    path = machines.inventory(names=("clone-1",))
    alias = f"  - {{name: alias, address: localhost, port: {clones[0].port}, host_keys: accept-new}}\n"
    path.write_text(path.read_text() + alias)
    twins = gputop("drain", "-f", path, "clone-1", "alias", *DO, *REASON, XDG_CONFIG_HOME=str(machines.folder / "own"))
    assert twins.returncode == 4, twins.stdout
    assert "refused (twin): alias: it is the same machine as clone-1" in twins.stderr
    for clone in clones:
        clone.stop()


def test_a_closed_terminal_leaves_a_plan_that_is_resumed(machine: Machine, inventory: Path, gputop: Gputop) -> None:
    machine.devices(gpu__0__compute="4000000:100")
    with pytest.raises(subprocess.TimeoutExpired):  # SIGKILL at the end of its time
        gputop("drain", "-f", inventory, "gpu-a", *DO, *REASON, seconds=5)
    listed = gputop("actions")
    assert "unfinished: " in listed.stdout
    plan = listed.stdout.split()[1]
    machine.devices(gpu__0__compute="")
    ran = gputop("actions", "--resume", plan, "--allow-actions")
    assert ran.returncode == 0, ran.stderr + ran.stdout
    assert "verified    drained" in ran.stdout
    assert "unfinished" not in gputop("actions").stdout


def test_compute_mode_and_logins_are_closed_by_policy_and_opened_again(
    machine: Machine, machines: Machines, gputop: Gputop
) -> None:
    policy = "  policy: {idle_samples: 1, idle_interval: 100ms, compute_mode: true, nologin: true}\n"
    inventory = machines.inventory(user="root", names=("gpu-a",), defaults=policy)
    machine.devices(gpu__compute_mode="3")
    assert gputop("drain", "-f", inventory, "gpu-a", *DO, *REASON).returncode == 0
    assert machine.smi_calls() == ["-c PROHIBITED"]
    assert machine.run("ls /run/nologin") == "/run/nologin\n"
    resumed = gputop("resume", "-f", inventory, "gpu-a", *DO)
    assert resumed.returncode == 0, resumed.stderr
    assert machine.smi_calls() == ["-c PROHIBITED", "-c EXCLUSIVE_PROCESS"]  # as it was, not the default
    assert machine.run("ls /run/nologin 2>/dev/null || echo none") == "none\n"


def test_an_interrupted_drain_can_be_rolled_back(machine: Machine, inventory: Path, gputop: Gputop) -> None:
    machine.devices(gpu__0__compute="4000000:100")
    with pytest.raises(subprocess.TimeoutExpired):
        gputop("drain", "-f", inventory, "gpu-a", *DO, *REASON, seconds=5)
    assert machine.run("ls /run/gputop") == "drain.json\n"
    plan = gputop("actions").stdout.split()[1]
    refused = gputop("actions", "--roll-back", plan)
    assert refused.returncode == 4
    ran = gputop("actions", "--roll-back", plan, "--allow-actions")
    assert ran.returncode == 0, ran.stderr + ran.stdout
    assert machine.run("ls /run/gputop") == ""
    assert gputop("actions").stdout == ""


def test_everything_about_a_host_is_inspected(machine: Machine, inventory: Path, gputop: Gputop) -> None:
    ran = gputop("inspect", "-f", inventory, "gpu-a", "--raw", "--format", "json")
    assert ran.returncode == 0, ran.stderr
    found = json.loads(ran.stdout)
    assert found["state"] == "active"
    assert found["host"]["boot_id"] == machine.boot_id
    assert found["scheduler"]["raw"] == "no marker"
    assert found["instance"]["provider"] == "ssh"
    assert found["ages"]["scheduler_seconds"] >= 0
    raw = {output["command"]: output for output in found["raw"]}
    assert list(raw) == ["nvidia-smi -q", "nvidia-smi topo -m", "nvidia-smi nvlink -s", "nvidia-smi"]
    lines = raw["nvidia-smi -q"]["text"].splitlines()
    assert (len(lines), lines[-1].split()[1]) == (9000, "8999")
    assert raw["nvidia-smi topo -m"]["text"].startswith("\t\x1b[4mGPU0")
    assert raw["nvidia-smi nvlink -s"]["text"] == "half an answer\n"
    assert raw["nvidia-smi nvlink -s"]["problem"] == "exit status 1: GPU is lost"


def test_what_is_inspected_is_told_in_words(machine: Machine, inventory: Path, gputop: Gputop) -> None:
    text = gputop("inspect", "-f", inventory, "gpu-a", "--raw").stdout
    assert text.startswith("gpu-a   active   link ok")
    assert "\nGPU 1: Clocks" in text
    assert "none: a marker on the host says whether it is drained" in text
    assert "\n$ nvidia-smi topo -m\n          GPU0    GPU1\n  GPU0     X      NV18\n" in text
    assert "  half an answer\n  failed: exit status 1: GPU is lost\n" in text
    assert "None" not in text
    assert "\x1b" not in text


def test_a_bad_gate_stops_a_resume_and_an_override_sets_it_aside(
    machine: Machine, machines: Machines, gputop: Gputop
) -> None:
    more = "  power: ssh\n  expect_devices: 8\n  policy: {idle_samples: 1, idle_interval: 100ms}\n"
    inventory = machines.inventory(names=("gpu-a",), defaults=more)
    machine.run("mkdir -p /run/gputop && echo not-json > /run/gputop/drain.json")
    foreign = gputop("resume", "-f", inventory, "gpu-a", *DO)
    assert foreign.returncode == 4
    assert "drained by somebody" in foreign.stderr
    refused = gputop("resume", "-f", inventory, "gpu-a", *DO, "--consent", "drained-by-other")
    assert refused.returncode == 1, refused.stderr + refused.stdout
    assert "devices: 2 of 8" in refused.stdout
    assert machine.run("ls /run/gputop") == "drain.json\n"
    forced = gputop("resume", "-f", inventory, "gpu-a", *DO, "--override", "6 GPUs are out for repair")
    assert forced.returncode == 0, forced.stderr
    assert audit_of(gputop, "--event", "intent")[-1]["reason"] == "6 GPUs are out for repair"


def test_the_hooks_of_a_site_run_before_and_after(
    machine: Machine, machines: Machines, gputop: Gputop, tmp_path: Path
) -> None:
    log = tmp_path / "log"
    hook = tmp_path / "hook"
    hook.write_text(f'#!/bin/sh\necho "$@" >> {log}\necho did $1\n')
    hook.chmod(0o755)
    policy = (
        "  power: ssh\n  policy:\n    idle_samples: 1\n    idle_interval: 100ms\n"
        f"    pre_drain: [{hook}, pre, '{{host}}', '{{reason}}']\n"
        f"    is_drained: [{hook}, is]\n    post_resume: [{hook}, post]\n"
    )
    inventory = machines.inventory(names=("gpu-a",), defaults=policy)
    why = "NIC of {host}, asked by {by}"
    drained = gputop("drain", "-f", inventory, "gpu-a", *DO, "--reason", why)
    assert drained.returncode == 0, drained.stderr
    assert "verified    drained     2 devices empty\n" in drained.stdout, "the GPUs are the proof, not a hook's word"
    assert gputop("resume", "-f", inventory, "gpu-a", *DO).returncode == 0
    assert log.read_text().splitlines() == [f"pre gpu-a {why}", "is", "post"]
    [ran_before] = [step for step in audit_of(gputop, "--event", "step") if step["step"] == "hook.pre_drain"]
    assert ran_before["summary"] == "did pre", "what it printed is kept"
    hook.write_text("#!/bin/sh\necho still registered >&2\nexit 7\n")
    ran = gputop("drain", "-f", inventory, "gpu-a", *DO, *REASON)
    assert ran.returncode == 1
    assert "exit status 7: still registered" in ran.stdout
    assert machine.run("ls /run/gputop") == ""
    hook.write_text("#!/bin/sh\nexec sleep 1000\n")
    slow = inventory.read_text().replace("  policy:\n", "  policy:\n    hook_timeout: 1s\n")
    inventory.write_text(slow)
    hung = gputop("drain", "-f", inventory, "gpu-a", *DO, *REASON)
    assert hung.returncode == 1
    assert "no end within 1 s" in hung.stdout
    assert machine.run("ls /run/gputop") == ""


@pytest.mark.parametrize("how", ["reboot", "resumed by somebody"])
def test_a_drain_whose_marker_is_gone_at_its_end_is_not_verified(
    how: str, machine: Machine, inventory: Path, gputop: Gputop, gputop_in_background: Background
) -> None:
    machine.devices(gpu__0__compute="4000000:100")
    drain = gputop_in_background("drain", "-f", inventory, "gpu-a", *DO, *REASON)
    wait_for(lambda: audit_of(gputop, "--event", "step") != [], "the marker was not written")
    if how == "reboot":
        machine.crash()
        machine.wait_until_up()
    else:
        machine.run("rm /run/gputop/drain.json")
    machine.devices(gpu__0__compute="")
    said, _ = drain.communicate(timeout=60)
    assert drain.returncode == 1, said
    assert "failed" in said
    assert "see that it still takes no new work: the marker is gone: it takes new work" in said


def test_memory_that_no_process_accounts_for_keeps_a_gpu_from_a_reset(
    machine: Machine, inventory: Path, gputop: Gputop
) -> None:
    machine.devices(gpu__0__mem_used="9000")
    ran = gputop("reset", "-f", inventory, "gpu-a", *DO, *REASON)
    assert ran.returncode == 4
    assert "device-busy" in ran.stderr
    assert "9,000 MiB in use without a process that can be seen" in ran.stderr
    assert machine.smi_calls() == []


def test_a_machine_by_another_name_than_the_inventorys_is_not_acted_on(
    machine: Machine, machines: Machines, inventory: Path, gputop: Gputop
) -> None:
    ran = gputop("drain", "-f", inventory, f"ops@127.0.0.1:{machine.port}", *DO, *REASON)
    assert ran.returncode == 2
    assert "not in the inventory" in ran.stderr
    assert machine.run("ls /run/gputop 2>/dev/null || echo nothing") == "nothing\n"


def test_a_process_that_has_ended_and_waits_for_its_parent_counts_as_ended(
    machine: Machine, inventory: Path, gputop: Gputop
) -> None:
    script = "import os, time\nif child := os.fork():\n    print(os.getpid(), child, flush=True)\ntime.sleep(1000)\n"
    (machine.folder / "parent.py").write_text(script)
    machine.run(f"python3 {machine.folder}/parent.py >{machine.folder}/child 2>&1 </dev/null & :")
    wait_for(lambda: (machine.folder / "child").read_text().endswith("\n"), "the child was not started")
    parent, pid = (machine.folder / "child").read_text().split()
    ran = gputop("signal", "-f", inventory, "gpu-a", *DO, "--pid", pid, "--signal", "KILL", "--reason", "stuck")
    machine.run(f"kill {parent}")
    assert ran.returncode == 0, ran.stderr + ran.stdout
    assert "it has ended" in ran.stdout


def test_a_state_folder_that_cannot_be_made_refuses_every_act(
    machine: Machine, inventory: Path, gputop: Gputop, tmp_path: Path
) -> None:
    (tmp_path / "state").mkdir()
    (tmp_path / "state" / "gputop").write_text("a file")
    ran = gputop("drain", "-f", inventory, "gpu-a", *DO, *REASON)
    assert ran.returncode == 4
    assert "cannot be used" in ran.stderr
    assert "nothing was done" in ran.stderr
    assert machine.run("ls /run/gputop 2>/dev/null || echo nothing") == "nothing\n"


def test_an_unfinished_plan_whose_inventory_is_gone_can_be_forgotten(
    machine: Machine, machines: Machines, gputop: Gputop
) -> None:
    inventory = machines.inventory(names=("gpu-a",))
    machine.devices(gpu__0__compute="4000000:100")
    with pytest.raises(subprocess.TimeoutExpired):
        gputop("drain", "-f", inventory, "gpu-a", *DO, *REASON, seconds=5)
    inventory.unlink()
    plan = gputop("actions").stdout.split()[1]
    assert gputop("actions", "--forget", plan).returncode == 0
    assert "unfinished" not in gputop("actions").stdout
    assert audit_of(gputop, "--host", "gpu-a")[-1]["result"] == "forgotten"
    machine.devices(gpu__0__compute="")
    again = gputop("resume", "-f", machines.inventory(names=("gpu-a",)), "gpu-a", *DO)
    assert again.returncode == 0, "what was left on the host by a plan that is forgotten holds nothing: " + again.stderr


def test_what_loses_something_needs_a_reason_too(machine: Machine, inventory: Path, gputop: Gputop) -> None:
    pid = machine.spawn()
    ran = gputop("signal", "-f", inventory, "gpu-a", *DO, "--pid", str(pid))
    assert ran.returncode == 2
    assert "a reason is needed: nothing was done" in ran.stderr
    assert machine.run(f"kill -0 {pid} && echo alive") == "alive\n"
    machine.run(f"kill {pid}")


@pytest.mark.parametrize("when", ["while drained", "before the drain"])
def test_a_gpu_that_has_fallen_off_the_bus_keeps_its_host_from_work_although_nobody_expects_a_number(
    when: str, machine: Machine, inventory: Path, gputop: Gputop
) -> None:
    assert gputop("drain", "-f", inventory, "gpu-a", *DO, *REASON).returncode == 0
    if when == "before the drain":
        assert gputop("resume", "-f", inventory, "gpu-a", *DO).returncode == 0
    machine.devices(count="1")
    try:
        if when == "before the drain":
            drained = gputop("drain", "-f", inventory, "gpu-a", *DO, *REASON)
            assert drained.returncode == 0, drained.stderr
            assert "1 device empty" in drained.stdout
        plan = gputop("resume", "-f", inventory, "gpu-a").stdout
        refused = gputop("resume", "-f", inventory, "gpu-a", *DO)
    finally:
        machine.devices(count="2")
    assert "note   1 of 2 GPUs: it had more at an earlier drain" in plan
    assert refused.returncode == 1, refused.stdout
    assert "devices: 1 of 2 at an earlier drain" in refused.stdout
    assert machine.run("ls /run/gputop") == "drain.json\n"


@pytest.mark.parametrize("why", ["protected", "jump-host"])
def test_a_machine_that_nothing_may_be_done_to_is_known_under_another_address(
    why: str, machine: Machine, machines: Machines, gputop: Gputop
) -> None:
    path = machines.inventory(names=("gpu-a",))
    alias = f"{{name: alias, address: localhost, port: {machine.port}, host_keys: accept-new"
    more = ", protected: true}" if why == "protected" else "}\n  - {name: behind, address: 192.0.2.1, jump: alias}"
    path.write_text(path.read_text() + f"  - {alias}{more}\n")
    ran = gputop("drain", "-f", path, "gpu-a", *DO, *REASON, XDG_CONFIG_HOME=str(machines.folder / "own"))
    assert ran.returncode == 4, ran.stdout
    assert f"refused ({why}): gpu-a: " in ran.stderr
    if why == "protected":
        assert "it is alias by another name, and it is protected" in ran.stderr
    assert machine.run("ls /run/gputop 2>/dev/null || echo nothing") == "nothing\n"
    # a host of the fleet that nobody can ask stands in nobody's way
    path.write_text(path.read_text().replace(f"port: {machine.port}, host_keys", "port: 1, host_keys"))
    plan = gputop("drain", "-f", path, "gpu-a", *REASON).stdout
    assert "write the drain marker" in plan

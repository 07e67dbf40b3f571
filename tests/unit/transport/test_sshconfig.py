from __future__ import annotations

import asyncio
import os
import pwd
import socket
import stat
from pathlib import Path

import pytest

from gputop.domain.host import HostSpec
from gputop.domain.link import LinkFailure
from gputop.domain.problem import Problem, ProblemKind
from gputop.transport.route import endpoint, find_route
from gputop.transport.sshconfig import BUILT_IN, Query, Resolved, SshConfig, hop_spec, parse, resolved
from tests.needs import need

ME = pwd.getpwuid(os.getuid())
CASE = Path(__file__).parents[2] / "fixtures" / "cases" / "14-ssh-config.txt"


def of(text: str, *, alias: str = "h", environment: dict[str, str] | None = None) -> Resolved:
    return resolved(Query(alias=alias), parse(text), BUILT_IN, environment or {})


def test_the_output_of_ssh_G_becomes_a_value_with_every_token_expanded() -> None:
    found = of(
        """host h
hostname node.example
port 2222
user ops
identityfile ~/.ssh/id_%h
identityfile ${KEYS}/%r
certificatefile %d/c-cert.pub
identitiesonly yes
userknownhostsfile ~/.k1 /etc/%n%%
globalknownhostsfile none
hostkeyalias alias
addressfamily inet6
bindaddress 192.0.2.1
connecttimeout 7
serveraliveinterval 60
serveralivecountmax 2
stricthostkeychecking accept-new
proxycommand nc -X connect %h %p
hostkeyalgorithms ssh-ed25519,rsa-sha2-256""",
        environment={"KEYS": "/keys"},
    )
    assert found == Resolved(
        alias="h",
        hostname="node.example",
        port=2222,
        user="ops",
        identities=(f"{ME.pw_dir}/.ssh/id_node.example", "/keys/ops"),
        identities_chosen=True,
        identities_only=True,
        certificates=(f"{ME.pw_dir}/c-cert.pub",),
        known_hosts=(f"{ME.pw_dir}/.k1", "/etc/h%"),
        host_key_alias="alias",
        family=socket.AF_INET6,
        bind_address="192.0.2.1",
        connect_timeout_seconds=7,
        keepalive_seconds=60,
        keepalive_count=2,
        checking="accept-new",
        proxy_command="nc -X connect node.example 2222",
        host_key_algorithms=(),
    )


def test_only_what_differs_from_the_defaults_counts_as_chosen() -> None:
    defaults = parse("ciphers a,b\nhostkeyalgorithms x,y")
    same = resolved(Query(alias="h"), parse("ciphers a,b\nhostkeyalgorithms x,y"), defaults, {})
    other = resolved(Query(alias="h"), parse("ciphers b\nhostkeyalgorithms y,x"), defaults, {})
    assert (same.ciphers, same.host_key_algorithms) == ((), ())
    assert (other.ciphers, other.host_key_algorithms) == (("b",), ("y", "x"))


@pytest.mark.parametrize(
    ("value", "agent"),
    [
        (None, "/run/agent"),
        ("SSH_AUTH_SOCK", "/run/agent"),
        ("$OTHER", "/run/other"),
        ("${OTHER}", "/run/other"),
        ("$NOT_SET", None),
        ("none", None),
        ("~/agent.%u", f"{ME.pw_dir}/agent.{ME.pw_name}"),
    ],
)
def test_the_agent_is_found_as_ssh_finds_it(value: str | None, agent: str | None) -> None:
    line = "" if value is None else f"identityagent {value}"
    assert of(line, environment={"SSH_AUTH_SOCK": "/run/agent", "OTHER": "/run/other"}).agent == agent


@pytest.mark.parametrize(
    ("hop", "user", "address", "port"),
    [
        ("bastion", None, "bastion", None),
        ("ops@bastion:2222", "ops", "bastion", 2222),
        ("ssh://ops@bastion:22", "ops", "bastion", 22),
        ("ssh://bastion/", None, "bastion", None),
        ("[2001:db8::1]:2222", None, "2001:db8::1", 2222),
        ("a@[::1]", "a", "::1", None),
        ("[192.0.2.1]:22", None, "192.0.2.1", 22),
        ("2001:db8::1", None, "2001:db8::1", None),
        ("a@b@host", "a@b", "host", None),
    ],
)
def test_a_jump_host_is_read_in_every_form_that_ssh_takes(
    hop: str, user: str | None, address: str, port: int | None
) -> None:
    spec = hop_spec(hop, HostSpec(name="h", ssh_config=()))
    assert (spec.user, spec.address, spec.port, spec.ssh_config) == (user, address, port, ())


@pytest.fixture
def config() -> SshConfig:
    need("ssh")
    return SshConfig()


async def resolve(config: SshConfig, spec: HostSpec) -> Resolved:
    found = await config.resolve(spec)
    assert isinstance(found, Resolved), found
    return found


async def test_case_14_the_way_through_two_jump_hosts(config: SshConfig) -> None:
    route = await find_route(HostSpec(name="device-a", ssh_config=(str(CASE),)), {}, config)
    assert not isinstance(route, LinkFailure)
    assert [hop.resolved.target for hop in route] == [
        "ubuntu@192.0.2.10:22",
        "ubuntu@10.0.8.8:22",
        "ops@10.20.0.117:2222",
    ]
    assert endpoint(route).jump == ("ubuntu@192.0.2.10:22", "ubuntu@10.0.8.8:22")


async def test_the_inventory_beats_ssh_config(config: SshConfig, tmp_path: Path) -> None:
    file = tmp_path / "config"
    file.write_text(
        "Host h\n  HostName real.example\n  User conf\n  Port 99\n  IdentityFile /conf\n"
        "  UserKnownHostsFile /conf_known\n  ProxyJump bastion\n"
    )
    plain = await resolve(config, HostSpec(name="h", ssh_config=(str(file),)))
    assert (plain.target, plain.identities, plain.jump) == ("conf@real.example:99", ("/conf",), ("bastion",))
    spec = HostSpec(
        name="h", ssh_config=(str(file),), user="me", port=7, identity=("/mine",), known_hosts=("/known",), jump=()
    )
    mine = await resolve(config, spec)
    assert mine.target == "me@real.example:7"
    assert (mine.identities, mine.known_hosts, mine.jump) == (("/mine",), ("/known",), ())


async def test_several_files_count_in_their_order_and_none_is_written(config: SshConfig, tmp_path: Path) -> None:
    first, second = tmp_path / "first one", tmp_path / "second"
    first.write_text("Host a\n  User one\n")
    second.write_text("Host *\n  User two\n  Port 2\n")
    before = sorted(tmp_path.iterdir())
    found = await resolve(config, HostSpec(name="a", ssh_config=(str(first), str(second))))
    assert found.target == "one@a:2"
    assert sorted(tmp_path.iterdir()) == before


async def test_no_files_means_none_not_even_the_systems(config: SshConfig) -> None:
    found = await resolve(config, HostSpec(name="h", ssh_config=()))
    assert (found.port, found.user, found.identities_chosen) == (22, ME.pw_name, False)
    assert f"{ME.pw_dir}/.ssh/known_hosts" in found.known_hosts


async def test_a_broken_file_is_that_hosts_problem_with_file_and_line(config: SshConfig, tmp_path: Path) -> None:
    file = tmp_path / "config"
    file.write_text("Host *\n  Prot 22\n")
    broken, fine = await asyncio.gather(
        config.resolve(HostSpec(name="a", ssh_config=(str(file),))),
        config.resolve(HostSpec(name="a", ssh_config=())),
    )
    assert isinstance(broken, Problem)
    assert broken.kind is ProblemKind.SSH_CONFIG
    assert f"{file}: line 2" in broken.summary
    assert isinstance(fine, Resolved)


async def test_without_an_ssh_program_the_inventory_stands_alone() -> None:
    found = await resolve(
        SshConfig("/nonexistent/ssh"), HostSpec(name="h", address="192.0.2.1", port=7, user="u", ssh_config=())
    )
    assert found.target == "u@192.0.2.1:7"
    assert f"{ME.pw_dir}/.ssh/id_ed25519" in found.identities
    assert not found.identities_chosen


async def test_each_question_is_asked_once(tmp_path: Path) -> None:
    log, program = tmp_path / "log", tmp_path / "ssh"
    program.write_text(f'#!/bin/sh\necho "$@" >> {log}\necho hostname x\n')
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    config = SshConfig(str(program))
    await asyncio.gather(*(config.resolve(HostSpec(name="bastion")) for _ in range(40)))
    assert log.read_text().splitlines().count("-G -- bastion") == 1
    config.forget()
    await config.resolve(HostSpec(name="bastion"))
    assert log.read_text().splitlines().count("-G -- bastion") == 2


async def test_a_program_that_hangs_is_ended_when_nobody_waits_any_more(tmp_path: Path) -> None:
    pid, program = tmp_path / "pid", tmp_path / "ssh"
    program.write_text(f"#!/bin/sh\necho $$ > {pid}.new; mv {pid}.new {pid}; sleep 1000\n")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    config = SshConfig(str(program))
    task = asyncio.create_task(config.resolve(HostSpec(name="h")))
    while not pid.exists():
        await asyncio.sleep(0.01)
    task.cancel()
    await config.close()
    with pytest.raises(ProcessLookupError):
        os.kill(int(pid.read_text()), 0)


async def test_jump_hosts_that_go_round_in_a_circle_are_a_problem() -> None:
    hosts = {
        name: HostSpec(name=name, jump=(jump,), ssh_config=()) for name, jump in [("a", "b"), ("b", "c"), ("c", "a")]
    }
    failure = await find_route(hosts["a"], hosts, SshConfig("/nonexistent/ssh"))
    assert isinstance(failure, LinkFailure)
    assert failure.problem.kind is ProblemKind.SSH_CONFIG
    assert "a > b > c > a" in failure.problem.summary


async def test_a_host_of_its_own_chain_is_reached_by_the_hops_before_it() -> None:
    chain = ("outer", "inner")
    hosts = {name: HostSpec(name=name, jump=chain, ssh_config=()) for name in ("outer", "inner", "gpu")}
    config = SshConfig("/nonexistent/ssh")
    routes = [await find_route(spec, hosts, config) for spec in hosts.values()]
    names = [[hop.name for hop in route] for route in routes if not isinstance(route, LinkFailure)]
    assert names == [["outer"], ["outer", "inner"], ["outer", "inner", "gpu"]]


async def test_a_jump_host_of_the_inventory_comes_with_all_that_is_said_about_it() -> None:
    hosts = {"bastion": HostSpec(name="bastion", address="192.0.2.1", port=7, user="b", ssh_config=(), jump=("x@o:1",))}
    spec = HostSpec(name="gpu", user="u", jump=("bastion",), ssh_config=())
    route = await find_route(spec, hosts, SshConfig("/nonexistent/ssh"))
    assert not isinstance(route, LinkFailure)
    assert [hop.resolved.target for hop in route] == ["x@o:1", "b@192.0.2.1:7", "u@gpu:22"]

from __future__ import annotations

import asyncio
import errno
import os
import socket
import subprocess
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import NoReturn

import asyncssh
import pytest

from gputop.transport.keys import Keyring, LockedPair
from gputop.transport.needed import LockedKey, PersonNeeded
from gputop.transport.sshconfig import Resolved
from tests.needs import need


def write_key(path: Path, passphrase: str | None = None, kind: str = "openssh") -> asyncssh.SSHKey:
    key = asyncssh.generate_private_key("ssh-ed25519" if kind == "openssh" else "ecdsa-sha2-nistp256")
    path.write_bytes(key.export_private_key(kind))
    path.chmod(0o600)
    if passphrase and kind == "openssh":
        argv = [need("ssh-keygen"), "-q", "-p", "-P", "", "-N", passphrase, "-f", str(path)]
        subprocess.run(argv, check=True, capture_output=True)
    elif passphrase:
        path.write_bytes(key.export_private_key(kind, passphrase))
    return key


def logging_in(*identities: Path, **fields: object) -> Resolved:
    paths = tuple(str(path) for path in identities)
    return Resolved(alias="h", hostname="h", user="u", identities=paths, **fields)  # type: ignore[arg-type]


def refusing(number: int) -> Callable[..., NoReturn]:
    def refuse(*_: object, **__: object) -> NoReturn:
        raise OSError(number, os.strerror(number))

    return refuse


async def offered(ring: Keyring, resolved: Resolved) -> list[bytes]:
    async with ring.offer(resolved) as offer:
        return [pair.public_data for pair in offer.pairs]


async def test_missing_default_keys_are_skipped_and_missing_chosen_ones_named(tmp_path: Path) -> None:
    key = write_key(tmp_path / "id")
    ring = Keyring()
    missing = tmp_path / "none"
    async with ring.offer(logging_in(missing, tmp_path / "id")) as offer:
        assert [pair.public_data for pair in offer.pairs] == [key.public_data]
        assert offer.unreadable == []
    async with ring.offer(logging_in(missing, tmp_path / "id", identities_chosen=True)) as offer:
        assert len(offer.pairs) == 1
        assert offer.unreadable == [f"{missing}: no such file"]


async def test_a_file_that_is_no_key_is_named_and_the_others_are_offered(tmp_path: Path) -> None:
    write_key(tmp_path / "id")
    (tmp_path / "junk").write_bytes(b"\xff\x00 not a key")
    async with Keyring().offer(logging_in(tmp_path / "junk", tmp_path / "id")) as offer:
        assert len(offer.pairs) == 1
        assert str(tmp_path / "junk") in offer.unreadable[0]


async def test_a_key_whose_rights_were_corrected_is_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ring, key = Keyring(), write_key(tmp_path / "id")
    with monkeypatch.context() as patch:
        patch.setattr("builtins.open", refusing(errno.EACCES))
        assert await offered(ring, logging_in(tmp_path / "id")) == []
    assert await offered(ring, logging_in(tmp_path / "id")) == [key.public_data]


async def test_a_limit_of_our_own_is_no_fault_of_the_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_key(tmp_path / "id")
    monkeypatch.setattr("builtins.open", refusing(errno.EMFILE))
    with pytest.raises(OSError, match="Too many open files"):
        await offered(Keyring(), logging_in(tmp_path / "id"))


async def test_an_encrypted_key_that_shows_nothing_is_left_out_and_named_where_nobody_can_be_asked(
    tmp_path: Path,
) -> None:
    write_key(tmp_path / "id", "secret", "pkcs8-pem")
    async with Keyring().offer(logging_in(tmp_path / "id")) as offer:
        assert (offer.pairs, offer.encrypted, offer.unreadable) == ([], [str(tmp_path / "id")], [])


@pytest.mark.parametrize("kind", ["openssh", "pkcs8-pem"])
async def test_an_encrypted_key_that_stays_locked_is_left_out_and_named(tmp_path: Path, kind: str) -> None:
    write_key(tmp_path / "id", "secret", kind)
    path = str(tmp_path / "id")
    async with Keyring().offer(logging_in(tmp_path / "id"), lambda path: True, {path}) as offer:
        assert (offer.pairs, offer.encrypted, offer.sealed) == ([], [path], [])


@pytest.mark.parametrize("kind", ["openssh", "pkcs8-pem"])
async def test_a_key_is_opened_by_its_passphrase_once_for_all_logins(tmp_path: Path, kind: str) -> None:
    key, ring, path = write_key(tmp_path / "id", "secret", kind), Keyring(), str(tmp_path / "id")
    assert ring.is_locked(path)
    assert await ring.unlock(path, "wrong")
    assert ring.is_locked(path)
    assert await ring.unlock(path, "secret") is None
    assert not ring.is_locked(path)
    for _ in range(3):
        async with ring.offer(logging_in(tmp_path / "id")) as offer:
            (pair,) = offer.pairs
            assert (pair.public_data, offer.encrypted) == (key.public_data, [])
            assert pair.sign(b"x")


async def test_a_key_that_changes_is_locked_again(tmp_path: Path) -> None:
    ring, path = Keyring(), str(tmp_path / "id")
    write_key(tmp_path / "id", "secret")
    assert await ring.unlock(path, "secret") is None
    write_key(tmp_path / "id", "another")
    os.utime(tmp_path / "id", ns=(1, 1))
    assert ring.is_locked(path)


async def test_a_file_that_has_gone_says_so_instead_of_opening(tmp_path: Path) -> None:
    assert await Keyring().unlock(str(tmp_path / "none"), "secret") == os.strerror(errno.ENOENT)


@pytest.mark.parametrize("may_ask", [True, False])
async def test_a_locked_key_is_offered_by_its_public_half_and_signing_with_it_asks_for_its_passphrase(
    tmp_path: Path, may_ask: bool
) -> None:
    key = write_key(tmp_path / "id", "secret")
    async with Keyring().offer(logging_in(tmp_path / "id"), lambda path: may_ask) as offer:
        (pair,) = offer.pairs
        assert (offer.encrypted, offer.sealed) == ([], [])
        assert isinstance(pair, LockedPair)
        with pytest.raises(PersonNeeded) as needed:
            await pair.sign_async(b"x")
    assert needed.value.need == LockedKey(str(tmp_path / "id"))
    assert pair.public_data == key.public_data


async def test_a_locked_key_that_shows_nothing_is_kept_for_the_end(tmp_path: Path) -> None:
    write_key(tmp_path / "id", "secret", "pkcs8-pem")
    async with Keyring().offer(logging_in(tmp_path / "id"), lambda path: True) as offer:
        assert (offer.pairs, offer.encrypted, offer.sealed) == ([], [], [str(tmp_path / "id")])


async def test_a_key_file_is_read_again_only_when_it_changes(tmp_path: Path) -> None:
    ring = Keyring()
    write_key(tmp_path / "id")
    first = ring.load(str(tmp_path / "id"), chosen=True)
    assert ring.load(str(tmp_path / "id"), chosen=True) is first
    write_key(tmp_path / "id")
    os.utime(tmp_path / "id", ns=(1, 1))
    assert ring.load(str(tmp_path / "id"), chosen=True) is not first


async def test_a_certificate_beside_the_key_or_named_is_offered_before_the_bare_key(tmp_path: Path) -> None:
    key, authority = write_key(tmp_path / "id"), asyncssh.generate_private_key("ssh-ed25519")
    certificate = authority.generate_user_certificate(key, "me", principals=["u"])
    (tmp_path / "id-cert.pub").write_bytes(certificate.export_certificate())
    assert await offered(Keyring(), logging_in(tmp_path / "id")) == [certificate.public_data, key.public_data]
    (tmp_path / "id-cert.pub").rename(tmp_path / "named")
    named = logging_in(tmp_path / "id", certificates=(str(tmp_path / "named"),))
    assert await offered(Keyring(), named) == [certificate.public_data, key.public_data]


async def test_a_stale_agent_socket_is_named(tmp_path: Path) -> None:
    gone = str(tmp_path / "agent.1")
    async with Keyring().offer(logging_in(agent=gone)) as offer:
        assert gone in (offer.agent_trouble or "")
    dead = str(tmp_path / "agent.2")
    with socket.socket(socket.AF_UNIX) as sock:
        sock.bind(dead)
    async with Keyring().offer(logging_in(agent=dead)) as offer:
        assert dead in (offer.agent_trouble or "")
        assert "tmux" in (offer.agent_trouble or "")


@pytest.fixture
async def agent(tmp_path: Path) -> AsyncIterator[str]:
    path = str(tmp_path / "agent.sock")
    process = await asyncio.create_subprocess_exec(
        need("ssh-agent"), "-D", "-a", path, stdout=asyncio.subprocess.DEVNULL
    )
    async with asyncio.timeout(10):
        while not os.path.exists(path):
            await asyncio.sleep(0.01)
    yield path
    process.terminate()
    await process.wait()


async def test_keys_of_the_agent_are_offered_in_opensshs_order(agent: str, tmp_path: Path) -> None:
    stranger, locked = asyncssh.generate_private_key("ssh-ed25519"), write_key(tmp_path / "locked", "secret")
    plain = write_key(tmp_path / "plain")
    async with asyncssh.SSHAgentClient(agent) as client:
        await client.add_keys([stranger, locked])
    files = (tmp_path / "plain", tmp_path / "locked")
    ring = Keyring()
    assert await offered(ring, logging_in(*files, agent=agent)) == [
        locked.public_data,
        stranger.public_data,
        plain.public_data,
    ]
    chosen = logging_in(*files, agent=agent, identities_chosen=True)
    assert await offered(ring, chosen) == [locked.public_data, plain.public_data, stranger.public_data]
    only = logging_in(*files, agent=agent, identities_only=True)
    assert await offered(ring, only) == [locked.public_data, plain.public_data]
    async with ring.offer(only) as offer:
        assert offer.encrypted == []


async def test_a_public_key_file_picks_its_key_out_of_the_agent(agent: str, tmp_path: Path) -> None:
    mine, stranger = (asyncssh.generate_private_key("ssh-ed25519") for _ in range(2))
    (tmp_path / "id.pub").write_bytes(mine.export_public_key())
    async with asyncssh.SSHAgentClient(agent) as client:
        await client.add_keys([stranger, mine])
    picked = logging_in(tmp_path / "id.pub", agent=agent, identities_only=True, identities_chosen=True)
    assert await offered(Keyring(), picked) == [mine.public_data]

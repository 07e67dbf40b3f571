"""The keys we can offer: files, certificates, the agent.

A private key is read and checked once, however many hosts take it. One with a passphrase is offered by its public half:
only when a server takes it, its passphrase is needed, as with ssh.
"""

from __future__ import annotations

import asyncio
import binascii
import copy
import os
from base64 import b64encode
from collections.abc import AsyncIterator, Callable, Collection, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import asyncssh

from gputop.transport.limits import TOO_MANY_FILES
from gputop.transport.needed import LockedKey, PersonNeeded
from gputop.transport.sshconfig import Resolved
from gputop.transport.thread import in_thread

AGENT_LIMIT_SECONDS = 5.0
REFRESH_AGENT = 'in tmux: eval "$(tmux show-environment -s SSH_AUTH_SOCK)", then start gputop again'
"""A pane keeps the variable of the login that made it."""

_Stamp = tuple[int, int] | None

MayAsk = Callable[[str], bool]
"""Path of a private key -> whether somebody may be asked for its passphrase."""


def _nobody(path: str) -> bool:
    return False


@dataclass(frozen=True, slots=True)
class KeyFile:
    """One identity file as it was found."""

    path: str
    key: asyncssh.SSHKey | None = None
    certificate: asyncssh.SSHCertificate | None = None
    public: bytes | None = None
    """The public half, known for an encrypted key too: the agent may hold the other half."""
    encrypted: bool = False
    unreadable: str | None = None
    """Why it cannot be used."""


@dataclass(slots=True)
class Offer:
    """What is offered to one server, in order."""

    pairs: list[asyncssh.SSHKeyPair] = field(default_factory=list)
    encrypted: list[str] = field(default_factory=list)
    """Key files left out because they need a passphrase that nobody gives: the server takes them, or they show
    nothing without it."""
    sealed: list[str] = field(default_factory=list)
    """Key files with a passphrase that show nothing without it: for when the server takes no other."""
    unreadable: list[str] = field(default_factory=list)
    """`path: why` of key files left out."""
    agent_trouble: str | None = None
    """Why the agent named by the environment or ssh_config could not be asked."""


class LockedPair(asyncssh.SSHKeyPair):
    """The public half of a key whose private half needs a passphrase. To sign with it ends the login."""

    def __init__(self, path: str, public: asyncssh.SSHKey, certificate: asyncssh.SSHCertificate | None = None) -> None:
        algorithms = public.sig_algorithms
        super().__init__(
            public.algorithm, public.algorithm, algorithms, algorithms, public.public_data, None, certificate
        )
        self._path = path

    async def sign_async(self, data: bytes) -> bytes:
        raise PersonNeeded(LockedKey(self._path))


class Keyring:
    """Reads key files, each once."""

    def __init__(self) -> None:
        self._files: dict[str, tuple[tuple[_Stamp, _Stamp], KeyFile]] = {}

    def load(self, path: str, *, chosen: bool) -> KeyFile | None:
        """The key in `path`; `None` when there is no such file and nobody chose it."""
        try:
            stamp = _stamp(path), _stamp(f"{path}-cert.pub")
        except FileNotFoundError:
            return KeyFile(path=path, unreadable="no such file") if chosen else None
        except OSError as error:
            return KeyFile(path=path, unreadable=error.strerror or "cannot be read")
        known = self._files.get(path)
        # One that cannot be read is tried again: its rights may have been corrected, which no stamp shows.
        if known is None or known[0] != stamp or known[1].unreadable:
            known = self._files[path] = (stamp, _read(path))
        return known[1]

    def is_locked(self, path: str) -> bool:
        """Whether the key in `path` needs a passphrase that was not given yet."""
        file = self.load(path, chosen=False)
        return file is not None and file.encrypted

    async def unlock(self, path: str, passphrase: str) -> str | None:
        """Open the key in `path` and keep it, decrypted, in memory; why that fails, in asyncssh's words, else `None`.

        In a thread: deriving the key from a passphrase takes a tenth of a second, or many."""
        try:
            stamp = _stamp(path), _stamp(f"{path}-cert.pub")
            key = await in_thread(lambda: asyncssh.read_private_key(path, passphrase), "gputop-key")
        except (asyncssh.KeyImportError, asyncssh.KeyEncryptionError) as error:
            return str(error)
        except OSError as error:
            return error.strerror or "cannot be read"
        certificate = _certificate(f"{path}-cert.pub")
        file = KeyFile(path=path, key=key, certificate=certificate, public=key.public_data)
        self._files[path] = (stamp, file)
        return None

    @asynccontextmanager
    async def offer(
        self, resolved: Resolved, may_ask: MayAsk = _nobody, locked: Collection[str] = ()
    ) -> AsyncIterator[Offer]:
        """The keys for one login. The agent's keys work only inside. `locked`: paths of those that are of no use,
        since nobody opens them.

        In OpenSSH's order: the agent's that belong to an identity file, other ones of the agent, then files; but keys
        that the user chose come before strange ones of the agent, since servers count failures."""
        offer = Offer()
        files = []
        for path in resolved.identities:
            file = self.load(path, chosen=resolved.identities_chosen)
            if file is not None:
                files.append(file)
            if file is not None and file.unreadable:
                offer.unreadable.append(f"{path}: {file.unreadable}")
        certificates = [certificate for path in resolved.certificates if (certificate := _certificate(path))]
        agent = asyncssh.SSHAgentClient(resolved.agent) if resolved.agent else None
        try:
            held = await self._agent_keys(agent, resolved.agent or "", offer) if agent else []
            by_public = {pair.key_public_data: pair for pair in held}
            mine: list[asyncssh.SSHKeyPair] = []
            local: list[asyncssh.SSHKeyPair] = []
            for file in files:
                agent_pair = by_public.pop(file.public, None) if file.public else None
                if agent_pair is not None:
                    mine += [_certified(agent_pair, certificate) for certificate in _of(file, certificates)]
                    mine.append(agent_pair)
                elif file.key is not None:
                    for certificate in _of(file, certificates):
                        local += asyncssh.load_keypairs([(file.key, certificate)])[:1]
                    local += asyncssh.load_keypairs([file.key])
                elif file.encrypted and file.path in locked:
                    offer.encrypted.append(file.path)
                elif file.encrypted and (public := _public_key(file.public)) is not None:
                    local += [LockedPair(file.path, public, certificate) for certificate in _of(file, certificates)]
                    local.append(LockedPair(file.path, public))
                elif file.encrypted:
                    (offer.sealed if may_ask(file.path) else offer.encrypted).append(file.path)
            others = [] if resolved.identities_only else list(by_public.values())
            if resolved.identities_chosen:
                offer.pairs = [*mine, *local, *others]
            else:
                offer.pairs = [*mine, *others, *local]
            yield offer
        finally:
            if agent is not None:
                agent.close()

    async def _agent_keys(self, agent: asyncssh.SSHAgentClient, path: str, offer: Offer) -> list[asyncssh.SSHKeyPair]:
        try:
            async with asyncio.timeout(AGENT_LIMIT_SECONDS):
                await agent.connect()
                return list(await agent.get_keys())
        except (FileNotFoundError, ConnectionRefusedError):
            offer.agent_trouble = f"no ssh agent at {path} any more: {REFRESH_AGENT}"
        except TimeoutError:
            offer.agent_trouble = f"the ssh agent at {path} does not answer"
        except (OSError, ValueError) as error:
            offer.agent_trouble = f"the ssh agent at {path} cannot be used: {error}"
        return []


def _stamp(path: str) -> _Stamp:
    """Changes when the file does; `None` when a certificate is not there."""
    try:
        status = os.stat(path)
    except FileNotFoundError:
        if path.endswith("-cert.pub"):
            return None
        raise
    return status.st_mtime_ns, status.st_size


def _read(path: str) -> KeyFile:
    try:
        with open(path, "rb") as file:
            content = file.read()
    except OSError as error:
        if error.errno in TOO_MANY_FILES:
            raise
        return KeyFile(path=path, unreadable=error.strerror or "cannot be read")
    certificate = _certificate(f"{path}-cert.pub")
    if _is_encrypted(content):
        return KeyFile(path=path, certificate=certificate, public=_public(path, content), encrypted=True)
    try:
        key = asyncssh.import_private_key(content)
    except (asyncssh.KeyImportError, asyncssh.KeyEncryptionError) as error:
        public = _public(path, content)
        if public is not None:  # a public key: its other half is in the agent
            return KeyFile(path=path, certificate=certificate, public=public)
        return KeyFile(path=path, unreadable=f"not a usable private key ({error})")
    return KeyFile(path=path, key=key, certificate=certificate, public=key.public_data)


def _is_encrypted(content: bytes) -> bool:
    if b"ENCRYPTED" in content:
        return True
    cipher = _openssh_fields(content)
    return cipher is not None and cipher[0] != b"none"


def _openssh_fields(content: bytes) -> tuple[bytes, bytes] | None:
    """Cipher and public key of a private key in OpenSSH's format; both stand in it in clear."""
    begin, end = b"-----BEGIN OPENSSH PRIVATE KEY-----", b"-----END OPENSSH PRIVATE KEY-----"
    if begin not in content or end not in content:
        return None
    try:
        body = binascii.a2b_base64(content.split(begin)[1].split(end)[0])
    except ValueError:
        return None
    body = body.removeprefix(b"openssh-key-v1\0")
    fields = []
    for position in range(4):
        if position == 3:
            body = body[4:]  # the number of keys
        length = int.from_bytes(body[:4], "big")
        fields.append(body[4 : 4 + length])
        body = body[4 + length :]
    return fields[0], fields[3]


def _public(path: str, content: bytes) -> bytes | None:
    """The public half of a key that cannot be read itself."""
    fields = _openssh_fields(content)
    if fields is not None:
        return fields[1]
    for source in (path, f"{path}.pub"):
        try:
            return asyncssh.read_public_key(source).public_data
        except (OSError, asyncssh.KeyImportError):
            continue
    return None


def _public_key(blob: bytes | None) -> asyncssh.SSHKey | None:
    """The public half as a key; `None`: not known, or of a type that asyncssh does not have."""
    if blob is None:
        return None
    algorithm = blob[4 : 4 + int.from_bytes(blob[:4], "big")]
    try:
        return asyncssh.import_public_key(algorithm + b" " + b64encode(blob))
    except asyncssh.KeyImportError:
        return None


def _certificate(path: str) -> asyncssh.SSHCertificate | None:
    try:
        return asyncssh.read_certificate(path)
    except (OSError, asyncssh.KeyImportError):
        return None


def _certified(pair: asyncssh.SSHKeyPair, certificate: asyncssh.SSHCertificate) -> asyncssh.SSHKeyPair:
    """A copy of `pair` that shows `certificate`."""
    certified = copy.copy(pair)
    certified.set_certificate(certificate)
    return certified


def _of(file: KeyFile, certificates: Sequence[asyncssh.SSHCertificate]) -> list[asyncssh.SSHCertificate]:
    """The certificates of that key."""
    found = [certificate for certificate in certificates if certificate.key.public_data == file.public]
    return found + ([file.certificate] if file.certificate is not None else [])

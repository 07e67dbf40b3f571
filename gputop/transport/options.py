"""What asyncssh is told: every option by name, nothing left to its own reading of ssh_config or of the environment."""

from __future__ import annotations

import logging
from base64 import b64encode
from collections.abc import Sequence
from typing import Any

import asyncssh
from asyncssh import encryption, kex, mac, public_key

from gputop.transport.client import Client
from gputop.transport.hostkeys import Entry
from gputop.transport.keys import Offer
from gputop.transport.route import Hop

KEEPALIVE_SECONDS = 15.0
KEEPALIVE_COUNT = 3
FAST_CIPHER = "aes128-gcm@openssh.com"
"""5 us a packet; asyncssh's own first choice, chacha20, takes 30."""
BEST_KEY_TYPES = ("ssh-ed25519", "ecdsa-sha2-nistp256", "ecdsa-sha2-nistp384", "ecdsa-sha2-nistp521", "ssh-rsa")

logger = logging.getLogger(__name__)


def connection_options(hop: Hop, client: Client, offer: Offer) -> dict[str, Any]:
    """Keyword arguments of `asyncssh.connect`."""
    resolved = hop.resolved
    ciphers = known_algorithms(resolved.ciphers, encryption.get_encryption_algs(), "cipher", hop.name)
    return {
        "config": None,
        "client_factory": lambda: client,
        "username": resolved.user,
        "client_keys": offer.pairs or None,
        "agent_path": None,
        "agent_forwarding": False,
        "known_hosts": lambda host, addr, port: ((), (), _revoked(client.entries)),
        "host_key_alias": resolved.host_key_alias,
        "server_host_key_algs": host_key_algorithms(resolved.host_key_algorithms, client.entries, hop.name),
        "x509_trusted_certs": None,
        "x509_trusted_cert_paths": [],
        "encryption_algs": ciphers or f"^{FAST_CIPHER}",
        "mac_algs": known_algorithms(resolved.macs, mac.get_mac_algs(), "MAC", hop.name) or (),
        "kex_algs": known_algorithms(resolved.kex, kex.get_kex_algs(), "key exchange", hop.name) or (),
        "compression_algs": ["none"],
        "preferred_auth": "publickey,keyboard-interactive,password",
        "host_based_auth": False,
        "gss_kex": False,
        "gss_auth": False,
        "x11_forwarding": False,
        "pkcs11_provider": None,
        "command": None,
        "request_pty": False,
        "env": {},
        "send_env": (),
        "encoding": None,
        "connect_timeout": None,
        "login_timeout": 0,
        "keepalive_interval": resolved.keepalive_seconds or KEEPALIVE_SECONDS,
        "keepalive_count_max": resolved.keepalive_count if resolved.keepalive_seconds else KEEPALIVE_COUNT,
    }


def known_algorithms(chosen: Sequence[str], known: Sequence[bytes], what: str, host: str) -> list[str]:
    """Those of `chosen` that asyncssh has; `[]`: its own choice stands."""
    names = {name.decode() for name in known}
    missing = [name for name in chosen if name not in names]
    if missing:
        logger.info("%s: %s algorithms not available here: %s", host, what, ", ".join(missing))
    return [name for name in chosen if name in names]


def host_key_algorithms(chosen: Sequence[str], entries: Sequence[Entry], host: str) -> list[str]:
    """The host key algorithms to ask for: first those whose keys known_hosts has, so that a server with several keys
    shows the known one; then all others, so that one with none of them shows a key that can be judged and named.

    Certificates only where known_hosts has an authority: a server prefers its certificate to its key."""
    plain = [name.decode() for name in public_key.get_default_public_key_algs()]
    certificates = [name.decode() for name in public_key.get_default_certificate_algs()]
    available = [name.encode() for name in (*certificates, *plain)]
    wanted = known_algorithms(chosen, available, "host key", host)
    if not wanted:
        wanted = [*certificates, *sorted(plain, key=_rank)]
    if not any(entry.marker == "cert-authority" for entry in entries):
        wanted = [name for name in wanted if name not in certificates] or plain
    known = {entry.algorithm for entry in entries if not entry.marker}
    return sorted(wanted, key=lambda name: name not in certificates and _key_type(name) not in known)


def _key_type(algorithm: str) -> str:
    """The type of key that makes signatures of `algorithm`."""
    return "ssh-rsa" if algorithm.startswith(("rsa-sha2-", "ssh-rsa")) else algorithm


def _rank(algorithm: str) -> int:
    kind = _key_type(algorithm)
    return BEST_KEY_TYPES.index(kind) if kind in BEST_KEY_TYPES else len(BEST_KEY_TYPES)


def _revoked(entries: Sequence[Entry]) -> list[asyncssh.SSHKey]:
    """For certificates: asyncssh looks at the key inside, which no callback shows."""
    keys = []
    for entry in entries:
        if entry.marker == "revoked":
            try:
                keys.append(asyncssh.import_public_key(f"{entry.algorithm} {b64encode(entry.blob).decode()}"))
            except asyncssh.KeyImportError:
                continue  # of a type that asyncssh does not have: no server can show it to us
    return keys

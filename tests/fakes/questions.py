"""Questions as hosts ask them, for the screen."""

from __future__ import annotations

import hashlib
from base64 import b64encode
from typing import Any

from gputop.domain.question import HostKeyQuestion, LoginQuestion, PassphraseQuestion, Prompt

PASSWORD = Prompt(words="Password: ", is_shown=False)
CODE = Prompt(words="Code: ", is_shown=True)


def a_fingerprint(seed: str) -> str:
    return "SHA256:" + b64encode(hashlib.sha256(seed.encode()).digest()).decode().rstrip("=")


def a_key_question(host: str, **fields: Any) -> HostKeyQuestion:
    plain: dict[str, Any] = {
        "host": host, "server": host, "target": f"{host}:22", "jump": None, "algorithm": "ssh-ed25519",
        "fingerprint": a_fingerprint(host), "hosts": lambda: (host,),
    }  # fmt: skip
    return HostKeyQuestion(**(plain | fields))


def a_passphrase_question(**fields: Any) -> PassphraseQuestion:
    plain: dict[str, Any] = {
        "path": "/home/ops/.ssh/id_ed25519", "wrong": 0, "said": "", "tries": 3,
        "hosts": lambda: ("gpu-1", "gpu-2"), "is_over": lambda: False,
    }  # fmt: skip
    return PassphraseQuestion(**(plain | fields))


def a_login_question(host: str = "gpu-1", *prompts: Prompt, **fields: Any) -> LoginQuestion:
    plain: dict[str, Any] = {
        "host": host, "target": f"ops@{host}:22", "jump": None, "text": "", "prompts": prompts or (PASSWORD,),
        "is_kbdint": True, "was_refused": False, "hosts": lambda: (host,), "others": lambda: 0,
        "is_over": lambda: False,
    }  # fmt: skip
    return LoginQuestion(**(plain | fields))

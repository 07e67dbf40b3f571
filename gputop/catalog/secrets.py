"""Masks what is plainly a secret, in bundles and in the audit log: command lines and logs may hold what somebody typed,
and programs of a site may print theirs. Pure."""

from __future__ import annotations

import re
from typing import Any

MASK = "***"

_WORD = (
    r"(?!nopasswd)[\w.-]*(?:passw(?:or)?d|passphrase|secret|token(?!s|iz)|api[-_]?key|access[-_]?key|credential)[\w-]*"
)
_VALUE = r"""(?:"[^"\n]*"|'[^'\n]*'|(?!-)[^\s"',;&]+)"""

_SECRETS = re.compile(
    rf"""
    (?P<before>
        --?{_WORD}(?:=|[ ]+)                       # --password X, --token=X
      | (?<![\w-]){_WORD}["']?[ ]?[=:][ ]*         # TOKEN=X, "password": X
      | Authorization["']?[ ]?[:=][ ]*(?:\w+[ ]+)? # a header
      | Bearer[ ]+(?=\S{{8}})
    )(?P<value>{_VALUE})
    | (?P<scheme>[a-z][a-z0-9+.-]*://)(?P<login>[^\s/:@"']+:[^\s/@"']+)@    # https://user:password@
    | (?<![A-Za-z0-9-])(?:hf_|gh[pousr]_|glpat-|sk-|xox[bp]-|AKIA|ASIA)[A-Za-z0-9_-]{{16,}}
    """,
    re.IGNORECASE | re.VERBOSE,
)


def masked(text: str) -> str:
    """`text` with the values of passwords, tokens and keys replaced."""
    return _SECRETS.sub(_mask, text)


def masked_data(value: Any) -> Any:
    """Likewise in plain data."""
    match value:
        case str():
            return masked(value)
        case dict():
            return {key: masked_data(each) for key, each in value.items()}
        case list() | tuple():
            return [masked_data(each) for each in value]
    return value


def _mask(found: re.Match[str]) -> str:
    if found["before"] is not None:
        quote = found["value"][:1] if found["value"][:1] in ("'", '"') else ""
        return f"{found['before']}{quote}{MASK}{quote}"
    if found["scheme"] is not None:
        return f"{found['scheme']}{MASK}@"
    return MASK

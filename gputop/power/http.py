"""JSON over HTTP(S) to a management controller: one request, bounded, nothing followed."""

from __future__ import annotations

import base64
import http.client
import json
import ssl
from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

from msgspec import Struct

from gputop.domain.problem import Problem, ProblemKind

SOCKET_SECONDS = 10.0
"""For each read and write."""
ANSWER_BYTES = 1024 * 1024


class Site(Struct, frozen=True, kw_only=True):
    """Where to ask and as whom."""

    url: str
    """Scheme, host and port."""
    username: str | None = None
    password: str | None = None
    ca_file: str | None = None
    insecure: bool = False


def request(site: Site, method: str, path: str, body: dict[str, Any] | None = None) -> dict[str, Any] | Problem:
    """The answer's JSON object, `{}` where it has none. Blocks: call it in a thread."""
    made = _connection(site)
    if isinstance(made, Problem):
        return made
    headers = {"Accept": "application/json", "OData-Version": "4.0"}
    if site.username is not None:
        token = base64.b64encode(f"{site.username}:{site.password or ''}".encode()).decode("ascii")
        headers["Authorization"] = f"Basic {token}"
    data = None
    if body is not None:
        data = json.dumps(body).encode()
        headers["Content-Type"] = "application/json"
    try:
        connection = made()
        try:
            connection.request(method, path, body=data, headers=headers)
            answer = connection.getresponse()
            text = answer.read(ANSWER_BYTES + 1)
        finally:
            connection.close()
    except ssl.SSLCertVerificationError as error:
        hint = "give its certificate, or that of its authority, as ca_file in the inventory"
        return Problem(kind=ProblemKind.PERMISSION, summary=f"its certificate: {error.verify_message}", hint=hint)
    except TimeoutError:
        return Problem(kind=ProblemKind.TIMED_OUT, summary=f"no answer within {SOCKET_SECONDS:g} s")
    except ConnectionRefusedError:
        return Problem(kind=ProblemKind.CONNECTION_REFUSED, summary="connection refused")
    except ConnectionError as error:
        return Problem(kind=ProblemKind.CONNECTION_LOST, summary=f"the connection broke: {error}"[:200])
    except (OSError, http.client.HTTPException, ValueError) as error:
        return Problem(kind=ProblemKind.TOOL_FAILED, summary=f"{type(error).__name__}: {error}"[:200])
    if len(text) > ANSWER_BYTES:
        return Problem(kind=ProblemKind.TOOL_FAILED, summary="answered more than 1 MiB")
    return _read(answer.status, text, is_order=method != "GET")


def _connection(site: Site) -> Callable[[], http.client.HTTPConnection] | Problem:
    parts = urlsplit(site.url)
    try:
        host, port = parts.hostname, parts.port
    except ValueError:
        host = port = None
    if host is None or parts.scheme not in ("http", "https") or parts.username is not None:
        return Problem(kind=ProblemKind.TOOL_FAILED, summary=f"no address of a BMC: {site.url!r}")
    if parts.scheme == "http":
        if not site.insecure:
            hint = "use https://, or say insecure: true"
            return Problem(kind=ProblemKind.PERMISSION, summary="http:// would show the password", hint=hint)
        return lambda: http.client.HTTPConnection(host, port, timeout=SOCKET_SECONDS)
    try:
        context = ssl.create_default_context(cafile=site.ca_file)
    except OSError as error:
        return Problem(kind=ProblemKind.PERMISSION, summary=f"{site.ca_file}: {error.strerror or error}")
    if site.insecure:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return lambda: http.client.HTTPSConnection(host, port, timeout=SOCKET_SECONDS, context=context)


def _read(status: int, text: bytes, *, is_order: bool) -> dict[str, Any] | Problem:
    """`is_order`: the status alone says that it was taken; some controllers answer with a page for people."""
    try:
        found = json.loads(text) if text.strip() else {}
    except ValueError:
        found = None
    if status in (401, 403):
        summary = "it refuses the user name or password" if status == 401 else "the account may not do that"
        return Problem(kind=ProblemKind.PERMISSION, summary=f"{summary} (HTTP {status})", detail=_message(found))
    if not 200 <= status < 300:
        said = _message(found)
        summary = f"HTTP {status}" + (f": {said}" if said else "")
        return Problem(kind=ProblemKind.TOOL_FAILED, summary=summary[:200], detail=said)
    if not isinstance(found, dict):
        if is_order:
            return {}
        return Problem(kind=ProblemKind.PROTOCOL, summary="answered no JSON object")
    return found


def _message(found: Any) -> str | None:
    """What a Redfish error says, untrusted."""
    error = found.get("error") if isinstance(found, dict) else None
    if not isinstance(error, dict):
        return None
    more = error.get("@Message.ExtendedInfo")
    first = more[0].get("Message") if isinstance(more, list) and more and isinstance(more[0], dict) else None
    said = first or error.get("message")
    return "".join(c if c.isprintable() else " " for c in str(said))[:2000] if said else None

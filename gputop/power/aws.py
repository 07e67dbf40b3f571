"""Calls of the EC2 and Auto Scaling APIs through boto3, which is an extra and loaded when it is first needed.

boto3 blocks, so each call runs in a thread, with its own timeouts. A call that changes something is sent once: whether
it worked is the check's word, not that of a repetition.
"""

from __future__ import annotations

import asyncio
import shlex
from collections.abc import Callable
from typing import Any

from msgspec import Struct

from gputop.domain.problem import Problem, ProblemKind
from gputop.transport.thread import in_thread

CONNECT_SECONDS = 5
READ_SECONDS = 20
READ_ATTEMPTS = 3

HINTS = {
    "UnauthorizedOperation": "allow the account this action in IAM",
    "InsufficientInstanceCapacity": "EC2 has none of this type there now; GPU types may stay out for days: try again",
    "OperationNotPermitted": "it is protected, or in a state that does not allow it",
    "AuthFailure": "these credentials are not valid there",
}
"""Error codes of EC2 -> what to do."""


class Place(Struct, frozen=True, kw_only=True):
    """Where EC2 is asked, and as whom. `None`: as the AWS configuration of this machine says."""

    region: str | None = None
    profile: str | None = None
    endpoint: str | None = None

    def service(self) -> str:
        """As the `service` of a call: `ec2 region=us-east-1 profile=prod`."""
        words = [f"{name}={value}" for name in self.__struct_fields__ if (value := getattr(self, name)) is not None]
        return shlex.join(["ec2", *words])


def place_of(service: str) -> Place:
    """The reverse of `Place.service`."""
    _, *words = shlex.split(service)
    known = dict(word.split("=", 1) for word in words if "=" in word)
    return Place(region=known.get("region"), profile=known.get("profile"), endpoint=known.get("endpoint"))


class Aws:
    """Clients of boto3, one for each place and service, and the one way to call them."""

    def __init__(self) -> None:
        self._clients: dict[tuple[Place, str, bool], Any] = {}
        self._making = asyncio.Lock()

    async def read(self, place: Place, operation: str, service: str = "ec2", **parameters: Any) -> Any | Problem:
        """All pages of a describing call as one answer."""
        client = await self._client(place, service, repeats=True)
        if isinstance(client, Problem):
            return client
        return await _called(lambda: _all_pages(client, operation, parameters))

    async def change(self, place: Place, operation: str, **parameters: Any) -> Any | Problem:
        client = await self._client(place, "ec2", repeats=False)
        if isinstance(client, Problem):
            return client
        return await _called(lambda: getattr(client, operation)(**parameters))

    async def _client(self, place: Place, service: str, *, repeats: bool) -> Any | Problem:
        key = (place, service, repeats)
        async with self._making:
            if key not in self._clients:
                client = await _called(lambda: _make_client(place, service, READ_ATTEMPTS if repeats else 1))
                if isinstance(client, Problem):
                    return client
                self._clients[key] = client
        return self._clients[key]


def _make_client(place: Place, service: str, attempts: int) -> Any:
    import boto3
    from botocore.config import Config

    session = boto3.Session(profile_name=place.profile, region_name=place.region)
    config = Config(
        connect_timeout=CONNECT_SECONDS,
        read_timeout=READ_SECONDS,
        retries={"total_max_attempts": attempts, "mode": "standard"},
    )
    return session.client(service, endpoint_url=place.endpoint, config=config)


def _all_pages(client: Any, operation: str, parameters: dict[str, Any]) -> Any:
    if client.can_paginate(operation):
        return client.get_paginator(operation).paginate(**parameters).build_full_result()
    return getattr(client, operation)(**parameters)


async def _called(work: Callable[[], Any]) -> Any | Problem:
    try:
        from botocore import exceptions
    except ImportError:
        hint = "pip install 'gputop-fleet[aws]'"
        return Problem(kind=ProblemKind.TOOL_MISSING, summary="boto3 is not installed, which EC2 needs", hint=hint)
    try:
        return await in_thread(work, "gputop-ec2")
    except (exceptions.ClientError, exceptions.BotoCoreError, ValueError) as error:
        return _problem(error)


def _problem(error: Exception) -> Problem:
    """What boto3 raised, by its types."""
    from botocore import exceptions

    if isinstance(error, exceptions.ClientError):
        told = error.response.get("Error", {})
        code, said = str(told.get("Code", "")), str(told.get("Message", ""))
        denied = code in ("UnauthorizedOperation", "AccessDenied", "AuthFailure", "RequestExpired")
        kind = ProblemKind.PERMISSION if denied else ProblemKind.TOOL_FAILED
        return Problem(kind=kind, summary=f"{error.operation_name}: {code}", detail=said[:2000], hint=HINTS.get(code))
    if isinstance(error, exceptions.NoCredentialsError | exceptions.PartialCredentialsError):
        hint = "set a profile in the inventory, or run: aws configure"
        return Problem(kind=ProblemKind.PERMISSION, summary="no AWS credentials were found", hint=hint)
    if isinstance(error, exceptions.NoRegionError):
        return Problem(kind=ProblemKind.TOOL_FAILED, summary="no AWS region is set", hint="name a region in `power`")
    if isinstance(error, exceptions.ProfileNotFound):
        return Problem(kind=ProblemKind.PERMISSION, summary=str(error))
    if isinstance(error, exceptions.ConnectTimeoutError | exceptions.ReadTimeoutError):
        return Problem(kind=ProblemKind.TIMED_OUT, summary="no answer in time")
    if isinstance(error, exceptions.EndpointConnectionError | exceptions.ProxyConnectionError):
        return Problem(kind=ProblemKind.CONNECTION_REFUSED, summary=f"cannot be reached: {error}"[:200])
    if isinstance(error, exceptions.HTTPClientError):
        return Problem(kind=ProblemKind.CONNECTION_LOST, summary=f"the connection broke: {error}"[:200])
    return Problem(kind=ProblemKind.TOOL_FAILED, summary=f"{type(error).__name__}: {error}"[:200])

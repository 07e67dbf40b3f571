"""Doors that only named modules may use: the clock, processes, threads, standard output."""

from __future__ import annotations

import ast

import pytest

from tests.architecture.tree import modules, name_of, parse, uses

CLOCK = ("gputop/domain/clock.py", "gputop/remote/machine.py")
PROCESSES = (
    "gputop/remote/machine.py",
    "gputop/transport/spawn.py",
    "gputop/sources/demo_server.py",
)
THREADS = ("gputop/remote/", "gputop/transport/thread.py")

BANNED: list[tuple[str, tuple[str, ...], tuple[str, ...]]] = [
    (
        "the time is injected",
        (
            "time.time",
            "time.time_ns",
            "time.monotonic",
            "time.monotonic_ns",
            "time.perf_counter",
            "time.perf_counter_ns",
            "time.sleep",
            "datetime.datetime.now",
            "datetime.datetime.utcnow",
            "datetime.datetime.today",
            "datetime.date.today",
            "asyncio.sleep",
        ),
        CLOCK,
    ),
    (
        "processes are started at one seam",
        (
            "subprocess.run",
            "subprocess.Popen",
            "subprocess.call",
            "subprocess.check_call",
            "subprocess.check_output",
            "asyncio.create_subprocess_exec",
            "asyncio.create_subprocess_shell",
            "os.system",
            "os.popen",
            "os.fork",
            "os.execv",
            "os.execvp",
        ),
        PROCESSES,
    ),
    (
        "one event loop and no threads, but in the agent and for calls that block and that nothing can interrupt",
        (
            "threading.Thread",
            "concurrent.futures.ThreadPoolExecutor",
            "asyncio.to_thread",
            "multiprocessing.Process",
            "loop.run_in_executor",
        ),
        THREADS,
    ),
    ("data and words go out through the command line's modules", ("print",), ("gputop/cli/",)),
]


@pytest.mark.parametrize(("rule", "names", "allowed"), BANNED, ids=[rule for rule, _, _ in BANNED])
def test_a_door_is_used_only_by_the_modules_that_own_it(
    rule: str, names: tuple[str, ...], allowed: tuple[str, ...]
) -> None:
    found = [
        f"{name_of(path)}:{line}: {name} ({rule})"
        for path in modules()
        if not name_of(path).startswith(allowed)
        for name, line in uses(path)
        if name in names
    ]
    assert not found, "\n".join(found)


@pytest.mark.parametrize(("rule", "names", "allowed"), BANNED, ids=[rule for rule, _, _ in BANNED])
def test_no_module_is_excused_that_does_not_exist(rule: str, names: tuple[str, ...], allowed: tuple[str, ...]) -> None:
    every = [name_of(path) for path in modules()]
    assert [prefix for prefix in allowed if not any(name.startswith(prefix) for name in every)] == []


def test_no_command_goes_through_a_local_shell() -> None:
    found = [
        f"{name_of(path)}:{node.value.lineno}"
        for path in modules()
        for node in ast.walk(parse(path))
        if isinstance(node, ast.keyword)
        and node.arg == "shell"
        and not (isinstance(node.value, ast.Constant) and node.value.value is False)
    ]
    assert not found, "\n".join(found)


def test_no_module_keeps_another_ones_private_names() -> None:
    """`from gputop.x import _y` couples modules behind their backs."""
    found = [
        f"{name_of(path)}:{node.lineno}: {alias.name}"
        for path in modules()
        for node in ast.walk(parse(path))
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("gputop")
        for alias in node.names
        if alias.name.startswith("_") and not alias.name.startswith("__")
    ]
    assert not found, "\n".join(found)

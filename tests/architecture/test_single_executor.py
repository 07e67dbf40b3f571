"""Only the executor changes the world, and every way in leads through the one gate to it."""

from __future__ import annotations

import ast

from gputop.cli.main import COMMANDS
from gputop.domain.action import ActionKind
from tests.architecture.tree import PACKAGE, modules, name_of, parse, uses

EXECUTOR = "gputop/actions/executor.py"
GATE = "gputop/actions/acts.py"
BACK_ENDS = ("gputop/schedulers/", "gputop/power/", "gputop/actions/onhost.py", "gputop/transport/runner.py")
"""Those that know how a call is made: their `perform` is called by the executor alone."""
LOCK = "gputop/actions/hostlock.py"
"""Leaves a mark on a host that says who acts on it, for as long as the executor does."""
LOOKS = (
    LOCK,
    "gputop/actions/acts.py",
    "gputop/actions/onhost.py",
    "gputop/actions/inspect.py",
    "gputop/schedulers/",
    "gputop/power/",
    "gputop/transport/runner.py",
    "gputop/transport/sudo.py",
    "gputop/bundle/collect.py",
    "gputop/bundle/bug_report.py",
)
"""Those that run programs to look; what they run is written out in them."""


def calls_of(attribute: str) -> dict[str, list[int]]:
    """Modules that call a method of this name, with lines."""
    found: dict[str, list[int]] = {}
    for path in modules():
        for node in ast.walk(parse(path)):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == attribute:
                found.setdefault(name_of(path), []).append(node.lineno)
    return found


def test_the_executor_alone_performs_steps() -> None:
    assert set(calls_of("perform")) == {EXECUTOR}
    assert len(calls_of("perform")[EXECUTOR]) == 1


def test_back_ends_perform_calls_only_inside_their_own_perform() -> None:
    """`transport.runner.perform` is the other name of a call; nobody reaches it but through `Actor.perform`."""
    for path in modules():
        wrong = []
        tree = parse(path)
        inside = {
            id(node)
            for method in ast.walk(tree)
            if isinstance(method, ast.AsyncFunctionDef) and method.name in ("perform", "_perform")
            for node in ast.walk(method)
        }
        for node in ast.walk(tree):
            is_call = isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "perform"
            if is_call and id(node) not in inside:
                wrong.append(f"{name_of(path)}:{node.lineno}")
        assert not wrong, wrong
        if any(name == "gputop.transport.runner.perform" for name, _ in uses(path)):
            assert name_of(path).startswith(BACK_ENDS), name_of(path)


def test_the_gate_alone_starts_the_executor() -> None:
    for method in ("execute", "roll_back"):
        callers = set(calls_of(method)) - {"gputop/cli/actions.py"}
        assert callers == {GATE}, method
    makers = {
        name_of(path) for path in modules() if any(name == "gputop.actions.executor.Executor" for name, _ in uses(path))
    }
    assert makers == {"gputop/wiring.py", GATE}


def test_programs_are_run_by_back_ends_and_looks_alone() -> None:
    runners = {
        name_of(path)
        for path in modules()
        for node in ast.walk(parse(path))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr == "run"
        and "runner" in ast.unparse(node.func.value)
    }
    assert {name for name in runners if not name.startswith(LOOKS)} == set()


def test_the_executor_alone_locks_hosts() -> None:
    users = {
        name_of(path) for path in modules() if any(name == "gputop.actions.hostlock.held" for name, _ in uses(path))
    }
    assert users == {EXECUTOR}


def test_looks_never_ask_for_the_rights_of_root() -> None:
    """A call with `sudo=True` is a step, never a look: looks are made without a plan."""
    for path in modules():
        for node in ast.walk(parse(path)):
            is_run = isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "run"
            if is_run and "runner" in ast.unparse(node.func.value):
                assert "sudo=True" not in ast.unparse(node), f"{name_of(path)}:{node.lineno}"


def test_the_vendors_report_alone_is_run_as_root_without_a_plan() -> None:
    """It stands behind the lock and in the audit log all the same; tests/unit/bundle proves that."""
    shells = {
        name_of(path)
        for path in modules()
        for node in ast.walk(parse(path))
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and "exec sudo" in node.value
    }
    assert shells == {"gputop/bundle/bug_report.py"}
    callers = {name for name in calls_of("bug_report") if not name.startswith("gputop/bundle/")}
    assert callers == set()
    body = ast.unparse(parse(PACKAGE / "bundle" / "bug_report.py"))
    assert body.index("acts.lock.allowed") < body.index("AuditEvent.INTENT") < body.index("_made(acts")


def test_every_act_of_the_command_line_goes_through_the_gate() -> None:
    acts = [command for command in COMMANDS if command.act]
    assert {command.module for command in acts} == {"gputop.cli.act"}
    kinds = {command.act for command in acts}
    without_command = {"hibernate", "bug-report"}
    assert kinds | without_command == {kind.value for kind in ActionKind}, "an act without a command, or the reverse"
    source = (PACKAGE / "cli" / "act.py").read_text(encoding="utf-8")
    assert "acts.carry_out(" in source
    assert "perform" not in source


def test_the_screen_and_the_command_line_reach_acts_only_through_the_gate() -> None:
    """Neither imports a back end, the executor or the runner to act with."""
    forbidden = ("gputop.schedulers", "gputop.power", "gputop.transport.runner")
    for package in ("cli", "tui"):
        for path in modules(PACKAGE / package):
            for node in ast.walk(parse(path)):
                if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(forbidden):
                    raise AssertionError(f"{name_of(path)}:{node.lineno} imports {node.module}")
                if isinstance(node, ast.ImportFrom) and node.module == "gputop.actions.executor":
                    names = {alias.name for alias in node.names}
                    assert names <= {"Stopped", "Listener"}, f"{name_of(path)}:{node.lineno}"

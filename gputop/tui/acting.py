"""Keys that act: each opens the plan of its act, and the plan goes through the one gate."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from msgspec import structs

from gputop.actions.audit import real_user
from gputop.catalog.text import counted
from gputop.domain.action import ActionKind, ActionRequest, ProcessTarget, Signal
from gputop.tui.dialogs.ask import AskDialog
from gputop.tui.dialogs.plan import PlanDialog
from gputop.tui.draw import Span, Spans, remote
from gputop.tui.marked import MarkedDialog
from gputop.tui.navigation import Navigator
from gputop.tui.rows import GpuRow, ProcessRow, devices_of
from gputop.tui.screens.base import CommandScreen

if TYPE_CHECKING:
    from gputop.actions.desk import Desk, Work
    from gputop.fleet.fleet import Fleet

MOST_WATTS = 10_000


class Acting(Navigator):
    """The app, as far as it acts."""

    desk: Desk | None = None
    """`None`: there is nothing to act on."""

    def say(self, text: str) -> None:
        """One line for the user."""
        raise NotImplementedError

    newest: Fleet | None = None

    def draw_all(self) -> None:
        """Draw the screen in front."""
        raise NotImplementedError

    @property
    def fleet(self) -> Fleet:
        """What is shown."""
        raise NotImplementedError

    def take_desk(self, desk: Desk) -> None:
        """Act through `desk` from now on, until the end."""
        self.desk = desk
        desk.changed = self.draw_all
        if self.newest is not None:
            desk.accept(self.newest)
        self.run_worker(self._keep(desk), name="desk")

    async def _keep(self, desk: Desk) -> None:
        try:
            await desk.watch()
        finally:
            await desk.close()

    @property
    def is_simulated(self) -> bool:
        return self.desk is not None and self.desk.simulated

    @property
    def why_locked(self) -> str:
        """Why acts are refused now; empty: they are not."""
        if self.desk is None:
            return "there is nothing to act on"
        if self.desk.acts.lock.allowed:
            return ""
        if self.desk.may_unlock:
            return 'read-only since nobody touched it; "unlock acts" in the palette'
        return "read-only; start with --allow-actions"

    @property
    def mode(self) -> Span:
        """For the footer."""
        if self.why_locked:
            return ("read-only", "dim")
        return (" acts simulated " if self.is_simulated else " acts allowed ", "badge")

    def touch(self) -> None:
        """A person is there."""
        if self.desk is not None:
            self.desk.acts.lock.touch()

    # --- commands -------------------------------------------------------------------------------------------

    def do_act_cordon(self) -> None:
        self._act(ActionKind.CORDON)

    def do_act_resume(self) -> None:
        self._act(ActionKind.RESUME)

    def do_act_drain(self) -> None:
        self._act(ActionKind.DRAIN)

    def do_act_stop(self) -> None:
        self._act(ActionKind.STOP)

    def do_act_start(self) -> None:
        self._act(ActionKind.START)

    def do_act_reboot(self) -> None:
        self._act(ActionKind.REBOOT)

    def do_act_reset(self) -> None:
        if (request := self._on_devices(ActionKind.RESET)) is not None:
            self._open(request)

    def do_act_power_cap(self) -> None:
        request = self._on_devices(ActionKind.POWER_CAP)
        if request is not None:
            self._ask(
                f"Power cap of {_targets(request)}",
                "Watts",
                lambda text: text.isascii() and text.isdigit() and 0 < int(text) < MOST_WATTS,
                lambda text: structs.replace(request, watts=float(text)),
                self._limits(request),
            )

    def do_act_message(self) -> None:
        request = self._request(ActionKind.MESSAGE)
        if request is not None:
            self._ask(
                f"Message to the people on {_targets(request)}",
                "Text",
                lambda text: bool(text.strip()),
                lambda text: structs.replace(request, text=text.strip()),
            )

    def do_act_signal(self) -> None:
        rows = [row for row in self._rows() if isinstance(row, ProcessRow)]
        if len(rows) != 1 or self._gone():
            one = "one process at a time: view 3, and one row" if rows else "no process here: view 3 has them"
            self.say(one if not self._gone() else self._gone())
            return
        request = self._request(ActionKind.SIGNAL)
        if request is None:
            return
        process = rows[0].first
        target = ProcessTarget(
            pid=process.pid,
            started_ticks=process.started_ticks or 0,
            user=process.user or "",
            command=process.command or "",
        )
        text: list[Spans] = [
            ((f" {remote(request.hosts[0])}  pid {process.pid} of {remote(process.user, 'nobody known')}", "strong"),),
            ((f" {remote(process.command or process.name)}", "text"),),
            ((" INT as ctrl-c does, TERM asks it to end, KILL ends it without a word", "dim"),),
        ]
        buttons = [(signal.value, signal.value) for signal in Signal]

        async def ask() -> None:
            answer = await self.push_screen_wait(AskDialog("Signal a process", text, buttons))
            if answer is not None:
                self._open(structs.replace(request, process=target, signal=Signal(answer[0])))

        self.run_worker(ask())

    def do_act_ack(self) -> None:
        self._act(ActionKind.ACK)

    def do_act_again(self) -> None:
        last = self.desk.last if self.desk is not None else None
        if last is None:
            self.say("nothing was done yet that could be done again")
        elif last.kind is ActionKind.SIGNAL or last.jobs:
            self.say(f"{last.kind.value} is not done again: it was about one thing of one host")
        elif (request := self._anew(last.kind)) is not None:
            own = {"reason": last.reason, "deadline_seconds": last.deadline_seconds, "watts": last.watts}
            self._open(structs.replace(request, text=last.text, **own))

    def do_acts_lock(self) -> None:
        desk = self.desk
        if desk is None or not desk.may_unlock:
            self.say(self.why_locked)
        elif desk.acts.lock.allowed:
            desk.acts.lock.relock()
            self.say("read-only now")
        else:
            self.run_worker(self._unlock(desk))

    async def _unlock(self, desk: Desk) -> None:
        text: list[Spans] = [((" Acts were allowed when gputop was started; it locked itself meanwhile.", "text"),)]
        dialog = AskDialog("Allow acts again", text, [("unlock", "Allow")], prompt="Type unlock",
                           accepts=lambda typed: typed.strip() == "unlock")  # fmt: skip
        if await self.push_screen_wait(dialog) is not None:
            desk.acts.lock.unlock()

    # --- the way to the plan --------------------------------------------------------------------------------

    def _act(self, kind: ActionKind) -> None:
        if (request := self._request(kind)) is not None:
            self._open(request)

    def _request(self, kind: ActionKind) -> ActionRequest | None:
        """For the marked rows or the row under the cursor; `None`, after it was said, where there is nothing."""
        screen = self.screen
        hosts = screen.targets() if isinstance(screen, CommandScreen) else ()
        if self.desk is None:
            self.say("there is nothing to act on here")
        elif not hosts:
            self.say("no host here: mark some, or go to one")
        else:
            return ActionRequest(kind=kind, hosts=hosts, by=real_user())
        return None

    def _anew(self, kind: ActionKind) -> ActionRequest | None:
        """What `kind` would be on the rows that are meant now."""
        on_devices = kind in (ActionKind.RESET, ActionKind.POWER_CAP)
        return self._on_devices(kind) if on_devices else self._request(kind)

    def _rows(self) -> list[object]:
        screen = self.screen
        return screen.meant() if isinstance(screen, CommandScreen) else []

    def _on_devices(self, kind: ActionKind) -> ActionRequest | None:
        """For the devices whose rows are meant, or that the processes of the rows use, by keys that stay theirs; a
        host's row means all of its devices."""
        request = self._request(kind)
        if request is None:
            return None
        if gone := self._gone():
            self.say(gone)
            return None
        chosen: dict[str, tuple[str, ...]] = {}
        screen = self.screen
        for row in screen.meant_devices() if isinstance(screen, CommandScreen) else ():
            match row:
                case GpuRow():
                    keys = [row.device.key]
                case ProcessRow():
                    devices = devices_of(row.host)
                    keys = [devices[reading.device_index].key for reading in row.readings]
                case _:
                    continue
            host = row.host.name
            chosen[host] = tuple(dict.fromkeys((*chosen.get(host, ()), *keys)))
        return structs.replace(request, devices_of=chosen)

    def _gone(self) -> str:
        """What to say where a marked row is not there any more: it never stands for others. Empty: all are there."""
        screen = self.screen
        gone = screen.gone() if isinstance(screen, CommandScreen) else 0
        return f"{counted(gone, 'row')} that you chose left the table: choose again" if gone else ""

    def _limits(self, request: ActionRequest) -> list[Spans]:
        """What the chosen devices are limited to now, as far as that is known."""
        found: dict[str, list[str]] = {}
        for name in request.hosts:
            host = self.fleet.get(name)
            frame = host.frame if host is not None else None
            if frame is None:
                continue
            for position, device in enumerate(frame.devices):
                if not request.devices_of or device.key in request.devices_of.get(name, ()):
                    now, usual = (frame.value(f"power_{of}limit_watts", position) for of in ("", "default_"))
                    words = f"{now:g} W now" if now is not None else "limit not known"
                    words += f", {usual:g} W by default" if usual is not None else ""
                    found.setdefault(words, []).append(f"GPU {device.index}")
        return [((f" {names[0] if len(names) == 1 else counted(len(names), 'GPU')}: {words}", "text"),)
                for words, names in found.items()]  # fmt: skip

    def _ask(
        self,
        title: str,
        prompt: str,
        accepts: Callable[[str], bool],
        made: Callable[[str], ActionRequest],
        text: Sequence[Spans] = (),
    ) -> None:
        async def ask() -> None:
            answer = await self.push_screen_wait(
                AskDialog(title, text, [("plan", "Show the plan")], prompt=prompt, accepts=accepts)
            )
            if answer is not None:
                self._open(made(answer[1]))

        self.run_worker(ask())

    def _open(self, request: ActionRequest) -> None:
        """The plan of an act on what is marked; once it is confirmed, the marks are done with."""
        screen = next(one for one in reversed(self.screen_stack) if isinstance(one, CommandScreen))
        hidden = screen.hidden()

        def forget(work: Work | None) -> None:
            if work is not None:
                screen.forget_marks()

        self.push_screen(MarkedDialog(request, hidden) if hidden else PlanDialog(request), forget)


def _targets(request: ActionRequest) -> str:
    return remote(request.hosts[0]) if len(request.hosts) == 1 else counted(len(request.hosts), "host")

"""`b`: an incident bundle of the marked hosts. It only reads; read-only mode forbids the vendor's report alone."""

from __future__ import annotations

from dataclasses import dataclass, field

from textual.worker import Worker

from gputop.bundle.items import Order, Progress
from gputop.bundle.make import Bundler
from gputop.bundle.write import Made, NotWritten
from gputop.catalog.text import counted
from gputop.fleet.fleet import Fleet
from gputop.fleet.series import SeriesStore
from gputop.tui.dialogs.bundle import BundleDialog, BundleProgress, Wanted
from gputop.tui.screens.base import CommandScreen
from gputop.tui.shell import Shells


@dataclass(eq=False)
class Making:
    """A bundle that is being made."""

    order: Order
    progress: dict[str, Progress] = field(default_factory=dict)
    result: Made | NotWritten | None = None
    worker: Worker[None] | None = None


class Bundles(Shells):
    """The app, as far as it makes bundles."""

    series: SeriesStore
    making: Making | None = None
    """The bundle that is being made; one at a time."""

    @property
    def fleet(self) -> Fleet:
        """What is shown."""
        raise NotImplementedError

    def do_bundle(self) -> None:
        screen = self.screen
        hosts = screen.targets() if isinstance(screen, CommandScreen) else ()
        if self.making is not None:
            self.run_worker(self._show_progress(self.making))
        elif self.desk is None:
            self.say("there is nothing to ask here")
        elif not hosts:
            self.say("no host here: mark some, or go to one")
        else:
            self.run_worker(self._ask_for_bundle(hosts))

    async def _ask_for_bundle(self, hosts: tuple[str, ...]) -> None:
        assert self.desk is not None
        bundler = Bundler(
            self.desk.acts,
            state_folder=self.desk.state_folder,
            audit_path=self.desk.audit_path,
            series=self.series,
            source=self.fleet.source,
        )
        wanted = await self.push_screen_wait(BundleDialog(hosts, bundler.default_name(), self.why_locked))
        if wanted is None:
            return
        making = self.making = Making(wanted.order)
        making.worker = self.run_worker(self._make(bundler, wanted, making), group="bundle")
        await self._show_progress(making)

    async def _make(self, bundler: Bundler, wanted: Wanted, making: Making) -> None:
        def listen(progress: Progress) -> None:
            making.progress[progress.host] = progress
            self._tell_progress(making)

        try:
            making.result = await bundler.make(wanted.order, wanted.target, listen)
        finally:
            self.making = None
        if not self._tell_progress(making):
            self.say(making.result.line if isinstance(making.result, Made) else making.result.summary)

    def _tell_progress(self, making: Making) -> bool:
        """Whether a dialog shows it."""
        shown = [screen for screen in self.screen_stack if isinstance(screen, BundleProgress)]
        for screen in shown:
            screen.take(making.progress, making.result)
        return bool(shown)

    async def _show_progress(self, making: Making) -> None:
        dialog = BundleProgress(making.order.hosts)
        dialog.take(making.progress, making.result)
        give_up = await self.push_screen_wait(dialog)
        if give_up and making.worker is not None and making.result is None:
            making.worker.cancel()
            self.say("given up: no bundle was written")
        elif making.result is None:
            self.say(f"a bundle of {counted(len(making.order.hosts), 'host')} is being made; b shows how far it is")

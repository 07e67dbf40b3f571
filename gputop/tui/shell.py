"""`s`: a shell on the host of the row. It is the user's own login, no act of gputop, so read-only mode has no say."""

from __future__ import annotations

import os
import sys
from pathlib import PurePath

from textual.app import SuspendNotSupported

from gputop.domain.link import LinkFailure
from gputop.transport.foreground import SSH_FAILED, in_terminal, in_tmux, tell, wait_for_enter
from gputop.tui.acting import Acting
from gputop.tui.draw import remote
from gputop.tui.screens.base import CommandScreen
from gputop.tui.terminal import RESET, lent_signals


class Shells(Acting):
    """The app, as far as it opens shells."""

    def do_shell(self) -> None:
        screen = self.screen
        hosts = screen.targets() if isinstance(screen, CommandScreen) else ()
        if self.desk is None or self.desk.shell_on is None:
            self.say("there is no host to log in to here")
        elif not hosts:
            self.say("no host here: go to one")
        elif len(hosts) > 1:
            self.say(f"a shell opens on one host; {len(hosts)} are marked, ctrl-\\ unmarks them")
        else:
            self.run_worker(self._open_shell(hosts[0]), group="shell")

    async def _open_shell(self, host: str) -> None:
        assert self.desk is not None
        assert self.desk.shell_on is not None
        argv = await self.desk.shell_on(host)
        if isinstance(argv, LinkFailure):
            self.say(f"no shell on {host}: {argv.problem.summary}")
        elif await in_tmux(argv, os.environ, self.size.width):
            self.say(f"a shell on {host}, in a pane of tmux")
        else:
            await self._in_our_place(argv, host)

    async def _in_our_place(self, argv: tuple[str, ...], host: str) -> None:
        assert sys.__stdin__ is not None
        terminal = sys.__stdin__.fileno()
        output = self.terminal_file.fileno() if self.terminal_file is not None else terminal
        program, trouble = PurePath(argv[0]).name, ""
        try:
            with self.lent(), lent_signals():
                tell(f"gputop: {program} on {remote(host)}; its end leads back to the screen\n".encode(), output)
                try:
                    status = await in_terminal(argv, input=terminal, output=output)
                    if status == SSH_FAILED:
                        await wait_for_enter("This was ssh. Enter leads back to gputop.", input=terminal, output=output)
                except OSError as failure:
                    trouble = f"{program}: {failure.strerror}"
                finally:
                    tell(RESET, output)  # what ran there may have left a full screen without tidying up
        except SuspendNotSupported:
            trouble = "this is no terminal"
        if trouble:
            self.say(f"no shell on {host}: {trouble}")

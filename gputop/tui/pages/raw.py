"""The words of a host's own tools. Pure functions to lines."""

from __future__ import annotations

from collections.abc import Sequence

from gputop.actions.raw_tools import RawTool
from gputop.domain.call import RawOutput
from gputop.export.groups import span
from gputop.export.raw_text import raw_lines
from gputop.tui.draw import Spans, remote, spread
from gputop.tui.look import Look
from gputop.tui.pages.blocks import Board


def tools_board(tools: Sequence[RawTool], look: Look, width: int) -> Board:
    """The tools to choose from."""
    board = Board()
    board.add_blank()
    longest = max((len(tool.command) for tool in tools), default=0)
    for tool in tools:
        board.places.append((len(board.lines), tool))
        line: Spans = ((f"  {tool.command:<{longest}}", "strong"), (f"   {tool.tells}", "dim"))
        board.lines.append(look.plain(line))
    board.add_blank()
    board.add([look.plain((("  Enter runs it on the host, as the account that gputop uses. It only reads.", "dim"),))])
    return board


def raw_title(
    host: str, tool: RawTool, output: RawOutput | None, look: Look, width: int, lines: int, *, asking: bool
) -> Spans:
    """`gpu-003  nvidia-smi -q`, and at the right how it ended and when it was asked."""
    left: Spans = ((f" {remote(host)} ", "title"), (f" {tool.command}", "strong"))
    said: Spans = ()
    if output is not None:
        ended = "no exit status" if output.exit_status is None else f"exit status {output.exit_status}"
        ago = ""
        if output.asked_at is not None:
            ago = f", asked {span(max(0.0, (look.as_of - output.asked_at).total_seconds()))} ago"
        style = "dim" if output.exit_status == 0 else "warn"
        said = ((f"{ended}", style), (f"{ago}, {lines:,} lines ", "dim"))
    if asking:
        said = (*said, (" being asked … ", "badge"))
    return look.plain(spread(left, said, width))


def raw_page(output: RawOutput | None, lines: Sequence[str], look: Look) -> list[Spans]:
    """What was printed, as it was printed; what went wrong stands above it."""
    if output is None:
        return [((" ", "text"),), (("  asked; Esc leaves", "dim"),)]
    page: list[Spans] = []
    if output.problem is not None:
        page += [(("✕ ", "bad"), (remote(output.problem.summary), "strong"))]
        if output.problem.hint:
            page.append((("  → ", "accent"), (remote(output.problem.hint), "text")))
    if said := raw_lines(output.error_text):
        page += [((f"  {line}", "warn"),) for line in said]
    if page:
        page.append(((" ", "text"),))
    page += [((line, "text"),) for line in lines]
    if not lines:
        page.append((("  it printed nothing", "dim"),))
    return [look.plain(line) for line in page]

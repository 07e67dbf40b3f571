"""Every pane size and every text: nothing wraps, nothing crashes, nothing is lost (cases 15 and 16)."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest
from msgspec import structs
from rich.cells import cell_len

from gputop.domain.host import HostSpec
from gputop.domain.link import LinkState
from gputop.domain.problem import ProblemKind
from gputop.fleet.fleet import Fleet
from gputop.fleet.series import SeriesStore
from gputop.tui.picture import rendered
from tests.tui.builders import NOW, a_gpu_frame, a_host, a_problem, a_process, an_app, dark, odd_fleet

CASES = Path(__file__).resolve().parents[1] / "fixtures" / "cases"
SIZES = [
    (int(row["gpus"]), int(row["columns"]), int(row["lines"]))
    for row in csv.DictReader((CASES / "15-terminal-sizes.tsv").read_text().splitlines(), delimiter="\t")
]
TEXTS = (CASES / "16-bracket-text.txt").read_text().splitlines()


@pytest.mark.parametrize(("gpus", "columns", "lines"), SIZES)
async def test_it_draws_at_each_size_and_follows_a_resize_to_every_other(gpus: int, columns: int, lines: int) -> None:
    frame = a_gpu_frame("gpu-001", [50.0] * gpus, processes=(a_process(0),))
    fleet = Fleet(as_of=NOW, hosts={"gpu-001": a_host("gpu-001", frame)})
    app = an_app(fleet, view="gpus")
    async with app.run_test(size=(columns, lines)) as pilot:
        for _, wide, high in [(gpus, columns, lines), *SIZES]:
            await pilot.resize_terminal(wide, high)
            await pilot.pause()
            text = app.screen_lines()
            assert len(text) <= high
            assert all(cell_len(line) <= wide for line in text)
            if wide >= 40:
                assert "gpu-001" in "\n".join(text)
            else:
                assert "too small" in "\n".join(text)
        await pilot.press("q", "q")
        assert app.return_value == 0


EDGES = [(1, 1), (2, 1), (5, 2), (19, 4), (30, 7), (31, 8), (59, 13), (60, 14), (99, 27), (300, 100)]


@pytest.mark.parametrize("size", EDGES)
@pytest.mark.parametrize(
    "view", ["hosts", "gpus", "processes", "host:gpu-003", "gpu:gpu-003:1", "gpu:gpu-003:5", "gpu:mig-01:0"]
)
async def test_no_size_breaks_a_line(view: str, size: tuple[int, int]) -> None:
    fleet, series = odd_fleet()
    text = await rendered(fleet, series, theme=dark(), view=view, size=size)
    assert all(cell_len(line) <= size[0] for line in text.splitlines())


@pytest.mark.parametrize("text", TEXTS)
async def test_a_bracketed_text_appears_character_for_character(text: str) -> None:
    problem = a_problem(ProblemKind.TOOL_FAILED, text)
    frame = a_gpu_frame("odd", [50.0], processes=(a_process(0, user=text, command=text, name=text),))
    spec = HostSpec(name="odd", labels={"note": text})
    host = a_host("odd", frame, LinkState.DEGRADED, problem, spec=spec, problems=(problem,))
    fleet = Fleet(as_of=NOW, hosts={"odd": host})
    for view in ("hosts", "gpus", "processes", "host:odd", "gpu:odd:0"):
        drawn = await rendered(fleet, SeriesStore(), theme=dark(), view=view, size=(250, 40))
        assert text in drawn, view
    app = an_app(fleet)
    async with app.run_test(size=(120, 40)) as pilot:
        app.say(text)
        assert f" {text} " in app.screen_lines()[-1]
        await pilot.press("d")
        assert text in "\n".join(app.screen_lines()[:-1])


@pytest.mark.parametrize(
    "text", ["\x1b[2J\x1b[31mred", "a\u202eb", "z\u200bw\u2066", "tab\there", "\x9b31m", "nul\x00", "\ud800"], ids=ascii
)
async def test_control_characters_never_reach_the_terminal(text: str) -> None:
    problem = a_problem(ProblemKind.TOOL_FAILED, text, hint=text)
    frame = a_gpu_frame("odd", [50.0], model=text, processes=(a_process(0, user=text, command=text, job=text),))
    spec = HostSpec(name="odd", labels={text: text})
    host = a_host("odd", frame, LinkState.DEGRADED, problem, spec=spec, problems=(problem,))
    fleet = Fleet(as_of=NOW, hosts={"odd": host})
    for view in ("hosts", "gpus", "processes", "host:odd", "gpu:odd:0"):
        drawn = await rendered(fleet, SeriesStore(), theme=dark(), view=view, size=(250, 60))
        for character in drawn.replace("\n", ""):
            assert character.isprintable(), (view, ascii(character))


async def test_wide_characters_keep_the_columns_in_line() -> None:
    frame = a_gpu_frame("h", [50.0] * 2, processes=(a_process(0, user="山田太郎花子次郎"), a_process(1, 5, user="bob")))
    fleet = Fleet(as_of=NOW, hosts={"h": a_host("h", frame)})
    text = await rendered(fleet, SeriesStore(), theme=dark(), view="processes", size=(120, 20))
    lines = [line for line in text.splitlines() if "python" in line]
    assert len({cell_len(line[: line.index("python")]) for line in lines}) == 1


async def test_what_is_wrong_with_a_device_stands_once_on_its_hosts_page() -> None:
    own = a_problem(ProblemKind.DEVICE_LOST, "it does not answer", hint="reboot")
    link = structs.replace(own, summary=f"GPU 0 (00000000:19:00.0): {own.summary}")  # as the fleet names it
    frame = a_gpu_frame("odd", [50.0])
    host = a_host("odd", frame, LinkState.DEGRADED, link, device_problems={0: (own,)})
    text = await rendered(Fleet(as_of=NOW, hosts={"odd": host}), SeriesStore(), theme=dark(), view="host:odd")
    assert text.count("→ reboot") == 1
    assert frame.devices[0].label in text


@pytest.mark.parametrize("width", [40, 80, 120])
async def test_a_page_wraps_what_a_table_cuts(width: int) -> None:
    command = " ".join(f"--option-{number}=value" for number in range(40))
    hint = "first " + "do this and then that " * 8 + "last"
    problem = a_problem(ProblemKind.TOOL_FAILED, "a tool failed", hint=hint)
    frame = a_gpu_frame("odd", [50.0], processes=(a_process(0, command=command),))
    host = a_host("odd", frame, LinkState.DEGRADED, problem, problems=(problem,))
    app = an_app(Fleet(as_of=NOW, hosts={"odd": host}))
    async with app.run_test(size=(width, 100)) as pilot:
        await pilot.press("enter")
        words = " ".join("".join(app.screen_lines()).replace("│", "").split())
        assert " ".join(hint.split()) in words
        await pilot.press("3", "d")
        text = "\n".join(app.screen_lines())
        assert all(f"--option-{number}=value" in text for number in range(40))
        assert "everything known at 14:03:22 UTC" in text or width < 60

"""Files, folders, archives, bug reports, and recordings that are joined."""

from __future__ import annotations

import gzip
import io
import tarfile
from pathlib import Path
from typing import Any

import pytest

from gputop.readers import archive
from gputop.readers.join import join
from gputop.readers.load import Recording, joined, load, load_bytes, unique
from gputop.readers.recognize import FORMATS, formats_of, read_text
from gputop.readers.text import plain
from tests.unit.readers import inputs

LIST = "GPU 0: NVIDIA A100 (UUID: GPU-aaaaaaaa-0000-4000-8000-000000000001)\n"


def tar(files: dict[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as made:
        for name, data in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(data)
            made.addfile(member, io.BytesIO(data))
        link = tarfile.TarInfo("link.txt")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        made.addfile(link)
    return buffer.getvalue()


FILES = {"a/list.txt": LIST.encode(), "a/b/lost.xml": inputs.LOST_XML.encode(), "notes.md": b"hello\n"}


def names(recordings: list[Recording]) -> list[str]:
    return [recording.name for recording in recordings]


def test_a_folder_is_searched_and_files_of_no_tool_are_left_out(tmp_path: Path) -> None:
    for name, data in FILES.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    (tmp_path / "link").symlink_to("/etc/passwd")
    recordings, left_out = load(tmp_path, None)
    assert (names(recordings), left_out) == (["a/b/lost.xml", "a/list.txt"], 1)


@pytest.mark.parametrize("compress", [bytes, gzip.compress], ids=["tar", "tar.gz"])
def test_an_archive_is_searched_and_its_links_are_not_followed(compress: Any) -> None:
    recordings, left_out = load_bytes("report.tar.gz", compress(tar(FILES)), None)
    assert (sorted(names(recordings)), left_out) == (["a/b/lost.xml", "a/list.txt"], 1)


def test_an_archive_that_is_cut_gives_what_comes_before_and_says_so() -> None:
    whole = gzip.compress(tar({"list.txt": LIST.encode(), "more.txt": LIST.encode() * 300}))
    recordings, _ = load_bytes("report.tar.gz", whole[: len(whole) * 2 // 3], None)
    assert any(recording.sample["problems"] for recording in recordings)


def test_a_compressed_file_is_a_file() -> None:
    recordings, _ = load_bytes("list.txt.gz", gzip.compress(LIST.encode()), None)
    assert names(recordings) == ["list.txt"]
    assert recordings[0].sample["devices"][0]["model"] == "NVIDIA A100"


def test_a_folder_without_any_output_says_what_was_looked_for(tmp_path: Path) -> None:
    (tmp_path / "notes.md").write_text("hello")
    (recording,), left_out = load(tmp_path, None)
    assert left_out == 0
    assert recording.sample["devices"] == []
    assert "nvidia-smi -q -x" in recording.sample["problems"][0]["detail"]


def test_a_file_that_cannot_be_read_is_a_problem(tmp_path: Path) -> None:
    (found,) = archive.find(tmp_path / "gone.txt")
    assert (found.data, found.flaw) == (b"", "No such file or directory")


def test_a_bomb_is_cut_at_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archive, "TOTAL_LIMIT", 1000)
    monkeypatch.setattr(archive, "FILE_LIMIT", 500)
    (found,) = archive.unpack("zeros.gz", gzip.compress(b"0" * 100_000))
    assert len(found.data) == 500
    assert found.flaw is not None


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_the_encodings_of_windows_shells_are_understood(encoding: str) -> None:
    text = plain(LIST.replace("\n", "\r\n").encode(encoding))
    assert text == LIST


def test_escapes_and_control_characters_are_gone() -> None:
    assert plain(b"\x1b[4mGPU0\x1b[0m\x00\x07 \xff") == "GPU0 \ufffd"


def test_files_of_one_name_stay_apart() -> None:
    twice = [Recording("a.xml", read_text(LIST)), Recording("a.xml", read_text(LIST))]
    assert names(unique(twice)) == ["a.xml", "a.xml (2)"]


def test_joined_files_are_one_host_with_the_values_of_all() -> None:
    bus = "00000000:17:00.0"
    uuid = "GPU-aaaaaaaa-0000-4000-8000-000000000001"
    query = f"index, uuid, pci.bus_id, utilization.gpu [%], driver_version\n0, {uuid}, {bus}, 7 %, 535.1\n"
    apps = f"gpu_uuid, pid, process_name, used_gpu_memory [MiB]\n{uuid}, 7, python, 5 MiB\n"
    (one,) = joined([Recording(name, read_text(text)) for name, text in (("q", query), ("a", apps), ("l", LIST))])
    (row,) = one.sample["devices"]
    assert (one.name, row["utilization_percent"], row["model"]) == ("q", 7, "NVIDIA A100")
    assert ([process["pid"] for process in row["processes"]], row["processes_known"]) == ([7], True)
    assert (one.sample["facts"], one.sample["problems"]) == ({"driver_version": "535.1"}, [])


def test_joined_files_of_two_machines_say_so() -> None:
    one = read_text("index, driver_version\n0, 535.1\n")
    other = read_text("index, driver_version\n0, 550.2\n")
    assert [found["kind"] for found in join([one, other])["problems"]] == ["unreadable-file"]


def test_joined_instances_get_profile_and_memory_from_both_files() -> None:
    listed = "GPU 0: NVIDIA A100-SXM... (UUID: GPU-aaaaaaaa-0000-4000-8000-000000000001)\n"
    listed += "  MIG 1c.3g.20gb  Device  0: (UUID: MIG-1)\n  MIG 2c.3g.20gb  Device  1: (UUID: MIG-2)\n"
    (row,) = join([read_text(inputs.SHARED_INSTANCE), read_text(listed)])["devices"]
    assert [(part["compute_instance_id"], part["profile"], part["uuid"]) for part in row["partitions"]] == [
        (0, "1c.3g.20gb", "MIG-1"),
        (1, "2c.3g.20gb", "MIG-2"),
    ]


def test_blanked_uuids_do_not_fold_two_gpus_into_one() -> None:
    rows = "uuid, pci.bus_id\nGPU-00000000, 00000000:17:00.0\nGPU-00000000, 00000000:65:00.0\n"
    made = join([read_text(rows), read_text(rows)])
    assert [row["pci_bus_id"] for row in made["devices"]] == ["00000000:17:00.0", "00000000:65:00.0"]


BUG_REPORT = f"""\

____________________________________________

Start of NVIDIA bug report log file.  Please include this file.

____________________________________________

*** /etc/issue
Ubuntu 20.04

____________________________________________

/usr/bin/nvidia-smi --query

{inputs.DRIVER_340_TEXT}
____________________________________________

/usr/bin/nvidia-smi -L

GPU 0: Tesla K20m (UUID: GPU-aaaaaaaa-0000-4000-8000-000000000001)

____________________________________________

/bin/dmesg
[   12.345678] NVRM: Xid (PCI:0000:02:00): 79, pid=1234, name=python, GPU has fallen off the bus.
"""


def test_a_bug_report_is_one_host_with_all_that_its_parts_say() -> None:
    sample = read_text(BUG_REPORT)
    (row,) = sample["devices"]
    assert (row["model"], row["temperature_celsius"]) == ("Tesla K20m", 26)
    assert [event["code"] for event in sample["events"]] == [79]
    assert sample["facts"]["driver_version"] == "340.29"


def test_a_kernel_log_below_an_output_is_read_as_well() -> None:
    log = "[   12.345678] NVRM: Xid (PCI:0000:02:00): 79, pid=1234, name=python, GPU has fallen off the bus.\n"
    for text in (inputs.DRIVER_340 + log, log + inputs.DRIVER_340):
        sample = read_text(text)
        assert [row["index"] for row in sample["devices"]] == [0, 1]
        assert [event["code"] for event in sample["events"]] == [79]
        assert sample["route"] == "nvidia-smi"


def test_the_tool_is_told_by_its_first_words() -> None:
    assert [known.name for known in formats_of("nvidia-smi mig")] == ["nvidia-smi mig -lgi"]
    assert len(formats_of("nvidia-smi")) > 10
    assert formats_of("no-such-tool") == ()


def test_a_tool_that_is_named_is_used_even_where_the_text_does_not_look_like_it() -> None:
    text = "0, 35, 12\n"
    assert read_text(text)["devices"] == []
    (row,) = read_text(text, "nvidia-smi --query-gpu=index,temperature.gpu,utilization.gpu")["devices"]
    assert (row["index"], row["temperature_celsius"], row["utilization_percent"]) == (0, 35, 12)


def test_a_tool_that_is_named_and_finds_nothing_says_so() -> None:
    sample = read_text("nothing of the kind\n", "nvidia-smi topo -m")
    assert (sample["devices"], [found["kind"] for found in sample["problems"]]) == ([], ["unreadable-file"])


@pytest.mark.parametrize("text", ["", "\n\n", "hello\n", "\ufffd" * 2000, "{}", "<html></html>"])
def test_what_is_no_output_is_recognized_by_no_reader(text: str) -> None:
    assert [known.name for known in FORMATS if known.looks_like(text)] == []
    sample = read_text(text)
    assert (sample["devices"], [found["kind"] for found in sample["problems"]]) == ([], ["unreadable-file"])

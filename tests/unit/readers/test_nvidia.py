"""nvidia-smi's outputs beyond the published recordings: old layouts, lost GPUs, virtual ones, odd lists."""

from __future__ import annotations

from typing import Any

import pytest

from gputop.readers.recognize import read_text
from gputop.remote.sample import MIB, Row, Sample
from tests.unit.readers import inputs


def rows(text: str, tool: str | None = None) -> list[Row]:
    devices: list[Row] = read_text(text, tool)["devices"]
    return devices


def kinds(found: Any) -> list[str]:
    return [problem["kind"] for problem in found.get("problems", [])]


def test_a_lost_gpu_stands_in_state_lost_beside_its_healthy_sibling() -> None:
    healthy, lost = rows(inputs.LOST_BESIDE_HEALTHY)
    assert (healthy["temperature_celsius"], healthy.get("state", "ok")) == (35, "ok")
    assert [process["pid"] for process in healthy["processes"]] == [1234]
    assert (lost["index"], lost["pci_bus_id"], lost["state"]) == (1, "00000000:06:00.0", "lost")
    assert kinds(lost) == ["device-lost"]
    assert [lost.get(key) for key in ("memory_used_bytes", "temperature_celsius", "utilization_percent")] == [None] * 3
    assert not lost["processes_known"]


def test_a_warning_about_the_inforom_is_attached_to_the_gpu_it_names() -> None:
    healthy, _ = rows(inputs.LOST_BESIDE_HEALTHY)
    assert kinds(healthy) == ["inforom-corrupted"]
    assert kinds(rows(inputs.LOST_XML)[0]) == ["inforom-corrupted"]


def test_xml_whose_values_say_that_the_gpu_is_lost() -> None:
    healthy, lost = rows(inputs.LOST_XML)
    assert (healthy["temperature_celsius"], healthy["processes_known"]) == (31, True)
    assert (lost["state"], kinds(lost), lost["processes_known"]) == ("lost", ["device-lost"], False)
    assert "memory_total_bytes" not in lost


def test_the_two_line_layout_of_driver_340_with_its_words_for_compute_modes_and_ecc() -> None:
    first, second = rows(inputs.DRIVER_340)
    assert (first["compute_mode"], first["ecc_mode"], first["persistence_mode"]) == (
        "exclusive-process",
        "disabled",
        False,
    )
    assert (second["compute_mode"], second["ecc_mode"], second["ecc_uncorrected_volatile"]) == (
        "prohibited",
        "enabled",
        2,
    )
    assert [(one["pid"], one["name"], one["memory_used_bytes"]) for one in first["processes"]] == [
        (12345, "./a.out with args", 4715 * MIB)
    ]
    assert (first["processes_known"], second["processes"], second["processes_known"]) == (True, [], True)


def test_minus_q_of_driver_340() -> None:
    (row,) = rows(inputs.DRIVER_340_TEXT)
    assert row["model"] == "Tesla K20m"
    assert (row["power_watts"], row["power_limit_watts"], row["utilization_percent"]) == (25.36, 225, 0)
    assert (row["ecc_mode"], row["ecc_pending_mode"]) == ("enabled", "disabled")
    assert (row["ecc_corrected_volatile"], row["ecc_uncorrected_volatile"]) == (3, 1)
    assert (row["retired_pages_single_bit"], row["retired_pages_pending"]) == (1, True)
    assert (row["pcie_generation"], row["pcie_width"], row["pcie_width_max"]) == (1, 8, 16)
    assert row["throttle_reasons"] == ["idle"]
    assert (row["processes"], row["processes_known"]) == ([], True)


def test_memory_of_a_gpu_instance_is_shown_once_where_the_table_shows_it_once() -> None:
    (row,) = rows(inputs.SHARED_INSTANCE)
    assert [(part["gpu_instance_id"], part["compute_instance_id"]) for part in row["partitions"]] == [(1, 0), (1, 1)]
    assert [part.get("memory_used_bytes") for part in row["partitions"]] == [11 * MIB, None]
    assert (row["mig_mode"], row.get("utilization_percent")) == ("enabled", None)


def test_a_jetson_has_a_gpu_without_bus_and_without_values() -> None:
    sample = read_text(inputs.JETSON)
    (row,) = sample["devices"]
    assert (row["model"], row["pci_bus_id"], row["processes_known"]) == ("Orin (nvgpu)", None, True)
    assert sample["facts"] == {"cuda_version": "12.6"}
    assert "memory_total_bytes" not in row


@pytest.mark.parametrize("text", [inputs.VGPU_TABLE, inputs.VGPU_TEXT], ids=["table", "text"])
def test_virtual_gpus_are_partitions_of_their_physical_one(text: str) -> None:
    first, second = rows(text)
    assert {(part["kind"], part["profile"]) for part in first["partitions"]} == {("vgpu", "GRID V100-4C")}
    assert second["partitions"] == []
    assert [first["pci_bus_id"], second["pci_bus_id"]] == ["00000000:3B:00.0", "00000000:D8:00.0"]


def test_nvlink_counts_links_and_errors_and_attaches_a_refusal() -> None:
    first, second, third = rows(inputs.NVLINK)
    assert (first["nvlink_error_count"], first.get("nvlink_links_total")) == (3, None)
    assert (second["nvlink_links_active"], second["nvlink_links_total"]) == (1, 2)
    assert kinds(third) == ["permission"]


def test_dmon_shows_the_last_sample_of_each_gpu() -> None:
    first, second = rows(inputs.DMON)
    assert (first["utilization_percent"], first["power_watts"], first["temperature_celsius"]) == (7, 44, 36)
    assert (first["memory_used_bytes"], first["ecc_uncorrected_volatile"]) == (11 * MIB, 1)
    assert [second.get(key) for key in ("utilization_percent", "power_watts", "ecc_corrected_volatile")] == [None] * 3


def test_pmon_with_memory_keeps_the_last_value_and_names_with_blanks() -> None:
    first, second = rows(inputs.PMON_MEMORY)
    assert [(one["pid"], one["name"], one["memory_used_bytes"]) for one in first["processes"]] == [
        (7890, "my prog", 1025 * MIB)
    ]
    assert second["processes"] == []


def test_compute_instances() -> None:
    (row,) = rows(inputs.COMPUTE_INSTANCES)
    assert [(one["gpu_instance_id"], one["compute_instance_id"], one["profile"]) for one in row["partitions"]] == [
        (1, 0, "3g.20gb"),
        (2, 1, "1c.3g.20gb"),
    ]


def test_a_topology_names_gpus_and_not_network_cards() -> None:
    assert [row["index"] for row in rows(inputs.TOPOLOGY)] == [0, 1]


def test_dcgmi_dmon_shows_the_last_sample_of_each_gpu() -> None:
    text = "#Entity   GPUTL  POWER\nID\nGPU 0     5      43.2\nGPU 1     N/A    N/A\nGPU 0     9      44.1\n"
    first, second = rows(text)
    assert (first["utilization_percent"], first["power_watts"]) == (9, 44.1)
    assert (second["index"], second.get("utilization_percent")) == (1, None)


def test_a_diagnosis_is_a_problem_of_the_gpus_that_it_names() -> None:
    sample = read_text(inputs.DIAGNOSIS)
    assert {row["index"]: kinds(row) for row in sample["devices"]} == {0: ["device-error"], 1: [], 2: [], 3: []}


@pytest.mark.parametrize(
    ("line", "bus_id", "state", "kind"),
    [
        (
            "Unable to determine the device handle for GPU 0000:02:00.0: GPU is lost.",
            "0000:02:00.0",
            "lost",
            "device-lost",
        ),
        (
            "Unable to determine the device handle for GPU0000:02:00.0: Unknown Error",
            "0000:02:00.0",
            "error",
            "device-error",
        ),
        (
            "Unable to determine the device handle for GPU3: 0000:02:00.0: Unknown Error",
            "0000:02:00.0",
            "error",
            "device-error",
        ),
    ],
)
def test_a_gpu_that_cannot_be_opened_is_a_device(line: str, bus_id: str, state: str, kind: str) -> None:
    (row,) = rows(line)
    assert (row["pci_bus_id"], row["state"], kinds(row)) == (bus_id, state, [kind])
    listed = rows("GPU 0: NVIDIA A100 (UUID: GPU-aaaaaaaa-0000-4000-8000-000000000001)\n" + line)
    assert [row.get("state", "ok") for row in listed] == ["ok", state]


@pytest.mark.parametrize(
    ("words", "kind"),
    [
        ("NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.", "driver-not-loaded"),
        ("Failed to initialize NVML: Driver Not Loaded", "driver-not-loaded"),
        (
            "Failed to initialize NVML: Driver/library version mismatch\nNVML library version: 570.124",
            "driver-mismatch",
        ),
        ("Failed to initialize NVML: Insufficient Permissions", "permission"),
        ("Failed to initialize NVML: Unknown Error", "tool-failed"),
        ("No devices were found", "no-devices"),
        ("NVIDIA-SMI couldn't find libnvidia-ml.so library in your system.", "tool-missing"),
        ('Field "clocks.unknown" is not a valid field to query.', "tool-failed"),
        ("ERROR: Option --frob is not recognized. Please run 'nvidia-smi -h'.", "tool-failed"),
        ("-bash: nvidia-smi: command not found", "tool-missing"),
        ("FileNotFoundError: [Errno 2] No such file or directory: 'nvidia-smi'", "tool-missing"),
        ("NVIDIA: could not open the device file /dev/nvidiactl (No such file or directory).", "driver-not-loaded"),
        ("open /dev/nvidiactl: Permission denied", "permission"),
        ("nvidia-container-cli: initialization error: nvml error: driver not loaded: unknown", "driver-not-loaded"),
    ],
)
def test_a_failure_is_one_problem_and_no_device(words: str, kind: str) -> None:
    sample = read_text(words + "\n")
    assert (sample["devices"], kinds(sample)) == ([], [kind])
    assert words.splitlines()[0] in sample["problems"][0]["detail"]


NO_VALUES = [
    "[N/A]",
    "N/A",
    "[Not Supported]",
    "[Not Found]",
    "[Function Not Found]",
    "[Requested functionality has been deprecated]",
    "",
]


@pytest.mark.parametrize("token", NO_VALUES)
def test_every_word_for_no_value_is_none_and_no_problem(token: str) -> None:
    header = "index, name, utilization.gpu [%], memory.used [MiB], power.draw [W], mig.mode.current"
    (row,) = rows(f"{header}\n0, NVIDIA A100-SXM4-80GB, {token}, {token}, {token}, {token}\n")
    assert row == {"vendor": "nvidia", "index": 0, "model": "NVIDIA A100-SXM4-80GB", "problems": []}


@pytest.mark.parametrize(
    ("token", "kind", "state"),
    [
        ("[Unknown Error]", "device-error", "error"),
        ("[GPU requires reset]", "requires-reset", None),
        ("[GPU is lost]", "device-lost", "lost"),
        ("[Insufficient Permissions]", "permission", None),
        ("ERR!", "device-error", "error"),
    ],
)
def test_an_error_in_a_cell_is_a_problem_of_its_device(token: str, kind: str, state: str | None) -> None:
    header = "index, name, utilization.gpu [%], memory.used [MiB]"
    first, second = rows(
        f"{header}\n0, NVIDIA A100-SXM4-80GB, {token}, {token}\n1, NVIDIA A100-SXM4-80GB, 3 %, 5 MiB\n"
    )
    assert (kinds(first), first.get("state"), first.get("utilization_percent")) == ([kind], state, None)
    assert (kinds(second), second["utilization_percent"]) == ([], 3)


def test_a_process_name_with_commas_stays_whole() -> None:
    header = "gpu_uuid, pid, process_name, used_gpu_memory [MiB]"
    (row,) = rows(f"{header}\nGPU-aaaaaaaa-0000-4000-8000-000000000001, 7, python, -c, 1, 5 MiB\n")
    assert [(one["pid"], one["name"], one["memory_used_bytes"]) for one in row["processes"]] == [
        (7, "python, -c, 1", 5 * MIB)
    ]


def test_a_row_that_ends_early_gives_the_cells_before_the_last_one() -> None:
    text = "index, name, utilization.gpu [%], memory.used [MiB]\n0, NVIDIA A100, 3 %, 5 MiB\n1, NVIDIA A100, 4"
    sample = read_text(text)
    assert [(row["index"], row.get("utilization_percent")) for row in sample["devices"]] == [(0, 3), (1, None)]
    assert kinds(sample) == ["unreadable-file"]


def test_a_query_about_retired_pages_invents_no_gpus() -> None:
    text = "gpu_uuid, retired_pages.address\nGPU-aaaaaaaa-0000-4000-8000-000000000001, 0x1\n" * 2
    assert rows(text) == []


def xml(gpus: str, head: str = "") -> str:
    return f"{head}<nvidia_smi_log><driver_version>1.2</driver_version>{gpus}</nvidia_smi_log>"


GPU = '<gpu id="00000000:17:00.0"><temperature><gpu_temp>31 C</gpu_temp></temperature></gpu>'


def test_a_document_type_declares_no_entities(tmp_path: Any) -> None:
    secret = tmp_path / "secret"
    secret.write_text("top secret")
    head = f'<!DOCTYPE nvidia_smi_log [<!ENTITY x SYSTEM "{secret.as_uri()}"><!ENTITY a "aaaa"><!ENTITY b "&a;&a;">]>'
    gpu = '<gpu id="00000000:17:00.0"><product_name>&x;</product_name><serial>&b;</serial></gpu>'
    sample = read_text(xml(gpu, head))
    assert "secret" not in str(sample)
    assert "aaaa" not in str(sample)
    assert kinds(sample) == ["unreadable-file"]


def test_cut_xml_gives_what_comes_before_and_says_so() -> None:
    text = xml(GPU + GPU.replace("17:", "65:"))
    sample = read_text(text[: text.index("31 C</gpu_temp></temperature></gpu></nvidia") + 2])
    assert [row["pci_bus_id"] for row in sample["devices"]] == ["00000000:17:00.0", "00000000:65:00.0"]
    assert [row.get("temperature_celsius") for row in sample["devices"]] == [31, None]
    assert kinds(sample) == ["unreadable-file"]
    assert sample["facts"] == {"driver_version": "1.2"}


def test_of_several_logs_the_last_whole_one_counts() -> None:
    later = xml(GPU.replace("31 C", "32 C"))
    sample = read_text(xml(GPU) + "\n" + later + "\n" + xml(GPU)[:60])
    assert [row["temperature_celsius"] for row in sample["devices"]] == [32]
    assert kinds(sample) == []


def test_fewer_gpus_than_attached_is_a_problem() -> None:
    sample = read_text(xml("<attached_gpus>8</attached_gpus>" + GPU))
    assert [(one["kind"], one["summary"]) for one in sample["problems"]] == [
        ("devices-missing", "1 of 8 attached GPUs are shown")
    ]


def test_a_module_s_power_is_never_the_card_s() -> None:
    gpu = GPU.replace(
        "</gpu>",
        "<module_power_readings><average_power_draw>500.00 W</average_power_draw>"
        "<instant_power_draw>501.00 W</instant_power_draw><power_draw>502.00 W</power_draw>"
        "<current_power_limit>1000.00 W</current_power_limit></module_power_readings>"
        "<gpu_memory_power_readings><average_power_draw>80.00 W</average_power_draw></gpu_memory_power_readings></gpu>",
    )
    (row,) = rows(xml(gpu))
    assert [key for key in row if key.startswith("power")] == []


def test_text_that_is_cut_in_the_last_number_does_not_show_half_of_it() -> None:
    sample = read_text("\n".join(inputs.DRIVER_340_TEXT.split("\n")[:52]) + "\n        GPU Current Temp            : 2")
    (row,) = sample["devices"]
    assert row.get("temperature_celsius") is None
    assert kinds(sample) == ["unreadable-file"]


def test_a_table_that_is_cut_says_so_and_keeps_its_rows() -> None:
    sample: Sample = read_text("\n".join(inputs.DRIVER_340.splitlines()[:8]))
    assert [row["index"] for row in sample["devices"]] == [0]
    assert kinds(sample) == ["unreadable-file"]

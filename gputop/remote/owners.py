"""What a process belongs to: its container, its pod, its job. Pure: out of the texts of /proc and names in /var/log."""

import json
import re
from typing import Iterable, Optional

_ID = re.compile(r"(?<![0-9a-f])([0-9a-f]{64})(?![0-9a-f])")
_MONITOR = "conmon-"
"""The cgroup of the program that watches a container of podman or cri-o is named like the container."""
_LXC = re.compile(r"/lxc(?:\.payload\.|/)([^/]+)")
_POD = re.compile(r"pod([0-9a-f]{8}(?:[-_][0-9a-f]{4}){3}[-_][0-9a-f]{12}|[0-9a-f]{32})(?=[./:]|$)")
_SLURM = re.compile(r"/(?:slurm(?:_[^/]+)?/uid_\d+|(?:[^/]+_)?slurmstepd\.scope)/job_(\d+)(?=/|$)")
_SHORT = 12
"""Characters of an id, as docker, podman and crictl show it."""


class Owner:
    """What the cgroups of a process say."""

    def __init__(self) -> None:
        self.container_id: Optional[str] = None
        """64 hexadecimal digits; of LXC, a name. The innermost, where one container runs in another."""
        self.pod_uid: Optional[str] = None
        """As Kubernetes writes it, with hyphens."""
        self.job: Optional[str] = None
        """Of Slurm."""


def parse_cgroup(cgroup: str) -> Owner:
    """/proc/PID/cgroup: `12:devices:/docker/ID` of version 1, `0::/system.slice/docker-ID.scope` of version 2."""
    owner = Owner()
    for line in cgroup.splitlines():
        path = line.partition(":")[2].partition(":")[2]
        ids = [found.group(1) for found in _ID.finditer(path) if not path[: found.start()].endswith(_MONITOR)]
        names = [name for name in _LXC.findall(path) if not _ID.match(name)]
        if owner.container_id is None and ids + names:
            owner.container_id = ids[-1] if ids else names[-1]
        pods = _POD.findall(path)
        if owner.pod_uid is None and pods:
            owner.pod_uid = pods[-1].replace("_", "-")
        jobs = _SLURM.findall(path)
        if owner.job is None and jobs:
            owner.job = jobs[-1]
    return owner


def job_of_environment(environment: str) -> Optional[str]:
    """The Slurm job in /proc/PID/environ, for clusters whose jobs have no cgroup of their own."""
    for entry in environment.split("\0"):
        name, _, value = entry.partition("=")
        if name == "SLURM_JOB_ID" and value.isdigit():
            return value
    return None


def pod_name(owner: Owner, container_logs: Iterable[str], pod_logs: Iterable[str]) -> Optional[str]:
    """`namespace/pod/container`, or `namespace/pod`, by the names in /var/log/containers and /var/log/pods; where those
    tell nothing, the uid of the pod. `None` for what runs in no pod."""
    for name in container_logs:
        words = name[:-4].split("_") if name.endswith(".log") else []
        container, _, number = words[2].rpartition("-") if len(words) == 3 else ("", "", "")
        if number and number == owner.container_id:
            return "%s/%s/%s" % (words[1], words[0], container)
    if owner.pod_uid is None:
        return None
    for name in pod_logs:
        words = name.split("_")
        if len(words) == 3 and words[2] in (owner.pod_uid, owner.pod_uid.replace("-", "")):
            return "%s/%s" % (words[0], words[1])
    return "pod %s" % owner.pod_uid


def docker_name(config: str) -> Optional[str]:
    """The name of a container in docker's own config.v2.json."""
    try:
        name = json.loads(config).get("Name")
    except (ValueError, AttributeError):
        return None
    return name.lstrip("/") or None if isinstance(name, str) else None


def short_id(container_id: Optional[str]) -> Optional[str]:
    """As the runtime's own commands show it; a name stays as it is."""
    return container_id[:_SHORT] if container_id is not None and _ID.match(container_id) else container_id

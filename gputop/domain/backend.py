"""Who gives a host its work and who powers it, as the inventory names them (`scheduler` and `power`).

These structs are read from the file as they are, so their fields are the keys of the inventory."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, Struct

Seconds = Annotated[float, Meta(gt=0, le=86400)]


class NoScheduler(Struct, frozen=True, kw_only=True, tag_field="kind", tag="none", forbid_unknown_fields=True):
    """Work is started by people: a marker under /run, messages, and waiting."""


class Slurm(Struct, frozen=True, kw_only=True, tag_field="kind", tag="slurm", forbid_unknown_fields=True):
    via: str | None = None
    """Host of the inventory on which scontrol, sinfo and squeue are run; `null`: this machine."""
    node: str | None = None
    """The host's name in Slurm, `{host}` standing for its name in the inventory; `null`: found by name and address."""
    sudo: bool = False
    """Run scontrol behind `sudo -n`."""
    controllers: tuple[str, ...] = ()
    """Hosts of the inventory that run slurmctld, beside those Slurm names itself; acts on them are refused."""


class Kubernetes(Struct, frozen=True, kw_only=True, tag_field="kind", tag="kubernetes", forbid_unknown_fields=True):
    context: str
    """Of the kubeconfig; never the current one by chance."""
    kubeconfig: str | None = None
    kubectl: str = "kubectl"
    via: str | None = None
    """Host of the inventory on which kubectl is run; `null`: this machine."""
    node: str | None = None
    """The node's name, `{host}` standing for the host's name in the inventory; `null`: found by address and name."""


SchedulerSpec = NoScheduler | Slurm | Kubernetes


class SshPower(Struct, frozen=True, kw_only=True, tag_field="kind", tag="ssh", forbid_unknown_fields=True):
    """Power off and reboot by the operating system; nothing can start it again."""


class Ec2(Struct, frozen=True, kw_only=True, tag_field="kind", tag="ec2", forbid_unknown_fields=True):
    instance_id: str | None = None
    """`null`: found by the host's private address."""
    region: str | None = None
    profile: str | None = None
    endpoint: str | None = None


class Redfish(Struct, frozen=True, kw_only=True, tag_field="kind", tag="redfish", forbid_unknown_fields=True):
    url: str
    """`https://10.0.9.7`; `{host}` stands for the host's name."""
    system: str | None = None
    """Id under /redfish/v1/Systems; `null`: the only one."""
    username: str | None = None
    password: str | None = None
    """Where it is read: `env:NAME` or `file:/path`."""
    ca_file: str | None = None
    insecure: bool = False


class Ipmi(Struct, frozen=True, kw_only=True, tag_field="kind", tag="ipmi", forbid_unknown_fields=True):
    address: str
    port: int = 623
    username: str | None = None
    password: str | None = None
    """Where it is read: `env:NAME` or `file:/path`."""


class CommandPower(Struct, frozen=True, kw_only=True, tag_field="kind", tag="command", forbid_unknown_fields=True):
    """A site's own programs on this machine, each an argv; `{host}`, `{address}` and `{id}` are filled in."""

    status: tuple[str, ...]
    stop: tuple[str, ...] = ()
    start: tuple[str, ...] = ()
    reboot: tuple[str, ...] = ()
    id: str | None = None
    running: tuple[str, ...] = ("running", "Running", "RUNNING", "on")
    """What `status` prints for each state, compared with its whole trimmed output."""
    stopped: tuple[str, ...] = ("stopped", "Stopped", "STOPPED", "off", "TERMINATED", "VM deallocated")
    billing: str = ""
    timeout_seconds: Seconds = 60.0
    stop_timeout_seconds: Seconds = 600.0


PowerSpec = SshPower | Ec2 | Redfish | Ipmi | CommandPower

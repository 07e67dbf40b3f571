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
    """`null`: of the host's label `instance_id`, else found by its private address or private DNS name."""
    region: str | None = None
    """`null`: as the AWS configuration says."""
    profile: str | None = None
    endpoint: str | None = None
    """Another URL of the API than Amazon's own."""


class Redfish(Struct, frozen=True, kw_only=True, tag_field="kind", tag="redfish", forbid_unknown_fields=True):
    url: str
    """`https://10.0.9.7`; `{host}` stands for the host's name."""
    system: str | None = None
    """Id under /redfish/v1/Systems; `null`: the only one."""
    username: str | None = None
    password: str | None = None
    """Where it is read: `env:NAME` or `file:/path`."""
    ca_file: str | None = None
    """Certificates to trust instead of the system's: the BMC's own, or the one that signed it."""
    insecure: bool = False
    """Do not check the certificate, and allow http://."""


class Ipmi(Struct, frozen=True, kw_only=True, tag_field="kind", tag="ipmi", forbid_unknown_fields=True):
    address: str
    """Of the BMC; `{host}` stands for the host's name."""
    port: int = 623
    username: str | None = None
    password: str | None = None
    """Where it is read: `env:NAME` or `file:/path`."""


class CommandPower(Struct, frozen=True, kw_only=True, tag_field="kind", tag="command", forbid_unknown_fields=True):
    """A site's own programs on this machine, each an argv; `{host}`, `{address}` and `{id}` are filled in."""

    status: tuple[str, ...]
    stop: tuple[str, ...] = ()
    """None: it cannot be stopped this way; likewise `start` and `reboot`."""
    start: tuple[str, ...] = ()
    reboot: tuple[str, ...] = ()
    id: str | None = None
    """The machine's id at its cloud; `null`: of the host's label `instance_id`."""
    running: tuple[str, ...] = ("running", "Running", "RUNNING", "on")
    """Regular expressions for what `status` prints in each state; one must match its whole output, trimmed."""
    stopped: tuple[str, ...] = ("stopped", "Stopped", "STOPPED", "off", "TERMINATED", "VM deallocated")
    starting: tuple[str, ...] = ()
    stopping: tuple[str, ...] = ()
    gone: tuple[str, ...] = ()
    billing: str = ""
    """What a stop does to the bill, in words, for the plan."""
    stops_billing: bool | None = None
    loses: tuple[str, ...] = ()
    """What a stop loses, in words: "the local SSDs"."""
    timeout_seconds: Seconds = 60.0
    """For `status`."""
    stop_timeout_seconds: Seconds = 600.0
    """For each of the others, until `status` tells of the new state."""


PowerSpec = SshPower | Ec2 | Redfish | Ipmi | CommandPower

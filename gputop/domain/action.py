"""A change to the world, as data: what was asked, what would be done, what was done.

The shape of every act, whatever its back end:

    request -> plan (pure) -> guards (pure, the strictest wins) -> confirmation -> audit intent
            -> steps, each: journal, check, perform, check until done or deadline -> audit outcome

A plan holds the very calls that will be made (`Step.call`); what a person reads (`Step.command`) is derived from them
and never written beside them. So what is shown and what is run cannot differ. Everything here is a frozen struct that
survives a round trip through JSON: the journal stores whole plans, and another process can carry them on.

Unknown is never safe: a check that could not be made is `UNKNOWN`, not "done" and not "not done".
"""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum

from msgspec import Struct

from gputop.domain.call import Call, command_of

MOST_CHARACTERS = 500
"""Of a reason, of why something is overridden, of a message."""


class ActionKind(StrEnum):
    """Every act. The values are the words of the command line, the audit log and the journal."""

    CORDON = "cordon"
    """No new work; what runs goes on."""
    DRAIN = "drain"
    """No new work, wait for what runs, then verify that the devices are empty."""
    RESUME = "resume"
    """Take work again: undo a cordon or a drain."""
    STOP = "stop"
    START = "start"
    REBOOT = "reboot"
    HIBERNATE = "hibernate"
    RESET = "reset"
    """Reset devices."""
    SIGNAL = "signal"
    """Send a signal to one process."""
    POWER_CAP = "power-cap"
    MESSAGE = "message"
    """Write to the people who are logged in."""
    CANCEL = "cancel"
    """Cancel jobs of a scheduler: their work is lost."""
    REQUEUE = "requeue"
    """Put jobs of a scheduler back into its queue."""
    ACK = "ack"
    """Note that the fatal events of a host so far are known: the gate before a resume counts later ones."""
    BUG_REPORT = "bug-report"
    """Have the vendor's reporter write its report, for a bundle. It has no plan: see `gputop.bundle.bug_report`."""


BESIDE = frozenset({ActionKind.RESET, ActionKind.SIGNAL, ActionKind.POWER_CAP, ActionKind.MESSAGE, ActionKind.ACK})
"""Acts that neither need a host's scheduler nor change where the host stands."""


class Signal(StrEnum):
    INT = "INT"
    TERM = "TERM"
    KILL = "KILL"


class ProcessTarget(Struct, frozen=True, kw_only=True):
    """One process, told from any other that ever had its number."""

    pid: int
    started_ticks: int
    """Field 22 of /proc/PID/stat: clock ticks after boot; 0 in a request: not known."""
    user: str
    """The owner; checked again right before the signal."""
    command: str = ""
    """For people. Untrusted."""


class ActionRequest(Struct, frozen=True, kw_only=True):
    """What a person or a script asks for. Hosts are resolved names, never patterns; none is an error."""

    kind: ActionKind
    hosts: tuple[str, ...]
    reason: str = ""
    by: str = ""
    """The real user on this machine (not root behind sudo)."""
    deadline_seconds: float | None = None
    """How long each wait may last; `None`: as the policy or the act itself says."""
    wait: bool = True
    """Whether somebody waits for its end; else a drain or reboot is asked for, and left pending."""
    until: datetime | None = None
    """End of the lease of a drain (`--for`), UTC."""
    consents: frozenset[str] = frozenset()
    """What a person agreed to by name (`Consent` values)."""
    override: str = ""
    """Why bad items of the undrain gate are set aside; empty: they are not."""
    devices: tuple[str, ...] = ()
    """Keys of devices (`Device.key`) or their indexes, for a reset or a power cap, on each host; none: all of it."""
    devices_of: dict[str, tuple[str, ...]] = {}
    """Keys of devices by host, where rows of single devices were chosen: a host that is not here has none."""
    watts: float | None = None
    signal: Signal | None = None
    process: ProcessTarget | None = None
    text: str = ""
    """What a message says."""
    jobs: tuple[str, ...] = ()
    """Job ids, for `cancel` and `requeue`."""


class Goal(StrEnum):
    """What a step brings about, and its check looks for."""

    HOOK = "hook"
    """A site's own program said yes (exit 0)."""
    CORDONED = "cordoned"
    """The scheduler gives the host no new work."""
    NO_WORK = "no-work"
    """The scheduler has no job or evictable pod on the host any more."""
    MARKED = "marked"
    """The drain marker lies on the host."""
    UNMARKED = "unmarked"
    TOLD = "told"
    """A message was sent; cannot be checked afterwards."""
    COMPUTE_MODE = "compute-mode"
    UNITS_STOPPED = "units-stopped"
    UNITS_STARTED = "units-started"
    LOGINS_CLOSED = "logins-closed"
    LOGINS_OPEN = "logins-open"
    DEVICES_EMPTY = "devices-empty"
    """No compute process, memory below the idle baseline, three times; what cannot be seen counts as busy."""
    SCHEDULABLE = "schedulable"
    HEALTHY = "healthy"
    """The items of the undrain gate."""
    STOPPED = "stopped"
    RUNNING = "running"
    REBOOTED = "rebooted"
    """Another valid boot id than `Step.before["boot_id"]`."""
    FIRST_FRAME = "first-frame"
    """The host answers and shows all its devices, healthy."""
    HIBERNATED = "hibernated"
    HOLDERS_STOPPED = "holders-stopped"
    HOLDERS_RESTORED = "holders-restored"
    DEVICES_RESET = "devices-reset"
    PROCESS_GONE = "process-gone"
    POWER_LIMIT = "power-limit"
    JOBS_GONE = "jobs-gone"
    JOBS_REQUEUED = "jobs-requeued"
    REBOOT_REQUESTED = "reboot-requested"
    """The scheduler will reboot the host once its work has ended."""
    REBOOT_ISSUED = "reboot-issued"
    """The scheduler has told the host to reboot."""
    ACKNOWLEDGED = "acknowledged"
    EVICTABLE = "evictable"
    """A trial without effect found nothing that a drain would refuse."""


class Step(Struct, frozen=True, kw_only=True):
    """One thing of a plan. Before, do, verify: `check` decides both whether it is needed and whether it worked."""

    id: str
    """Unique within the plan of its host, stable over a restart: `slurm.drain`, `host.empty`."""
    actor: str
    """Who performs and checks it: `scheduler`, `power`, `system` (the host's own), `host`, `hook` or `ack`."""
    title: str
    """A few words for a table: "drain in Slurm"."""
    call: Call
    goal: Goal
    before: dict[str, str] = {}
    """State before the act that the check compares with or the undo restores: `boot_id`, `compute_mode`, `watts`."""
    wanted: dict[str, str] = {}
    """Values that the check looks for."""
    deadline_seconds: float = 60.0
    """For the call and its verification together."""
    poll_seconds: float = 2.0
    """Between two checks."""
    check_seconds: float = 60.0
    """A single check that takes longer has found nothing out."""
    repeatable: bool = True
    """Calling twice equals calling once. Otherwise a call that may have been made before a crash is never made again:
    it is only verified, and unverified when that fails."""
    check_first: bool = True
    """A check that finds the goal reached makes the call needless. `False`: the goal is an event (a message, a reset),
    which no look at the host can tell from one that happened before."""
    proven_by_exit: bool = False
    """Exit status 0 is all the proof there is: a message that was sent, a site's hook that agreed."""
    optional: bool = False
    """Its failure is noted, and the plan goes on."""
    always: bool = False
    """Taken even after an earlier step failed, once a step of the plan was begun: it restores what was stopped."""
    unknown_ends: bool = False
    """A look that finds nothing out ends the wait at once, unverified: a host that was switched off cannot tell."""
    waits: bool = False
    """At the deadline the outcome is `pending` (still waiting for what is left), not `failed`."""
    undo: Step | None = None
    """What a roll-back does; `None`: nothing to undo or it cannot be undone (`why_no_undo`)."""
    why_no_undo: str = ""

    @property
    def command(self) -> str:
        """What will be run, exactly, as one line."""
        return command_of(self.call)


# --- what a plan says ----------------------------------------------------------------------------------------------


class LossKind(StrEnum):
    """What an act destroys or disturbs."""

    PROCESS = "process"
    JOB = "job"
    UNMANAGED_POD = "unmanaged-pods"
    """A pod without a controller does not come back."""
    EMPTY_DIR = "empty-dir-data"
    INSTANCE_STORE = "instance-store-data"
    INSTANCE = "instance"
    """The instance itself: a stop that terminates it."""
    ADDRESS = "address"
    """A public address that changes."""
    CAPACITY = "capacity"
    """A start later may find no capacity."""
    SESSION = "session"
    """A logged-in person is thrown out."""
    DISPLAY = "display"
    DRAIN = "drain"
    """Somebody's drain: the marker that stands for it is gone after a boot."""


class Consent(StrEnum):
    """What a person agrees to by name (`--consent`)."""

    UNMANAGED_PODS = LossKind.UNMANAGED_POD.value
    EMPTY_DIR_DATA = LossKind.EMPTY_DIR.value
    NODE_NOT_READY = "node-not-ready"
    """A drain of a node whose kubelet does not answer: its pods do not leave before it does."""
    DRAINED_BY_OTHER = "drained-by-other"
    """A resume of what somebody else drained."""
    POWER_CUT = "power-cut"
    """A stop or reboot that does not ask the operating system."""
    MAY_TERMINATE = "may-terminate"
    """A power-off from inside, which its cloud may answer by deleting the machine."""


CONSENTS: dict[ActionKind, tuple[Consent, ...]] = {
    ActionKind.DRAIN: (Consent.UNMANAGED_PODS, Consent.EMPTY_DIR_DATA, Consent.NODE_NOT_READY),
    ActionKind.RESUME: (Consent.DRAINED_BY_OTHER,),
    ActionKind.STOP: (Consent.POWER_CUT, Consent.MAY_TERMINATE),
    ActionKind.REBOOT: (Consent.POWER_CUT,),
}
"""What may be agreed to in each act; any other word is a mistake."""


class Loss(Struct, frozen=True, kw_only=True):
    """Something that will be lost. Names and commands are untrusted text."""

    kind: LossKind
    summary: str
    """One line: "job 57381 of carol, 6 h left"."""
    user: str | None = None
    """Whose; `None`: nobody's or not known (which counts as somebody else's)."""
    certain: bool = True
    """`False`: only if the wait reaches its deadline and somebody goes on."""
    key: str = ""
    """What it is, however its words change: `job 57381`, `process 4242 981273`; empty: its summary."""

    @property
    def verb(self) -> str:
        """What the act does about it, for people: only work is waited for."""
        if self.certain:
            return "loses"
        return "waits for" if self.kind in (LossKind.JOB, LossKind.PROCESS) else "risks"


class Block(Struct, frozen=True, kw_only=True):
    """What stands in the way on one host."""

    kind: str
    """A short stable word: `node-not-found`, `not-drained`, `stop-protection`, `stale-data`, …"""
    summary: str
    hint: str | None = None
    consent: str | None = None
    """The consent that sets it aside; `None`: nothing does."""


class HostIdentity(Struct, frozen=True, kw_only=True):
    """Who a host is, whatever its address. `None`: not known."""

    boot_id: str | None = None
    machine_id: str | None = None
    host_key: str | None = None
    """Fingerprint, `SHA256:…`."""
    instance_id: str | None = None


class HostActState(StrEnum):
    """Where a host stands, whatever the back end."""

    ACTIVE = "active"
    DRAINING = "draining"
    DRAINED = "drained"
    """Verified empty."""
    STOPPED = "stopped"
    REBOOTING = "rebooting"
    BLOCKED = "blocked"
    FAILED = "failed"
    UNKNOWN = "unknown"


class Seen(Struct, frozen=True, kw_only=True):
    """Where a host stands right now."""

    state: HostActState
    now: str
    """In words: "drained by ana: NIC", "unreachable"."""
    boot_id: str | None = None


class HostPlan(Struct, frozen=True, kw_only=True):
    """The part of a plan about one host."""

    host: str
    identity: HostIdentity = HostIdentity()
    state: HostActState = HostActState.UNKNOWN
    """Before the act."""
    state_after: HostActState | None = None
    """What a verified act makes of it; `None`: what the act always does."""
    drained_by: str = ""
    """Who else had drained it before, when and why, in words; empty: nobody else."""
    now: str = ""
    """The state before in words: "2 jobs", "idle, held by carol", "drained by bob 3 h ago: NIC"."""
    steps: tuple[Step, ...] = ()
    losses: tuple[Loss, ...] = ()
    blocks: tuple[Block, ...] = ()
    notes: tuple[str, ...] = ()
    """Worth knowing before one agrees: "stopping over SSH does not stop the bill on Azure"."""
    data_age_seconds: float | None = None
    """Of the newest frame when the plan was made; `None`: there is none."""
    evidence: str = ""
    """What this plan rests on, `TOPIC:DIGEST` a topic. Another digest later: the plan has expired."""


class Plan(Struct, frozen=True, kw_only=True):
    """Ordered steps for frozen hosts. The first host is the canary."""

    id: str
    """`20260301T101500Z-drain-3f9a`: sorts by time, safe as a file name."""
    request: ActionRequest
    created_at: datetime
    expires_at: datetime
    hosts: tuple[HostPlan, ...]
    at_once: int = 5
    """Hosts worked on at the same time, after the canary."""

    @property
    def loses(self) -> bool:
        """Whether something is lost for certain: then a reason must be given."""
        return any(loss.certain for host in self.hosts for loss in host.losses)


# --- what guards say -----------------------------------------------------------------------------------------------


class Allow(Struct, frozen=True, kw_only=True, tag="allow"):
    """Nothing speaks against it."""


class Confirm(Struct, frozen=True, kw_only=True, tag="confirm"):
    """A person must type `phrase`."""

    phrase: str
    reasons: tuple[str, ...] = ()
    reason_required: bool = False
    """The person must also say why."""


class Refusal(Struct, frozen=True, kw_only=True):
    """One guard's no."""

    guard: str
    """`read-only`, `stale-data`, `protected`, `blast-radius`, …"""
    summary: str
    host: str | None = None
    """`None`: about the plan as a whole."""
    hint: str | None = None


class Deny(Struct, frozen=True, kw_only=True, tag="deny"):
    """Nothing is done."""

    refusals: tuple[Refusal, ...]


Verdict = Allow | Confirm | Deny


# --- what happened -------------------------------------------------------------------------------------------------


class CheckState(StrEnum):
    DONE = "done"
    NOT_DONE = "not-done"
    UNKNOWN = "unknown"
    """Could not be found out; never counts as done."""
    BLOCKED = "blocked"
    """Not done, and waiting longer is of no use: a person must do something."""


class Check(Struct, frozen=True, kw_only=True):
    """What an actor found when it looked."""

    state: CheckState
    summary: str = ""
    """"waiting: 3 left"; "PDB ml/train allows 0 disruptions (2 of 2 needed)"."""
    left: tuple[str, ...] = ()
    """What is waited for, with owners: "job 57381 of carol, 6 h left". Untrusted text."""
    under_way: bool = False
    """It comes by itself: a call that was made has taken, and another would add nothing."""
    values: dict[str, str] = {}
    """What was read: `{"boot_id": …}`, for the audit."""


class StepState(StrEnum):
    ALREADY = "already"
    """It was so before; nothing was called."""
    VERIFIED = "verified"
    UNVERIFIED = "unverified"
    """Called, but the check could not confirm it. Never shown green."""
    FAILED = "failed"
    PENDING = "pending"
    """Still on its way when the deadline came or nobody waited."""
    SKIPPED = "skipped"
    """An earlier step or host failed."""
    UNDONE = "undone"


class StepResult(Struct, frozen=True, kw_only=True):
    """The end of one step."""

    step: str
    state: StepState
    blocked: bool = False
    """It failed because something stands in the way that a person must see to."""
    summary: str = ""
    hint: str | None = None
    """What to do about it."""
    left: tuple[str, ...] = ()
    exit_status: int | None = None
    output: str = ""
    duration_seconds: float = 0.0
    values: dict[str, str] = {}


class Progress(Struct, frozen=True, kw_only=True):
    """What an executor tells while it works: the newest of each host counts."""

    plan: str
    host: str
    step: str | None
    """`None`: between steps."""
    title: str = ""
    state: HostActState = HostActState.UNKNOWN
    summary: str = ""
    left: tuple[str, ...] = ()
    result: StepResult | None = None
    """Set when the step has just ended."""


class OutcomeState(StrEnum):
    VERIFIED = "verified"
    UNVERIFIED = "unverified"
    FAILED = "failed"
    PENDING = "pending"
    SKIPPED = "skipped"
    """Nothing was done on this host."""


class Outcome(Struct, frozen=True, kw_only=True):
    """The end of a plan on one host: its worst step."""

    host: str
    state: OutcomeState
    host_state: HostActState
    summary: str = ""
    hint: str | None = None
    """What to do about it."""
    steps: tuple[StepResult, ...] = ()


class GateItem(Struct, frozen=True, kw_only=True):
    """One line of the gate that a host passes before it takes work again."""

    name: str
    state: str
    """`ok`, `bad` or `not-checked`."""
    summary: str = ""

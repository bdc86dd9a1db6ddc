"""What Slurm says of all our jobs: one squeue for all of them, sacct only for jobs that squeue has
forgotten."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from batchscout.clock import Clock
from batchscout.run.executor import SchedulerState, Status
from batchscout.run.executors.slurm_commands import Slurm

FASTEST_SECONDS, SLOWEST_SECONDS = 1.0, 15.0
FAILURE_SECONDS, SLOWEST_FAILURE_SECONDS = 2.0, 60.0
SACCT_SECONDS = 30.0
PREEMPTED_SECONDS = 90.0
"""How long PREEMPTED may be a passing state, on its way back into the queue."""

_FORMAT = "JobArrayID:|,State:|,Reason:|,NodeList:|,exit_code:|,RestartCnt:|,Name:"
_HELD = r"launch.failed.requeued.held|JobHoldMaxRequeue"
_ENDED = {
    "COMPLETED", "FAILED", "TIMEOUT", "CANCELLED", "NODE_FAIL", "BOOT_FAIL", "DEADLINE", "OUT_OF_MEMORY",
    "REVOKED",
}  # fmt: skip
_WAITING = {"PENDING", "CONFIGURING", "RESV_DEL_HOLD"}
_REQUEUED = {"REQUEUED", "REQUEUE_FED", "REQUEUE_HOLD", "SPECIAL_EXIT"}


@dataclass(frozen=True, slots=True)
class QueueRow:
    """One job in squeue. state is Slurm's word; exit_code None before the end; reason is why it waits or how
    it ended."""

    slurm_id: str
    state: str
    reason: str
    node: str
    exit_code: int | None
    restarts: int
    name: str

    @property
    def is_live(self) -> bool:
        return self.state not in _ENDED and self.state != "COMPLETING"

    @property
    def waits_for_nothing(self) -> bool:
        """Requeued, and kept for two minutes only because Slurm lets old credentials expire first."""
        return self.state == "PENDING" and self.restarts > 0 and self.reason == "BeginTime"

    @property
    def is_held_after_failed_launch(self) -> bool:
        """Held by Slurm itself because a node could not start it; nobody else will let it go."""
        return self.state == "PENDING" and bool(re.search(_HELD, self.reason, re.IGNORECASE))

    def to_status(self) -> Status:
        node = self.node or None
        if self.state in _ENDED:
            return Status(SchedulerState.ENDED, self.state, node, self.exit_code, self.slurm_id)
        detail = self.state if self.reason in ("", "None") else f"{self.state} ({self.reason})"
        return Status(self._scheduler_state(), detail, node, slurm_job_id=self.slurm_id)

    def _scheduler_state(self) -> SchedulerState:
        if (
            self.state in _REQUEUED
            or self.state == "PREEMPTED"
            or (self.state in _WAITING and self.restarts > 0)
        ):
            return SchedulerState.REQUEUED
        if self.state in _WAITING:
            return SchedulerState.PENDING
        return SchedulerState.COMPLETING if self.state == "COMPLETING" else SchedulerState.RUNNING


def parse_squeue(text: str) -> dict[str, QueueRow]:
    """By Slurm id. Lines that are not of our format are left out."""
    rows = {}
    for line in text.splitlines():
        parts = line.strip().split("|", 6)
        if len(parts) == 7 and parts[0]:
            slurm_id, state, reason, node, code, restarts, name = (p.strip() for p in parts)
            rows[slurm_id] = QueueRow(
                slurm_id,
                state,
                reason,
                "" if node == "(null)" else node,
                _exit_code(state, code),
                _number(restarts),
                name,
            )
    return rows


def _number(text: str) -> int:
    return int(text) if text.isdigit() else 0


def _exit_code(state: str, text: str) -> int | None:
    """Of the batch script, from its wait status (exit code × 256 + signal); -9 where signal 9 ended it."""
    if state not in _ENDED or not text.isdigit():
        return None
    status = int(text)
    return status >> 8 or -(status & 0x7F)


def parse_sacct(text: str) -> dict[str, Status]:
    """Final states only (JobID|State|ExitCode|NodeList, "CANCELLED by 0" included); sacct lags, so others say
    nothing."""
    found = {}
    for line in text.splitlines():
        parts = line.strip().split("|")
        if len(parts) != 4:
            continue
        slurm_id, state, code, node = parts
        word = state.split()[0] if state.split() else ""
        if word in _ENDED | {"PREEMPTED"}:
            match = re.fullmatch(r"(\d+):(\d+)", code)
            number = (int(match[1]) or -int(match[2])) if match else None
            node = "" if node in ("None assigned", "Unknown") else node
            found[slurm_id] = Status(SchedulerState.ENDED, word, node or None, number, slurm_id)
    return found


@dataclass
class SlurmQueue:
    """Asks at most as often as is worth it: each second while something changes, down to each 15 s, less
    after failures.

    slowest_seconds   between two queries while nothing changes
    queried_at        start of the last successful query (clock.now), None before the first
    """

    slurm: Slurm
    clock: Clock
    slowest_seconds: float = SLOWEST_SECONDS
    rows: dict[str, QueueRow] = field(default_factory=dict)
    queried_at: float | None = None
    _next: float = 0.0
    _period: float = FASTEST_SECONDS
    _failures: int = 0
    _asked_sacct: float = float("-inf")
    _ended: dict[str, Status] = field(default_factory=dict)
    _preempted_since: dict[str, float] = field(default_factory=dict)
    has_accounting: bool | None = None

    def hurry(self) -> None:
        """Something was submitted or cancelled: ask again soon."""
        self._period = FASTEST_SECONDS
        if not self._failures:
            self._next = min(self._next, self.clock.perf() + FASTEST_SECONDS)

    def refresh(self) -> bool:
        """Ask if it is time. Returns whether what we have comes from a successful query."""
        if self.clock.perf() < self._next:
            return self._failures == 0 and self.queried_at is not None
        now = self.clock.now()
        text = self.slurm.query("squeue", "-h", "-a", "-r", "-t", "all", "-u", self.slurm.user, "-O", _FORMAT)
        if text is None:
            self._failures += 1
            pause = min(FAILURE_SECONDS * 2 ** (self._failures - 1), SLOWEST_FAILURE_SECONDS)
            self._next = self.clock.perf() + pause
            return False
        rows = parse_squeue(text)
        is_changed = {i: r.state for i, r in rows.items()} != {i: r.state for i, r in self.rows.items()}
        self._period = FASTEST_SECONDS if is_changed else min(self._period * 1.5, self.slowest_seconds)
        self._next = self.clock.perf() + self._period
        self._failures, self.rows, self.queried_at = 0, rows, now
        return True

    def statuses(self, wanted: Mapping[str, str]) -> dict[str, Status]:
        """By Slurm id, for `wanted` ids with the names they must have (a new cluster counts from 1 again)."""
        found = {}
        forgotten = []
        for slurm_id, name in wanted.items():
            row = self.rows.get(slurm_id)
            if row is not None and row.name == name:
                found[slurm_id] = self._settled(row)
            elif slurm_id in self._ended:
                found[slurm_id] = self._ended[slurm_id]
            else:
                forgotten.append(slurm_id)
        self._ask_sacct(forgotten)
        absent = Status(SchedulerState.ABSENT)
        return {**found, **{i: self._ended.get(i, absent) for i in forgotten}}

    def _settled(self, row: QueueRow) -> Status:
        """PREEMPTED is on its way back into the queue, unless it stays so (PreemptMode=CANCEL)."""
        status = row.to_status()
        if row.state != "PREEMPTED":
            self._preempted_since.pop(row.slurm_id, None)
            return status
        since = self._preempted_since.setdefault(row.slurm_id, self.clock.perf())
        if self.clock.perf() - since < PREEMPTED_SECONDS:
            return status
        return Status(SchedulerState.ENDED, "PREEMPTED", status.node, row.exit_code, row.slurm_id)

    def _ask_sacct(self, slurm_ids: Iterable[str]) -> None:
        """How forgotten jobs ended, for all of them in one call, where accounting is on."""
        ids = sorted(slurm_ids)
        now = self.clock.perf()
        if not ids or now - self._asked_sacct < SACCT_SECONDS or self.has_accounting is False:
            return
        if self.has_accounting is None:
            config = self.slurm.query("scontrol", "show", "config")
            if config is None:
                return
            self.has_accounting = "accounting_storage/none" not in config
            if not self.has_accounting:
                return
        self._asked_sacct = now
        text = self.slurm.query(
            "sacct", "-n", "-X", "-P", "-j", ",".join(ids), "-o", "JobID,State,ExitCode,NodeList"
        )
        self._ended |= parse_sacct(text or "")

    def by_name(self, name: str) -> list[QueueRow] | None:
        """Every job with this name, the newest last, asked for now; None where there was no answer."""
        text = self.slurm.query(
            "squeue", "-h", "-a", "-r", "-t", "all", "-u", self.slurm.user, "-n", name, "-O", _FORMAT
        )
        if text is None:
            return None
        rows = [r for r in parse_squeue(text).values() if r.name == name]
        return sorted(rows, key=lambda r: _number(r.slurm_id))

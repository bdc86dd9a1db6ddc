"""Jobs on a Slurm cluster: paced single submissions, one status query for all, and no word that is not
needed.

A job's Slurm name is its identity beside its id: it finds a submission whose answer was lost, shows
duplicates, and tells a job of ours from one that a rebuilt cluster gave the same number.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from pathlib import Path

from batchscout.clock import Clock
from batchscout.config import HardwareConfig
from batchscout.errors import SchedulerBusy
from batchscout.run.executor import SchedulerState, Status, Submission
from batchscout.run.executors.slurm_commands import SBATCH_LIVES_SECONDS, Slurm
from batchscout.run.executors.slurm_queue import SLOWEST_SECONDS, QueueRow, SlurmQueue
from batchscout.run.executors.slurm_script import batch_script, job_name
from batchscout.run.executors.submission import CLAIMS, MAX_REQUEUES, SUBMITTED, worker_variables

log = logging.getLogger(__name__)

GAP_SECONDS = 0.1
"""Between two submissions."""
UNANSWERED_SECONDS = 30.0
"""How long after an unanswered sbatch its job may still turn up."""
AGAIN_SECONDS = 15.0
"""Between two scancels, or two releases, of one job."""
REVOKED_SECONDS = 4.0
"""A node refuses a job whose last start it was told to forget within the same seconds, and Slurm then ends
the job."""
BUSY_SECONDS, SLOWEST_BUSY_SECONDS = 2.0, 60.0


class SlurmExecutor:
    """See module. submit raises SchedulerBusy where the same submission is worth trying again later.

    unanswered_seconds  so long after it was asked for, a submission of a controller that died meanwhile may
                        still turn up
    binds_late          a job in the queue may give its place to another one (batchscout.run.binding)
    """

    unanswered_seconds = SBATCH_LIVES_SECONDS + UNANSWERED_SECONDS
    binds_late = True

    def __init__(
        self, hardware: HardwareConfig, *, clock: Clock, working_directory: Path, max_requeues: int = 10
    ) -> None:
        self.slots = hardware.slots
        self.slurm = Slurm(hardware.slurm_conf)
        self.queue = SlurmQueue(self.slurm, clock, min(hardware.poll_seconds or SLOWEST_SECONDS, 20.0))
        self._hardware, self._clock, self._directory = hardware, clock, working_directory
        self._max_requeues = max_requeues
        self._not_before = float("-inf")  # clock.perf()
        self._busy = 0
        self._unanswered: dict[str, float] = {}  # name → when, clock.perf()
        self._to_cancel: dict[
            str, tuple[str, float]
        ] = {}  # Slurm id → name, when asked for; not yet taken by Slurm
        self._asked_to_cancel: dict[str, float] = {}  # Slurm id → when, clock.perf()
        self._requeued_since: dict[tuple[str, int], float] = {}  # Slurm id and restarts → when seen first
        self._released: dict[str, float] = {}  # Slurm id → when last, clock.perf()

    def script(self, job_dirs: Sequence[Path], *, name: str, submitted: float = 0.0) -> str:
        """The batch script that `submit` would hand to sbatch. Raises ConfigError."""
        variables = worker_variables(job_dirs, name=name, submitted=submitted, hardware=self._hardware)
        variables |= {MAX_REQUEUES: str(self._max_requeues)}
        if len(job_dirs) == 1:
            variables |= {CLAIMS: "1"}
        if not submitted:
            variables.pop(SUBMITTED)
        return batch_script(job_dirs, name=job_name(name), hardware=self._hardware, variables=variables)

    def submit(self, job_dir: Path, *, name: str) -> Submission:
        return self.submit_group([job_dir], name=name)[0]

    def submit_group(self, job_dirs: Sequence[Path], *, name: str) -> list[Submission]:
        """The jobs one after the other in one allocation, each in its own process (probes)."""
        self._pace()
        slurm_id = self._answer_of_before(name) or self._sbatch(job_dirs, name)
        submitted = self._clock.now()
        self._unanswered.pop(name, None)
        self._busy = 0
        self._not_before = self._clock.perf() + GAP_SECONDS
        self.queue.hurry()
        return [Submission(d.name, slurm_id, name, submitted) for d in job_dirs]

    def _pace(self) -> None:
        """Wait for the gap between submissions; refuse while the scheduler is being left in peace."""
        wait = self._not_before - self._clock.perf()
        if self._busy and wait > 0:
            raise SchedulerBusy(f"the scheduler took no job before; trying again in {wait:.0f} s")
        if wait > 0:
            self._clock.sleep(wait)

    def _sbatch(self, job_dirs: Sequence[Path], name: str) -> str:
        path = job_dirs[0] / "log" / "submit.sh"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(self.script(job_dirs, name=name, submitted=self._clock.now()), encoding="utf-8")
        try:
            return self.slurm.sbatch(path, directory=self._directory)
        except SchedulerBusy:
            self._unanswered[name] = self._clock.perf()
            self._busy += 1
            pause = min(BUSY_SECONDS * 2 ** (self._busy - 1), SLOWEST_BUSY_SECONDS)
            self._not_before = self._clock.perf() + pause
            raise

    def _answer_of_before(self, name: str) -> str | None:
        """The job of an earlier sbatch of this name that did not answer, if Slurm has it after all."""
        asked = self._unanswered.get(name)
        if asked is None:
            return None
        rows = self.queue.by_name(name := job_name(name))
        if rows is None:
            raise SchedulerBusy(f"{name}: an earlier sbatch did not answer, and squeue does not either")
        if rows:
            return rows[-1].slurm_id
        if self._clock.perf() - asked < UNANSWERED_SECONDS:
            raise SchedulerBusy(f"{name}: an earlier sbatch did not answer; its job may still turn up")
        return None

    @staticmethod
    def log_name(handle: str) -> str:
        """Of the file that a job's script and its first task write, in the first job's log folder."""
        return f"{handle}_0_log.out"

    def find(self, name: str) -> Submission | None:
        rows = self.queue.by_name(job_name(name))
        if rows is None:
            raise SchedulerBusy(f"squeue does not answer, so whether {name} was submitted is not known yet")
        if not rows:
            return None
        # names are unique to a submission, so one that has ended already is found too; of twins the live one
        found = max(rows, key=lambda r: (r.is_live, r.slurm_id))
        return Submission(name, found.slurm_id, name, self._clock.now())

    def poll(self, submissions: Sequence[Submission]) -> Mapping[str, Status] | None:
        if not self.queue.refresh():
            return None
        self._cancel_remaining()
        # an empty handle is a submission of which only its journal is left
        wanted = {s.handle: job_name(s.name) for s in submissions if s.handle}
        self._start_requeued(wanted)
        self._cancel_duplicates(wanted)
        statuses = self.queue.statuses(wanted)
        absent = Status(SchedulerState.ABSENT)
        return {s.job_id: self._status(s, statuses.get(s.handle, absent)) for s in submissions}

    def _status(self, submission: Submission, status: Status) -> Status:
        """A job submitted after the query cannot be in its answer."""
        asked = self.queue.queried_at
        if (
            submission.handle
            and status.state is SchedulerState.ABSENT
            and asked is not None
            and submission.submitted >= asked - 1
        ):
            return Status(SchedulerState.PENDING, "submitted", slurm_job_id=submission.handle)
        return status

    def _ours(self, wanted: Mapping[str, str]) -> list[QueueRow]:
        return [r for i, n in wanted.items() if (r := self.queue.rows.get(i)) is not None and r.name == n]

    def _start_requeued(self, wanted: Mapping[str, str]) -> None:
        """Let go what Slurm keeps back although nothing is wrong with it.

        Requeued jobs, for two minutes; jobs that a node failed to start, for ever.
        """
        now = self._clock.perf()
        rows = [
            r
            for r in self._ours(wanted)
            if now - self._released.get(r.slurm_id, float("-inf")) >= AGAIN_SECONDS
        ]
        waiting = [r.slurm_id for r in rows if r.waits_for_nothing and self._is_forgotten_by_its_node(r, now)]
        held = [r.slurm_id for r in rows if r.is_held_after_failed_launch]
        if waiting:
            self.slurm.query("scontrol", "update", f"jobid={','.join(waiting)}", "StartTime=now")
        if held:
            self.slurm.query("scontrol", "release", ",".join(held))
        self._released |= dict.fromkeys((*waiting, *held), now)

    def _is_forgotten_by_its_node(self, row: QueueRow, now: float) -> bool:
        return now - self._requeued_since.setdefault((row.slurm_id, row.restarts), now) >= REVOKED_SECONDS

    def _cancel_duplicates(self, wanted: Mapping[str, str]) -> None:
        """A second live job of one name came from a submit whose answer was lost; the recorded one stays."""
        names = {n: i for i, n in wanted.items()}
        for row in self.queue.rows.values():
            if row.is_live and row.slurm_id not in wanted and row.name in names:
                log.warning(
                    "cancelling Slurm job %s: job %s of the same name is ours", row.slurm_id, names[row.name]
                )
                self._to_cancel[row.slurm_id] = (row.name, self._clock.now())
        self._cancel_remaining()

    def cancel(self, submission: Submission) -> None:
        """scancel; where Slurm does not answer it is repeated at each poll until the job is gone."""
        asked = self._asked_to_cancel.get(submission.handle, float("-inf"))
        if not submission.handle or self._clock.perf() - asked < AGAIN_SECONDS:
            return
        self._asked_to_cancel[submission.handle] = self._clock.perf()
        self._to_cancel[submission.handle] = (job_name(submission.name), self._clock.now())
        self.queue.hurry()
        self._cancel_remaining()

    def _cancel_remaining(self) -> None:
        for slurm_id, (name, asked) in list(self._to_cancel.items()):
            row = self.queue.rows.get(slurm_id)
            is_newer = self.queue.queried_at is not None and self.queue.queried_at > asked
            is_gone = is_newer and (row is None or row.name != name or not row.is_live)
            if is_gone or self.slurm.query("scancel", slurm_id) is not None:
                del self._to_cancel[slurm_id]

    def wait(self, seconds: float) -> None:
        self._clock.sleep(seconds)

    def close(self) -> None:
        """Cancellations that Slurm did not take yet are tried once more."""
        self._cancel_remaining()

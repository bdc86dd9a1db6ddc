"""What a training loop calls: it times, counts, writes the journal and says when to evaluate, save and stop.

The loop::

    if (checkpoint := reporter.resume_path()) is not None:
        load(checkpoint)
        reporter.resume()
    evaluate_if_due()                                   # at 0 samples too
    while not reporter.should_stop():
        if reporter.due_for_checkpoint():
            with reporter.checkpoint() as path: save(path)
        with reporter.sampling(): ...
        with reporter.reward(): ...
        with reporter.learning(): ...
        reporter.end_update(samples=batch_size)
        evaluate_if_due()     # if due_for_evaluation(): with evaluation() as e: e.record(score, count)
    if reporter.due_for_checkpoint():                   # told to leave or to stop: the work so far is kept
        with reporter.checkpoint() as path: save(path)
    reporter.end()

An update lasts from the end of the one before (the first of an attempt: from its first phase) to
``end_update``, less evaluations and checkpoints; what no phase covers is `other`. One thread calls; only
``request_preemption`` may come from a signal handler.
"""

from __future__ import annotations

import os
import shutil
import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from batchscout.clock import Clock
from batchscout.errors import TrainerError
from batchscout.measure import checkpoints, stopping
from batchscout.measure.attempt import (
    JOURNAL,
    attempt_dir,
    attempt_number,
    attempt_paths,
    claim_attempt,
    newest_attempt,
)
from batchscout.measure.counters import Counters
from batchscout.measure.curve import Curve
from batchscout.measure.journal import JournalWriter, read_journal
from batchscout.measure.outcome import Outcome
from batchscout.measure.stopping import Evaluated, Stop
from batchscout.measure.stopwatch import Stopwatch
from batchscout.measure.target import Caps, EvaluationGrid, Target


class EvaluationRecord:
    """What ``Reporter.evaluation`` hands out: takes the score once."""

    def __init__(self) -> None:
        self.score: float | None = None
        self.score_n: int | None = None
        self.metrics: dict[str, Any] = {}

    def record(self, score: float, score_n: int | None = None, **metrics: Any) -> None:
        """score_n: questions that the score is the mean of."""
        if self.score is not None:
            raise TrainerError("an evaluation has one score; record() was called twice")
        self.score, self.score_n, self.metrics = float(score), score_n, metrics


class Reporter:
    """One attempt of one job; ``open`` makes it."""

    def __init__(
        self,
        attempt: Path,
        *,
        target: Target,
        caps: Caps,
        evaluation: EvaluationGrid,
        clock: Clock,
        checkpoint_every_seconds: float | None = 60.0,
        collapse_evaluations: int = stopping.COLLAPSE_EVALUATIONS,
    ) -> None:
        self.attempt_dir, self.job_dir, self.clock = attempt, attempt.parent.parent, clock
        self.target, self.caps, self.grid = target, caps, evaluation
        self._checkpoint_every, self._collapse_evaluations = checkpoint_every_seconds, collapse_evaluations
        self._counters = Counters()
        self._watch = Stopwatch(clock)
        self._evaluations: list[Evaluated] = []
        self._lineage: list[str] = []  # checkpoints that this trajectory went through
        self._checkpoint_updates = 0
        self._checkpoint_perf = clock.perf()
        self._resumed_from: Path | None = None
        self._stop: Stop | None = None
        self._is_preemption_requested = False
        self._ended: Outcome | None = None
        self._is_first_update = True
        self._wall_base = 0.0
        self._startup_seconds = 0.0
        self._journal = JournalWriter(attempt / JOURNAL, clock=clock)

    @classmethod
    def open(
        cls,
        job_dir: Path,
        *,
        identity: Mapping[str, Any],
        target: Target,
        caps: Caps,
        evaluation: EvaluationGrid,
        clock: Clock,
        checkpoint_every_seconds: float | None = 60.0,
        startup_seconds: float = 0.0,
        collapse_evaluations: int = stopping.COLLAPSE_EVALUATIONS,
    ) -> Reporter:
        """Claim the next attempt of the job and write its ``start`` event.

        identity                  job, batch_size, lr, seed, group_size, gpu, gpus, …: keys of the start event
        checkpoint_every_seconds  between checkpoints; None: only when told to leave
        startup_seconds           from the start of the allocation until now
        """
        before = [events for path in attempt_paths(job_dir) if (events := read_journal(path / JOURNAL))]
        reporter = cls(
            claim_attempt(job_dir),
            target=target,
            caps=caps,
            evaluation=evaluation,
            clock=clock,
            checkpoint_every_seconds=checkpoint_every_seconds,
            collapse_evaluations=collapse_evaluations,
        )
        reporter._start(identity, startup_seconds, before)
        return reporter

    # ---- counters ------------------------------------------------------------------------------------------

    @property
    def samples(self) -> int:
        """Rollouts trained on so far."""
        return self._counters.samples

    @property
    def updates(self) -> int:
        return self._counters.updates

    @property
    def seconds(self) -> float:
        """The raw training clock so far."""
        return self._counters.seconds

    @property
    def wall_seconds(self) -> float:
        """Allocated seconds since the job's first start, those of lost work included."""
        return self._wall_base + self._watch.since_open

    @property
    def phase(self) -> str | None:
        """The phase that is running, or that an exception came from."""
        return self._watch.phase

    # ---- phases and updates --------------------------------------------------------------------------------

    @contextmanager
    def sampling(self) -> Iterator[None]:
        """Generating rollouts."""
        with self._phase("sampling"):
            yield

    @contextmanager
    def reward(self) -> Iterator[None]:
        """Scoring them."""
        with self._phase("reward"):
            yield

    @contextmanager
    def learning(self) -> Iterator[None]:
        """Optimizer steps."""
        with self._phase("learning"):
            yield

    @contextmanager
    def sync(self) -> Iterator[None]:
        """Bringing the weights to the sampler."""
        with self._phase("sync"):
            yield

    def end_update(
        self,
        *,
        samples: int,
        generated_samples: int | None = None,
        generated_tokens: int | None = None,
        trained_tokens: int | None = None,
        metrics: Mapping[str, Any] | None = None,
    ) -> None:
        """The update is done; all counts are of this update alone, None where the trainer does not know
        them."""
        self._need_open("end_update")
        if samples <= 0:
            raise TrainerError(f"samples={samples} trained on in an update must be at least 1")
        self._counters.add_update(
            int(samples),
            self._watch.end_update(),
            generated_samples=generated_samples,
            generated_tokens=generated_tokens,
            trained_tokens=trained_tokens,
        )
        keys: dict[str, Any] = {**self._counters.count_keys(), **self._counters.part_keys()}
        self._write(
            "update", **keys, warmup=self._is_first_update, metrics=dict(metrics or {}), **self._startup()
        )
        self._is_first_update = False

    # ---- evaluation ----------------------------------------------------------------------------------------

    def due_for_evaluation(self) -> bool:
        """At 0 samples, at each point of the grid, and where a cap ends the job."""
        if self._evaluations and self._evaluations[-1].updates == self.updates:
            return False
        before = self._evaluations[-1].samples if self._evaluations else 0
        return self.updates == 0 or self.grid.due(before, self.samples) or self._cap() is not None

    @contextmanager
    def evaluation(self) -> Iterator[EvaluationRecord]:
        """Off the training clock; must ``record`` a score before it ends."""
        self._need_open("evaluation")
        if self._evaluations and self._evaluations[-1].updates == self.updates:
            raise TrainerError(f"update {self.updates} was evaluated already; ask due_for_evaluation() first")
        record = EvaluationRecord()
        with self._watch.pause("evaluation") as took:
            yield record
        if record.score is None:
            raise TrainerError("the evaluation ended without record(score, score_n)")
        self._counters.evaluation_seconds += took()
        self._evaluations.append(Evaluated(self.samples, self.updates, record.score, record.score_n))
        self._write(
            "evaluation",
            score=record.score,
            score_n=record.score_n,
            evaluation_seconds=self._counters.evaluation_seconds,
            metrics=record.metrics,
            **self._startup(),
        )

    # ---- stopping ------------------------------------------------------------------------------------------

    def should_stop(self) -> bool:
        """To be asked between updates. Once true it stays so, and ``stop_outcome`` says why."""
        if self._stop is None:
            self._stop = self._find_stop()
        return self._stop is not None

    @property
    def stop_outcome(self) -> tuple[Outcome, str] | None:
        """(outcome, reason) once should_stop() was true, else None."""
        return None if self._stop is None else (self._stop.outcome, self._stop.reason)

    @property
    def preempted(self) -> bool:
        """It stops because it was told to leave; a checkpoint is wanted before ``end``."""
        stop = self._stop
        return stop is not None and stop.outcome is Outcome.PREEMPTED and stop.reason != stopping.FENCED

    def request_preemption(self) -> None:
        """Stop at the end of this update; safe in a signal handler."""
        self._is_preemption_requested = True

    def diverged(self, reason: str) -> None:
        """The trainer saw that nothing good can come any more (a parameter is not finite)."""
        if self._stop is None:
            self._stop = Stop(Outcome.DIVERGED, "trainer", reason)

    def warn(self, message: str) -> None:
        """Something a reader of the results should know."""
        self._write("warning", message=message)

    # ---- checkpoints ---------------------------------------------------------------------------------------

    def resume_path(self) -> Path | None:
        """The newest published checkpoint, None at a first start. Call ``resume`` after loading it."""
        return checkpoints.newest(self.job_dir)

    def resume(self, path: Path | None = None) -> None:
        """Count on from a checkpoint that the trainer has loaded (default: ``resume_path()``)."""
        self._need_open("resume")
        path = self.resume_path() if path is None else Path(path)
        if path is None:
            raise TrainerError(f"{self.job_dir} holds no checkpoint to resume from; start from the model")
        if self._evaluations or self.updates:
            raise TrainerError("resume() must come before the first evaluation and update of the attempt")
        state = checkpoints.read_state(path)
        self._counters = Counters.from_mapping(state["counters"])
        self._evaluations = [
            Evaluated(**{**e, "score": float("nan") if e["score"] is None else e["score"]})
            for e in state["evaluations"]
        ]
        found = checkpoints.published(self.job_dir)
        self._lineage = [p.name for p in found if int(p.name) <= self.updates]
        self._checkpoint_updates, self._checkpoint_perf = self.updates, self.clock.perf()
        self._write(
            "resume",
            path=str(path.relative_to(self.job_dir)) if path.is_relative_to(self.job_dir) else str(path),
            from_updates=self.updates,
            from_attempt=state["attempt"],
            checkpoint_seconds=self._counters.checkpoint_seconds,
            evaluation_seconds=self._counters.evaluation_seconds,
            **self._counters.part_keys(),
        )

    def due_for_checkpoint(self) -> bool:
        """After ``checkpoint_every_seconds``, and once when told to leave or to stop; never twice at one
        update."""
        if self._ended or self.updates == self._checkpoint_updates or self._is_fenced():
            return False
        if self._is_preemption_requested or (self._stop and self._stop.outcome in _CONTINUED_LATER):
            return True
        every = self._checkpoint_every
        return self._stop is None and every is not None and self.clock.perf() - self._checkpoint_perf >= every

    @contextmanager
    def checkpoint(self) -> Iterator[Path]:
        """A directory to save into, off the training clock; published when the block ends without an error.

        A newer attempt of this job makes it vanish instead: what this one does no longer counts.
        """
        self._need_open("checkpoint")
        number = attempt_number(self.attempt_dir)
        with self._watch.pause("checkpoint") as took:
            path = checkpoints.begin(self.job_dir, number, self.updates)
            try:
                yield path
                if self._is_fenced():
                    self._stop = self._fence()
                    return
                published = self._publish(path, number)
            finally:
                shutil.rmtree(path, ignore_errors=True)
        self._counters.checkpoint_seconds += took()
        self._write(
            "checkpoint",
            path=str(published.relative_to(self.job_dir)),
            checkpoint_seconds=self._counters.checkpoint_seconds,
        )

    # ---- end -----------------------------------------------------------------------------------------------

    @property
    def has_ended(self) -> bool:
        return self._ended is not None

    def end(self, outcome: Outcome | None = None, reason: str = "", message: str = "") -> None:
        """Write the ``end`` event (default: what ``should_stop`` found) and close the journal.

        A trainer that returns before should_stop() was true has failed: nobody knows what its curve means.
        """
        self._need_open("end")
        if outcome is None and self.should_stop():
            assert self._stop is not None
            outcome, reason = self._stop.outcome, reason or self._stop.reason
            message = "; ".join(text for text in (self._stop.message, message) if text)
        elif outcome is None:
            outcome, reason = Outcome.FAILED, reason or stopping.RETURNED_EARLY
            message = message or "the trainer returned before should_stop() was true"
        self._write("end", outcome=str(outcome), reason=reason, message=message)
        self._ended = outcome
        self._journal.close()

    # ---- inside --------------------------------------------------------------------------------------------

    def _start(
        self, identity: Mapping[str, Any], startup_seconds: float, before: list[list[dict[str, Any]]]
    ) -> None:
        walls = [e["wall_seconds"] for events in before for e in events if e.get("wall_seconds") is not None]
        self._wall_base = max(walls, default=0.0) + startup_seconds
        self._startup_seconds = startup_seconds
        if Curve.from_attempts(before).crossing(self.target).censored != "right":
            # The attempt that got there died before it could say so.
            self._stop = Stop(Outcome.REACHED, stopping.TARGET, "an earlier attempt had reached the target")
        place = {
            "node": os.environ.get("SLURMD_NODENAME") or socket.gethostname(),
            "host": socket.gethostname(),
            "pid": os.getpid(),
            "slurm_job_id": os.environ.get("SLURM_JOB_ID"),
        }
        self._write(
            "start",
            **{"job": self.job_dir.name, **place, **identity},
            attempt=attempt_number(self.attempt_dir),
            startup_seconds=startup_seconds,
        )

    @contextmanager
    def _phase(self, name: str) -> Iterator[None]:
        self._need_open(name)
        with self._watch.time(name):
            yield

    def _startup(self) -> dict[str, float]:
        """In the attempt's first event of work: what came before it, the model's construction included."""
        before = self._watch.take_startup()
        return {} if before is None else {"startup_seconds": self._startup_seconds + before}

    def _cap(self) -> str | None:
        return self.caps.hit(samples=self.samples, updates=self.updates, seconds=self.seconds)

    def _find_stop(self) -> Stop | None:
        if self._is_fenced():
            return self._fence()
        stop = stopping.by_target(self._evaluations, self.target) or stopping.by_divergence(
            self._evaluations, self.target, self._collapse_evaluations
        )
        if stop is not None:
            return stop
        cap = self._cap()
        if cap is not None:
            return Stop(
                Outcome.CAPPED,
                f"caps.{cap}",
                f"caps.{cap}={getattr(self.caps, cap)} reached below the target",
            )
        stop = stopping.by_control(self.job_dir)
        if stop is None and self._is_preemption_requested:
            stop = Stop(Outcome.PREEMPTED, stopping.PREEMPTION, "told to leave")
        return stop

    def _is_fenced(self) -> bool:
        return attempt_dir(self.job_dir, attempt_number(self.attempt_dir) + 1).exists() or (
            newest_attempt(self.job_dir) != self.attempt_dir
        )

    def _fence(self) -> Stop:
        newest = newest_attempt(self.job_dir)
        return Stop(
            Outcome.PREEMPTED, stopping.FENCED, f"attempt {newest.name if newest else '?'} has taken over"
        )

    def _publish(self, path: Path, number: int) -> Path:
        evaluations = [
            {
                "samples": e.samples,
                "updates": e.updates,
                "score": e.score if e.score == e.score else None,
                "score_n": e.score_n,
            }
            for e in self._evaluations
        ]
        state = {
            "v": 1,
            "attempt": number,
            "counters": self._counters.to_mapping(),
            "evaluations": evaluations,
        }
        published = checkpoints.publish(path, state, self.updates)
        self._lineage = [*self._lineage, published.name][-checkpoints.KEPT :]
        checkpoints.prune(self.job_dir, set(self._lineage))
        self._checkpoint_updates, self._checkpoint_perf = self.updates, self.clock.perf()
        return published

    def _need_open(self, call: str) -> None:
        if self._ended:
            raise TrainerError(f"{call}() after end(): this attempt is over")

    def _write(self, event: str, **keys: Any) -> None:
        counters = self._counters
        self._journal.write(
            event,
            updates=counters.updates,
            samples=counters.samples,
            seconds=counters.seconds,
            wall_seconds=self.wall_seconds,
            **keys,
        )


_CONTINUED_LATER = (Outcome.PREEMPTED, Outcome.STOPPED)

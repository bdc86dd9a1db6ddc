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
import socket
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

from batchscout.clock import Clock
from batchscout.errors import TrainerError
from batchscout.measure import stopping
from batchscout.measure.attempt import JOURNAL, attempt_number, attempt_paths, claim_attempt
from batchscout.measure.checkpoints import Checkpoints, discard, newest, read_state
from batchscout.measure.counters import Counters
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
        self._collapse_evaluations = collapse_evaluations
        self._counters = Counters()
        self._watch = Stopwatch(clock)
        self._evaluations: list[Evaluated] = []
        self._checkpoints = Checkpoints(
            self.job_dir, attempt_number(attempt), every_seconds=checkpoint_every_seconds, clock=clock
        )
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

    def sampling(self) -> AbstractContextManager[None]:
        """Generating rollouts."""
        return self._phase("sampling")

    def reward(self) -> AbstractContextManager[None]:
        """Scoring them."""
        return self._phase("reward")

    def learning(self) -> AbstractContextManager[None]:
        """Optimizer steps."""
        return self._phase("learning")

    def sync(self) -> AbstractContextManager[None]:
        """Bringing the weights to the sampler."""
        return self._phase("sync")

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

    def should_stop(self) -> bool:
        """To be asked between updates. Once true it stays so, and ``stop_outcome`` says why."""
        if self._stop is None:
            self._stop = self._find_stop()
        return self._stop is not None

    @property
    def stop_outcome(self) -> tuple[Outcome, str]:
        """(outcome, reason) once should_stop() was true. Raises TrainerError before."""
        if self._stop is None:
            raise TrainerError("stop_outcome is known once should_stop() was true; ask that first")
        return self._stop.outcome, self._stop.reason

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

    def resume_path(self) -> Path | None:
        """The newest published checkpoint, None at a first start. Call ``resume`` after loading it."""
        return newest(self.job_dir)

    def resume(self, path: Path | None = None) -> None:
        """Count on from a checkpoint that the trainer has loaded (default: ``resume_path()``)."""
        self._need_open("resume")
        path = self.resume_path() if path is None else Path(path)
        if path is None:
            raise TrainerError(f"{self.job_dir} holds no checkpoint to resume from; start from the model")
        if self._evaluations or self.updates:
            raise TrainerError("resume() must come before the first evaluation and update of the attempt")
        state = read_state(path)
        self._counters = Counters.from_mapping(state["counters"])
        self._evaluations = [Evaluated.from_mapping(e) for e in state["evaluations"]]
        self._checkpoints.adopt(self.updates)
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
        if self.has_ended or self.updates == self._checkpoints.updates:
            return False
        if stopping.by_newer_attempt(self.attempt_dir) is not None:
            return False
        if self._stop is not None:
            return self._stop.outcome in (Outcome.PREEMPTED, Outcome.STOPPED)  # both may be continued
        return self._is_preemption_requested or self._checkpoints.is_due()

    @contextmanager
    def checkpoint(self) -> Iterator[Path]:
        """A directory to save into, off the training clock; published when the block ends without an error.

        A newer attempt of this job makes it vanish instead: what this one does no longer counts.
        """
        self._need_open("checkpoint")
        with self._watch.pause("checkpoint") as took:
            path = self._checkpoints.begin(self.updates)
            try:
                yield path
                fence = stopping.by_newer_attempt(self.attempt_dir)
                if fence is not None:
                    self._stop = self._stop or fence
                    return
                published = self._checkpoints.publish(path, self._state(), self.updates)
            finally:
                discard(path)
        self._counters.checkpoint_seconds += took()
        self._write(
            "checkpoint",
            path=str(published.relative_to(self.job_dir)),
            checkpoint_seconds=self._counters.checkpoint_seconds,
        )

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

    def _start(
        self, identity: Mapping[str, Any], startup_seconds: float, before: list[list[dict[str, Any]]]
    ) -> None:
        walls = [e["wall_seconds"] for events in before for e in events if e.get("wall_seconds") is not None]
        self._wall_base = max(walls, default=0.0) + startup_seconds
        self._startup_seconds = startup_seconds
        self._stop = stopping.by_earlier_attempts(before, self.target)
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

    def _find_stop(self) -> Stop | None:
        preemption = Stop(Outcome.PREEMPTED, stopping.PREEMPTION, "told to leave")
        return (
            stopping.by_newer_attempt(self.attempt_dir)
            or stopping.by_target(self._evaluations, self.target)
            or stopping.by_divergence(self._evaluations, self.target, self._collapse_evaluations)
            or self._cap()
            or stopping.by_control(self.job_dir)
            or (preemption if self._is_preemption_requested else None)
        )

    def _cap(self) -> Stop | None:
        return stopping.by_caps(self.caps, samples=self.samples, updates=self.updates, seconds=self.seconds)

    def _state(self) -> dict[str, Any]:
        return {
            "counters": self._counters.to_mapping(),
            "evaluations": [e.to_mapping() for e in self._evaluations],
        }

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

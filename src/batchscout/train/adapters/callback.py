"""For training loops of others, which call back instead of being written around a reporter.

Any loop will do that can call four functions; in a callback of TRL or of verl's trainer it looks like

    callback = LoopCallback(reporter, evaluate=lambda: (accuracy(model), 512), save=model.save_pretrained)
    callback.on_train_begin()
    while not callback.is_over:
        callback.on_phase("sampling")
        rollouts = generate(...)
        callback.on_phase("learning")
        step(rollouts)
        callback.on_update_end(samples=len(rollouts), metrics={"loss": loss})
    callback.on_train_end()
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path

from batchscout.errors import TrainerError
from batchscout.measure.reporter import Reporter

PHASES = ("sampling", "reward", "learning", "sync")


class LoopCallback:
    """Turns the events of a foreign loop into a reporter's measurements.

    evaluate  gives (score, score_n) of the present model; its time is not on the training clock
    save      writes a checkpoint into a directory; None for a loop that cannot resume
    is_over   whether the loop should end now
    """

    def __init__(
        self,
        reporter: Reporter,
        *,
        evaluate: Callable[[], tuple[float, int]],
        save: Callable[[Path], object] | None = None,
    ) -> None:
        self.reporter, self.evaluate, self.save = reporter, evaluate, save
        self.is_over = False
        self._phase = ExitStack()

    def on_train_begin(self) -> None:
        """Before the first update, after a checkpoint was loaded."""
        self._look()

    def on_phase(self, name: str) -> None:
        """A phase of the update begins, and ends the one before; time in none of them counts as other.

        Raises   TrainerError for a name not in ``PHASES``.
        """
        if name not in PHASES:
            raise TrainerError(f"phase={name} is unknown; use one of {', '.join(PHASES)}")
        self._phase.close()
        self._phase.enter_context(getattr(self.reporter, name)())

    def on_update_end(
        self,
        *,
        samples: int,
        generated_tokens: int | None = None,
        trained_tokens: int | None = None,
        metrics: Mapping[str, float] | None = None,
    ) -> None:
        """An update is done: evaluates and saves where due, and says through ``is_over`` whether to go on.

        samples   rollouts trained on in this update (completions, not prompts)
        """
        self._phase.close()
        self.reporter.end_update(
            samples=samples,
            generated_tokens=generated_tokens,
            trained_tokens=trained_tokens,
            metrics=dict(metrics or {}),
        )
        self._look()

    def on_train_end(self) -> None:
        """After the loop, whatever ended it."""
        self._phase.close()
        self.reporter.end()

    def _look(self) -> None:
        if self.reporter.due_for_evaluation():
            with self.reporter.evaluation() as evaluation:
                evaluation.record(*self.evaluate())
        self.is_over = self.reporter.should_stop()
        if self.save is not None and self.reporter.due_for_checkpoint():
            with self.reporter.checkpoint() as directory:
                self.save(directory)

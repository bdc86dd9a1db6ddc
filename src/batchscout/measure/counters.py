"""What a running job has counted: the training clock by parts, samples, tokens and the clocks beside it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from batchscout.measure.trajectory import PARTS


@dataclass(slots=True)
class Counters:
    """Cumulative along the surviving trajectory. Seconds are raw; counts of samples and tokens None until
    reported."""

    updates: int = 0
    samples: int = 0
    parts: dict[str, float] = field(default_factory=lambda: dict.fromkeys(PARTS, 0.0))
    generated_samples: int | None = None
    generated_tokens: int | None = None
    trained_tokens: int | None = None
    evaluation_seconds: float = 0.0
    checkpoint_seconds: float = 0.0

    @property
    def seconds(self) -> float:
        """The training clock: the parts, added up."""
        return sum(self.parts[part] for part in PARTS)

    def add_update(self, samples: int, parts: Mapping[str, float], **counts: int | None) -> None:
        """Count one more update; a count that the trainer does not report stays as it was."""
        self.updates += 1
        self.samples += samples
        for part in PARTS:
            self.parts[part] += parts[part]
        for name, count in counts.items():
            if count is not None:
                setattr(self, name, (getattr(self, name) or 0) + int(count))

    def part_keys(self) -> dict[str, float]:
        """PART_seconds → seconds, as in the journal."""
        return {f"{part}_seconds": self.parts[part] for part in PARTS}

    def count_keys(self) -> dict[str, int | None]:
        """generated_samples, generated_tokens and trained_tokens."""
        return {k: getattr(self, k) for k in ("generated_samples", "generated_tokens", "trained_tokens")}

    def to_mapping(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_mapping(cls, content: Mapping[str, Any]) -> Counters:
        return cls(**{key: content[key] for key in cls.__dataclass_fields__})

"""Data parallelism: every rank samples and learns its share of each batch, one gradient is summed over all.

What a sum over ranks leaves is the gradient of the same mean over the whole mini-batch, so an update is that
of one
rank with the same rollouts, up to the rounding of a sum in another order. Each mini-batch is dealt out in
whole
groups, as evenly as they go: advantages need no other rank. Random numbers of sampling differ by rank, the
order of
the prompts does not.

Ranks are found in the environment that `torchrun` sets (a Slurm job of several tasks gets the same). gloo on
CPUs,
NCCL on GPUs.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta

import torch
from torch import Tensor
from torch import distributed as dist

from batchscout.errors import TrainerError

MEETING = timedelta(minutes=10)
"""How long a rank waits for the others: the slowest one's start, or its longest sampling."""


@dataclass(frozen=True)
class Ranks:
    """This process among the job's. size 1: alone, nothing is communicated."""

    rank: int = 0
    size: int = 1

    @classmethod
    def join(cls, device: torch.device, variables: Mapping[str, str] = os.environ) -> Ranks:
        """Meet the other ranks; alone where WORLD_SIZE is absent or 1.

        Raises   TrainerError if they do not come.
        """
        size = int(variables.get("WORLD_SIZE", "1"))
        if size == 1:
            return cls()
        rank = int(variables["RANK"])
        if not dist.is_initialized():
            try:
                dist.init_process_group(
                    "nccl" if device.type == "cuda" else "gloo",
                    init_method=f"tcp://{variables['MASTER_ADDR']}:{variables['MASTER_PORT']}",
                    rank=rank, world_size=size, timeout=MEETING,
                )  # fmt: skip
            except (RuntimeError, ValueError, KeyError) as error:
                raise TrainerError(f"rank {rank} of {size} did not meet the others: {error}") from error
        return cls(rank, size)

    def device(self, device: torch.device, variables: Mapping[str, str] = os.environ) -> torch.device:
        """The device of this rank among those that its node's ranks see."""
        if self.size == 1 or device.type != "cuda" or device.index is not None:
            return device
        index = int(variables.get("LOCAL_RANK", "0")) % torch.cuda.device_count()
        torch.cuda.set_device(index)
        return torch.device("cuda", index)

    def share(self, count: int) -> slice:
        """This rank's part of `count` groups: as even as it goes, the first ranks get one more."""
        each, more = divmod(count, self.size)
        start = self.rank * each + min(self.rank, more)
        return slice(start, start + each + (self.rank < more))

    def chosen(self, groups: int, per_mini_batch: int) -> list[int]:
        """Indices of the groups of one batch that this rank works on, mini-batch after mini-batch."""
        return [g for start in range(0, groups, per_mini_batch)
                for g in range(start, start + per_mini_batch)[self.share(per_mini_batch)]]  # fmt: skip

    def sum(self, values: Tensor) -> None:
        """Replace `values` on every rank by their sum over all."""
        if self.size > 1:
            dist.all_reduce(values)

    def wait(self) -> None:
        """Until every rank is here, so that a phase lasts as long as its slowest rank."""
        if self.size > 1:
            dist.barrier()

    def close(self) -> None:
        """Part from the others."""
        if self.size > 1 and dist.is_initialized():
            dist.destroy_process_group()


ALONE = Ranks()

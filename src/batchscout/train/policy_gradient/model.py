"""A decoder-only transformer small enough to learn on one CPU core.

Pre-norm blocks with learned positions. Two departures from GPT-2: weights are drawn with std 0.8/√fan_in,
and the embeddings' std is a setting, since 0.02 leaves a model so sharp after its warm start that RL at a
useful lr destroys it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.nn import functional

from batchscout.train.policy_gradient.settings import check_heads
from batchscout.train.tasks import Task

KeyValues = list[tuple[Tensor, Tensor]]
"""Per block the keys and values seen so far, each (rollouts, heads, tokens, width / heads)."""


@dataclass(frozen=True)
class ModelShape:
    """What fixes the parameters' shapes.

    vocabulary  token ids
    positions   longest sequence, in tokens
    """

    vocabulary: int
    positions: int
    layers: int = 2
    width: int = 64
    heads: int = 4


class Block(nn.Module):
    """Attention, then a perceptron, each on the normalised residual stream."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.attention_norm, self.perceptron_norm = nn.LayerNorm(width), nn.LayerNorm(width)
        self.query_key_value, self.attention_out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def qkv(self, hidden: Tensor, heads: int) -> tuple[Tensor, Tensor, Tensor]:
        """Queries, keys and values of ``hidden`` (n, t, width), each (n, heads, t, width / heads)."""
        rows, tokens, width = hidden.shape
        joined = self.query_key_value(self.attention_norm(hidden))
        query, key, value = joined.view(rows, tokens, 3, heads, width // heads).permute(2, 0, 3, 1, 4)
        return query, key, value

    def mix(self, hidden: Tensor, attended: Tensor) -> Tensor:
        """The block's output, from its input (n, t, width) and its attention (n, heads, t, width / heads)."""
        hidden = hidden + self.attention_out(attended.transpose(1, 2).reshape(hidden.shape))
        grown = functional.gelu(self.up(self.perceptron_norm(hidden)), approximate="tanh")
        mixed: Tensor = hidden + self.down(grown)
        return mixed


class Transformer(nn.Module):
    """Next-token logits, with a cache of keys and values for sampling and for shared prompts."""

    def __init__(self, shape: ModelShape, *, embedding_std: float = 0.5, seed: int = 0) -> None:
        super().__init__()
        self.shape = shape
        self.tokens = nn.Parameter(torch.empty(shape.vocabulary, shape.width))
        self.positions = nn.Parameter(torch.empty(shape.positions, shape.width))
        self.blocks = nn.ModuleList(Block(shape.width) for _ in range(shape.layers))
        self.final_norm, self.head = nn.LayerNorm(shape.width), nn.Linear(shape.width, shape.vocabulary)
        self._draw(embedding_std, torch.Generator().manual_seed(seed))

    def _draw(self, embedding_std: float, generator: torch.Generator) -> None:
        with torch.no_grad():
            self.tokens.normal_(std=embedding_std, generator=generator)
            self.positions.normal_(std=embedding_std, generator=generator)
            for module in self.modules():
                if isinstance(module, nn.Linear):
                    module.weight.normal_(std=0.8 / math.sqrt(module.in_features), generator=generator)
                    module.bias.zero_()

    def forward(
        self, tokens: Tensor, *, cache: KeyValues | None = None, last: int | None = None
    ) -> tuple[Tensor, KeyValues]:
        """Logits of the tokens that follow each of ``tokens``.

        tokens   (n, t) ids that continue the sequences in ``cache``
        last     only the logits of the last so many positions are wanted (default all t)
        Returns  logits (n, last, vocabulary), and the cache extended by ``tokens``
        """
        start = cache[0][0].shape[2] if cache else 0
        hidden = functional.embedding(tokens, self.tokens) + self.positions[start : start + tokens.shape[1]]
        extended: KeyValues = []
        for index, block in enumerate(cast("list[Block]", self.blocks)):
            query, key, value = block.qkv(hidden, self.shape.heads)
            if cache:
                key, value = torch.cat([cache[index][0], key], 2), torch.cat([cache[index][1], value], 2)
            extended.append((key, value))
            if last is not None and index == self.shape.layers - 1:
                query, hidden = query[:, :, -last:], hidden[:, -last:]
            hidden = block.mix(hidden, attend(query, key, value))
        return self.head(self.final_norm(hidden)), extended


def model_for(settings: Mapping[str, Any], task: Task) -> Transformer:
    """A freshly drawn model of the config entry ``model`` for ``task``; ``seed`` decides the draw."""
    check_heads(settings["width"], settings["heads"])
    shape = ModelShape(
        vocabulary=len(task.alphabet),
        positions=task.prompts.shape[1] + task.completion_tokens,
        layers=settings["layers"],
        width=settings["width"],
        heads=settings["heads"],
    )
    return Transformer(shape, embedding_std=settings["embedding_std"], seed=settings["seed"])


def attend(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """Causal attention of the last t positions on all s so far.

    query       (n, heads, t, d), as the result
    key, value  (n, heads, s, d)
    """
    t, s = query.shape[2], key.shape[2]
    if t == 1:
        return functional.scaled_dot_product_attention(query, key, value)
    mask = torch.ones(t, s, dtype=torch.bool, device=query.device).tril(s - t)
    return functional.scaled_dot_product_attention(query, key, value, attn_mask=mask)


def repeat_cache(cache: KeyValues, times: int) -> KeyValues:
    """The cache of each prompt, ``times`` in a row."""
    return [(key.repeat_interleave(times, 0), value.repeat_interleave(times, 0)) for key, value in cache]

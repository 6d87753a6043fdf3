"""A small causal transformer over token ids, with incremental decoding.

1. A token at position p becomes `token embedding + position embedding`, both learned.
2. Each block adds attention and then a GELU feed-forward layer to that, each on a normalised
   copy (pre-norm); a last normalisation gives the hidden vectors.
3. Position p attends to positions up to p that are not padding, and to itself. The hidden vector
   at p is therefore that of the prefix ending at p, whatever follows: one pass over an episode
   gives every one of its states, and a padded row the numbers of the row without its padding.
4. `Decoder` keeps the keys and values of n rows, each at a position of its own, so that one
   more token costs one position. Its numbers are those of the full pass up to rounding.

Shapes: N rows, L positions, d width, h heads. Source of the layout: Radford et al. 2019
(GPT-2), section 2.3.
"""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from rlgen.expression import PAD

PREFILL_GROUPS = 4
"""Groups of rows of about equal length that `Decoder.prefill` computes one after another."""


class Block(nn.Module):
    """Attention and feed-forward layer, each on a normalised copy of its input and added to it."""

    def __init__(self, d_model: int, n_heads: int, dropout: float) -> None:
        super().__init__()
        self.n_heads = n_heads
        self.attention_norm = nn.LayerNorm(d_model)
        self.query_key_value = nn.Linear(d_model, 3 * d_model)
        self.attention_out = nn.Linear(d_model, d_model)
        self.feed_norm = nn.LayerNorm(d_model)
        self.feed_in = nn.Linear(d_model, 4 * d_model)
        self.feed_out = nn.Linear(4 * d_model, d_model)
        self.dropout = nn.Dropout(dropout) if dropout else nn.Identity()

    def heads(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Queries, keys, values (N, h, L, d/h) of x (N, L, d)."""
        n, length, width = x.shape
        joint = self.query_key_value(self.attention_norm(x))
        q, k, v = joint.view(n, length, 3, self.n_heads, width // self.n_heads).permute(2, 0, 3, 1, 4)
        return q, k, v

    def finish(self, x: Tensor, attended: Tensor) -> Tensor:
        """x (N, L, d) plus what it attended to (N, h, L, d/h), then plus the feed-forward layer."""
        x = x + self.dropout(self.attention_out(attended.transpose(1, 2).reshape(x.shape)))
        return x + self.dropout(self.feed_out(functional.gelu(self.feed_in(self.feed_norm(x)))))


class CausalTransformer(nn.Module):
    """Token ids (N, L) to hidden vectors (N, L, d); position p sees positions up to p.

    Args:
        vocabulary_size: number of token ids; id 0 is padding.
        max_length: most positions of a row.
        d_model: width, a multiple of `n_heads`.
        n_layers: blocks.
        n_heads: attention heads.
        dropout: on what each layer adds, in training mode only.
    """

    def __init__(
        self,
        vocabulary_size: int,
        max_length: int,
        d_model: int = 64,
        n_layers: int = 2,
        n_heads: int = 4,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        if d_model % n_heads:
            raise ValueError(f"d_model must be a multiple of n_heads; was {d_model} and {n_heads}")
        self.max_length = max_length
        self.d_model = d_model
        self.tokens = nn.Embedding(vocabulary_size, d_model)
        self.positions = nn.Embedding(max_length, d_model)
        self.blocks = nn.ModuleList(Block(d_model, n_heads, dropout) for _ in range(n_layers))
        self.last_norm = nn.LayerNorm(d_model)
        square = torch.ones(max_length, max_length, dtype=torch.bool)
        self.register_buffer("causal", square.tril(), persistent=False)
        self.register_buffer("diagonal", torch.eye(max_length, dtype=torch.bool), persistent=False)
        self._initialise(n_layers)

    def _initialise(self, n_layers: int) -> None:
        for module in self.modules():
            if isinstance(module, nn.Linear | nn.Embedding):
                nn.init.normal_(module.weight, std=0.02)
            if isinstance(module, nn.Linear):
                nn.init.zeros_(module.bias)
        # What the blocks add up to keeps its size whatever their number (GPT-2).
        for name, weight in self.named_parameters():
            if name.endswith(("attention_out.weight", "feed_out.weight")):
                nn.init.normal_(weight, std=0.02 / math.sqrt(2 * n_layers))

    def forward(self, ids: Tensor) -> Tensor:
        """Hidden vectors (N, L, d) of ids (N, L); those at padding mean nothing."""
        return self.run(ids)

    def run(self, ids: Tensor, cache: Tensor | None = None, rows: Tensor | None = None) -> Tensor:
        """The full pass; leaves keys and values at `rows` (N,) of `cache` (layers, 2, n, h, length, d/h)."""
        length = ids.shape[1]
        x = self.tokens(ids) + self.positions.weight[:length]
        allowed = self._allowed(ids)
        for layer, block in enumerate(self.blocks):
            q, k, v = block.heads(x)  # type: ignore[operator]
            if cache is not None:
                cache[layer, 0, rows, :, :length] = k
                cache[layer, 1, rows, :, :length] = v
            attended = functional.scaled_dot_product_attention(q, k, v, attn_mask=allowed)
            x = block.finish(x, attended)  # type: ignore[operator]
        return self.last_norm(x)

    def _allowed(self, ids: Tensor) -> Tensor:
        """(N, 1, L, L): whether the position of the row may look at that of the column."""
        length = ids.shape[1]
        content = (ids != PAD)[:, None, None, :]
        # A padding position looks at itself, so that no row of the softmax is empty.
        return (self.causal[:length, :length] & content) | self.diagonal[:length, :length]  # type: ignore[index]


class Decoder:
    """Keys and values of n rows, so that reading one more token costs one position.

    `prefill` reads the start of rows; `step` reads one token of each row, each at its own position. A
    row starts over by stepping at position 0: what lies beyond a row's position is not looked at.
    Neither keeps a graph for gradients.
    """

    def __init__(self, transformer: CausalTransformer, n_rows: int) -> None:
        self.transformer = transformer
        weight = transformer.positions.weight
        n_heads = transformer.blocks[0].n_heads if len(transformer.blocks) else 1
        width = transformer.d_model // n_heads  # type: ignore[operator]
        shape = (len(transformer.blocks), 2, n_rows, n_heads, transformer.max_length, width)
        self.cache = torch.zeros(shape, dtype=weight.dtype, device=weight.device)  # type: ignore[arg-type]
        self.rows = torch.arange(n_rows, device=weight.device)
        self.columns = torch.arange(transformer.max_length, device=weight.device)

    @torch.no_grad()
    def prefill(self, ids: np.ndarray, lengths: np.ndarray) -> None:
        """Read the first `lengths` (n,) tokens of each row of ids (n, L), from position 0 on.

        Rows of about equal length go together, so that little padding is computed.
        """
        order = np.argsort(lengths, kind="stable")
        for rows in np.array_split(order[lengths[order] > 0], PREFILL_GROUPS):
            if len(rows):
                part = torch.as_tensor(ids[rows, : lengths[rows].max()], device=self.rows.device)
                self.transformer.run(part, self.cache, torch.as_tensor(rows, device=self.rows.device))

    @torch.no_grad()
    def step(self, ids: Tensor, positions: Tensor) -> Tensor:
        """Read one token ids (n,) of each row at its position (n,); hidden vectors (n, d).

        Args:
            ids: token ids, none of them padding.
            positions: where each token stands, 0 for the first; the row's earlier positions have
                been read before.
        """
        transformer = self.transformer
        x = (transformer.tokens(ids) + transformer.positions(positions))[:, None]
        beyond = torch.where(self.columns <= positions[:, None], 0.0, -torch.inf)[:, None, None]
        for layer, block in enumerate(transformer.blocks):
            q, k, v = block.heads(x)  # type: ignore[operator]
            keys, values = self.cache[layer]
            keys[self.rows, :, positions] = k[:, :, 0]
            values[self.rows, :, positions] = v[:, :, 0]
            # Written out: for a single query torch's fused attention takes twice the time on a CPU.
            scores = q @ keys.transpose(-1, -2) * q.shape[-1] ** -0.5 + beyond
            x = block.finish(x, scores.softmax(-1) @ values)  # type: ignore[operator]
        return transformer.last_norm(x)[:, 0]

"""A rollout as whole episodes: what one causal pass needs to give many samples.

1. A game's column of the rollout falls into segments, one per episode (or part of one: the first
   segment may have begun in the rollout before, the last may go on in the next).
2. The observations of a segment are prefixes of its last one. So a segment is one row of tokens,
   and each of its samples is a position in that row.
3. Minibatches take whole segments, in random order, cut where the samples so far reach the next
   multiple of the batch size: as many minibatches as sb3-contrib makes, of about the same size.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import torch
from sb3_contrib.common.maskable.buffers import MaskableRolloutBuffer
from torch import Tensor

from rlgen.expression import PAD


class Minibatch(NamedTuple):
    """n samples that are positions of M segments."""

    ids: Tensor
    """(M, L) int64 token ids, padded on the right."""
    rows: Tensor
    """(n,) int64: the segment of each sample."""
    positions: Tensor
    """(n,) int64: the position of each sample's last token."""
    actions: Tensor
    """(n,) int64."""
    masks: Tensor
    """(n, V) bool."""
    old_values: Tensor
    """(n,), as are the next three."""
    old_log_probabilities: Tensor
    advantages: Tensor
    returns: Tensor


class Episodes:
    """The segments of a full rollout buffer, on the device where they are learnt from.

    Args:
        buffer: full, with returns and advantages computed. It is not changed.
        device: where the tensors go.
    """

    def __init__(self, buffer: MaskableRolloutBuffer, device: torch.device) -> None:
        def flat(array: np.ndarray) -> np.ndarray:
            # Game after game, each in the order of its steps; buffer.get() leaves it so, too.
            return array if buffer.generator_ready else buffer.swap_and_flatten(array)

        def tensor(array: np.ndarray) -> Tensor:
            return torch.as_tensor(array, device=device)

        observations = flat(buffer.observations)
        # get() flattens everything but the episode starts.
        starts = buffer.swap_and_flatten(buffer.episode_starts).reshape(-1) > 0
        starts[:: buffer.buffer_size] = True
        self.offsets = np.append(np.flatnonzero(starts), len(starts))
        """(M + 1,) int64: the first sample of each segment, closed by n."""
        last = self.offsets[1:] - 1
        lengths = np.count_nonzero(observations != PAD, axis=1)
        self.lengths = lengths[last]
        """(M,) tokens of each segment, those before the rollout included."""
        self.positions = lengths - 1
        self.ids = tensor(observations[last].astype(np.int64))
        self.actions = tensor(flat(buffer.actions).reshape(-1).astype(np.int64))
        self.masks = tensor(flat(buffer.action_masks) > 0)
        self.old_values = tensor(flat(buffer.values).reshape(-1))
        self.old_log_probabilities = tensor(flat(buffer.log_probs).reshape(-1))
        self.advantages = tensor(flat(buffer.advantages).reshape(-1))
        self.returns = tensor(flat(buffer.returns).reshape(-1))

    def __len__(self) -> int:
        return len(self.lengths)

    @property
    def n_samples(self) -> int:
        """Samples in all segments."""
        return len(self.positions)

    def minibatches(self, batch_size: int | None) -> Iterator[Minibatch]:
        """All segments once, in an order drawn with torch's global CPU generator.

        Args:
            batch_size: samples per minibatch, roughly; None: all in one.
        """
        order = torch.randperm(len(self)).numpy()
        if batch_size is None or batch_size >= self.n_samples:
            yield self.select(order)
            return
        n_batches = -(-self.n_samples // batch_size)
        so_far = np.cumsum(np.diff(self.offsets)[order])
        targets = self.n_samples * np.arange(1, n_batches) / n_batches
        cuts = np.unique(np.searchsorted(so_far, targets) + 1)
        for part in np.split(order, cuts[cuts < len(order)]):
            yield self.select(part)

    def select(self, segments: np.ndarray) -> Minibatch:
        """The samples of some segments (m,), segment after segment."""
        counts = self.offsets[segments + 1] - self.offsets[segments]
        rows = np.repeat(np.arange(len(segments)), counts)
        # Sample numbers: each segment's first one, plus the place within the segment.
        before = np.cumsum(counts) - counts
        samples = np.repeat(self.offsets[segments] - before, counts) + np.arange(len(rows))
        device = self.ids.device
        index = torch.as_tensor(samples, device=device)
        width = int(self.lengths[segments].max())
        return Minibatch(
            ids=self.ids[torch.as_tensor(segments, device=device), :width],
            rows=torch.as_tensor(rows, device=device),
            positions=torch.as_tensor(self.positions[samples], device=device),
            actions=self.actions[index],
            masks=self.masks[index],
            old_values=self.old_values[index],
            old_log_probabilities=self.old_log_probabilities[index],
            advantages=self.advantages[index],
            returns=self.returns[index],
        )

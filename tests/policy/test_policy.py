import math
from pathlib import Path

import numpy as np
import pytest
import torch
from gymnasium import spaces
from sb3_contrib.common.maskable.distributions import MaskableCategorical

from rlgen.expression import PAD
from rlgen.policy import TransformerPolicy, masked

VOCABULARY, LENGTH = 19, 10


def make_policy(**changes: object) -> TransformerPolicy:
    torch.manual_seed(5)
    return TransformerPolicy(
        spaces.Box(0, VOCABULARY - 1, (LENGTH,), np.int64),
        spaces.Discrete(VOCABULARY),
        lambda _: 3e-4,
        **({"d_model": 16, "n_layers": 2, "n_heads": 2} | changes),  # type: ignore[arg-type]
    )


@pytest.fixture
def policy() -> TransformerPolicy:
    made = make_policy()
    for weight in made.parameters():
        torch.nn.init.normal_(weight, std=0.3)
    return made


@pytest.fixture
def episodes() -> dict[str, torch.Tensor]:
    """Three episodes of 4, 9 and 6 tokens with every prefix as a sample."""
    generator = torch.Generator().manual_seed(0)
    lengths = torch.tensor([4, 9, 6])
    ids = torch.randint(1, VOCABULARY, (3, LENGTH), generator=generator)
    ids = torch.where(torch.arange(LENGTH) < lengths[:, None], ids, PAD)
    rows = torch.repeat_interleave(torch.arange(3), lengths)
    positions = torch.cat([torch.arange(int(n)) for n in lengths])
    masks = torch.rand(len(rows), VOCABULARY, generator=generator) < 0.4
    masks[torch.arange(len(rows)), positions] = True
    actions = torch.multinomial(masks.float(), 1, generator=generator).squeeze(1)
    prefixes = torch.where(torch.arange(LENGTH) <= positions[:, None], ids[rows], PAD)
    return {
        "ids": ids,
        "rows": rows,
        "positions": positions,
        "masks": masks,
        "actions": actions,
        "prefixes": prefixes,
    }


def test_packed_and_per_prefix_numbers_agree(
    policy: TransformerPolicy, episodes: dict[str, torch.Tensor]
) -> None:
    e = episodes
    packed = policy.evaluate_episodes(e["ids"], e["rows"], e["positions"], e["actions"], e["masks"])
    values, log_probabilities, entropies = policy.evaluate_actions(e["prefixes"], e["actions"], e["masks"])
    torch.testing.assert_close(packed[0], values.flatten(), rtol=0, atol=1e-5)
    torch.testing.assert_close(packed[1], log_probabilities, rtol=0, atol=1e-5)
    torch.testing.assert_close(packed[2], entropies, rtol=0, atol=1e-5)


def test_packed_and_per_prefix_gradients_agree(
    policy: TransformerPolicy, episodes: dict[str, torch.Tensor]
) -> None:
    e = episodes

    def gradients(values: torch.Tensor, logs: torch.Tensor, entropies: torch.Tensor) -> torch.Tensor:
        policy.optimizer.zero_grad()
        (values.mean() + logs.mean() + entropies.mean()).backward()
        return torch.cat([p.grad.flatten() for p in policy.parameters() if p.grad is not None]).clone()

    packed = gradients(
        *policy.evaluate_episodes(*(e[k] for k in ("ids", "rows", "positions", "actions", "masks")))
    )
    apart = gradients(*policy.evaluate_actions(e["prefixes"], e["actions"], e["masks"]))
    torch.testing.assert_close(packed, apart, rtol=1e-5, atol=1e-5)


def test_playing_gives_the_numbers_of_learning(
    policy: TransformerPolicy, episodes: dict[str, torch.Tensor]
) -> None:
    e = episodes
    decoder = policy.decoder(3)
    for position in range(4):
        hidden = decoder.step(e["ids"][:, position], torch.full((3,), position))
        of_position = [int(((e["rows"] == r) & (e["positions"] == position)).nonzero()) for r in range(3)]
        masks = e["masks"][of_position]
        actions, values, logs = policy.eval().act(hidden, masks)
        assert masks[torch.arange(3), actions].all()
        expected = policy.train().evaluate_actions(e["prefixes"][of_position], actions, masks)
        torch.testing.assert_close(values, expected[0].flatten(), rtol=0, atol=1e-5)
        torch.testing.assert_close(logs, expected[1], rtol=0, atol=1e-5)


def test_training_and_evaluation_mode_agree_bit_for_bit(
    policy: TransformerPolicy, episodes: dict[str, torch.Tensor]
) -> None:
    arguments = episodes["prefixes"], episodes["actions"], episodes["masks"]
    policy.set_training_mode(True)
    training = policy.evaluate_actions(*arguments)
    policy.set_training_mode(False)
    for a, b in zip(training, policy.evaluate_actions(*arguments), strict=True):
        assert torch.equal(a, b)


def test_masked_numbers_are_those_of_sb3_contrib() -> None:
    torch.manual_seed(2)
    logits = torch.randn(50, VOCABULARY) * 4
    masks = torch.rand(50, VOCABULARY) < 0.3
    masks[:, 3] = True
    theirs = MaskableCategorical(logits=logits, masks=masks)
    ours = masked.masked_log_softmax(logits, masks)
    actions = torch.multinomial(masks.float(), 1).squeeze(1)
    torch.testing.assert_close(masked.log_probability(ours, actions), theirs.log_prob(actions))
    torch.testing.assert_close(masked.entropy(ours, masks), theirs.entropy())
    torch.manual_seed(7)
    drawn = masked.sample(ours)
    torch.manual_seed(7)
    assert torch.equal(drawn, theirs.sample())


def test_entropy_of_one_and_of_all_actions() -> None:
    logits = torch.zeros(2, 8)
    masks = torch.tensor([[True] + 7 * [False], 8 * [True]])
    entropies = masked.entropy(masked.masked_log_softmax(logits, masks), masks)
    torch.testing.assert_close(entropies, torch.tensor([0.0, math.log(8)]))


def test_a_new_policy_is_nearly_uniform_and_values_nothing(episodes: dict[str, torch.Tensor]) -> None:
    policy = make_policy(d_model=64)
    probabilities = policy.get_distribution(episodes["prefixes"]).distribution.probs
    assert (probabilities * VOCABULARY - 1).abs().max() < 0.05
    assert policy.predict_values(episodes["prefixes"]).abs().max() < 0.05


def test_initial_weights_are_the_transformers_own() -> None:
    """Orthogonal initialisation would have made every linear layer's weights far larger."""
    policy = make_policy(d_model=64)
    weight = policy.transformer.blocks[0].feed_in.weight
    assert weight.std().item() == pytest.approx(0.02, rel=0.1)


def test_saved_and_loaded_policy_is_the_same(tmp_path: Path, episodes: dict[str, torch.Tensor]) -> None:
    policy = make_policy(n_layers=1)
    policy.save(str(tmp_path / "policy.pth"))
    # The file names the class's own arguments, so it needs unpickling; it is this test's own.
    again = TransformerPolicy.load(str(tmp_path / "policy.pth"))
    assert torch.equal(
        again.predict_values(episodes["prefixes"]), policy.predict_values(episodes["prefixes"])
    )


def test_observations_may_be_floats_or_hold_any_ids(policy: TransformerPolicy) -> None:
    """Samples of the observation space have padding anywhere; all rows give finite numbers."""
    observations = np.stack(
        [policy.observation_space.sample() for _ in range(20)] + [np.zeros(LENGTH, np.int64)]
    )
    values = policy.predict_values(torch.as_tensor(observations))
    assert values.shape == (21, 1)
    assert values.isfinite().all()

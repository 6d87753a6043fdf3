"""The phases against plain MaskablePPO, on the same games, data and weights."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from sb3_contrib import MaskablePPO

from rlgen.env import AlphaEnv, AlphaVecEnv
from rlgen.errors import RlgenError
from rlgen.policy import TransformerPolicy
from rlgen.training import AlphaPPO
from rlgen.training.episodes import Episodes
from tests.env.small import GRAMMAR, make_pool

STATISTICS = (
    "policy_gradient_loss",
    "value_loss",
    "entropy_loss",
    "loss",
    "approx_kl",
    "clip_fraction",
    "explained_variance",
)


@pytest.fixture(autouse=True)
def _one_thread() -> Any:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def make_model(cls: type[MaskablePPO] = AlphaPPO, deferred: bool = True, **changes: Any) -> Any:
    env = AlphaVecEnv(make_pool(2), GRAMMAR, 8, 10.0, deferred)
    settings = {"n_steps": 13, "batch_size": 32, "n_epochs": 2, "ent_coef": 0.02, "gamma": 1.0, "seed": 3}
    kwargs = {"d_model": 16, "n_layers": 2, "n_heads": 2}
    model = cls(TransformerPolicy, env, device="cpu", policy_kwargs=kwargs, **(settings | changes))
    model._setup_learn(10_000, None)
    return model


def enlarge(model: MaskablePPO, std: float = 0.15) -> None:
    """Weights with a life of their own, so that probabilities differ and errors show."""
    generator = torch.Generator().manual_seed(9)
    with torch.no_grad():
        for weight in model.policy.parameters():
            weight += torch.randn(weight.shape, generator=generator) * std


def played(rollouts: int = 2, **changes: Any) -> Any:
    """A model whose buffer holds games that began before its rollout, learnt from by other weights."""
    model = make_model(**changes)
    enlarge(model)
    for _ in range(rollouts):
        model.generate()
        model.score()
    enlarge(model, 0.05)
    return model


def test_playing_is_that_of_sb3_contrib() -> None:
    ours, theirs = make_model(), make_model(MaskablePPO, deferred=False)
    for model in (ours, theirs):
        enlarge(model)
    for _ in range(2):
        torch.manual_seed(1)
        ours.generate()
        ours.score()
        torch.manual_seed(1)
        theirs.collect_rollouts(
            theirs.env, theirs._init_callback(None), theirs.rollout_buffer, theirs.n_steps
        )
        a, b = ours.rollout_buffer, theirs.rollout_buffer
        for name in ("observations", "actions", "rewards", "episode_starts", "action_masks"):
            np.testing.assert_array_equal(getattr(a, name), getattr(b, name), err_msg=name)
        for name in ("values", "log_probs", "advantages", "returns"):
            np.testing.assert_allclose(getattr(a, name), getattr(b, name), rtol=0, atol=1e-5, err_msg=name)
    assert a.rewards.any()
    assert ours.num_timesteps == theirs.num_timesteps


def test_deferred_and_immediate_scoring_earn_the_same() -> None:
    """A pool of two on five-token formulas: duplicates within a batch and evictions are the rule."""
    deferred, immediate = make_model(), make_model(deferred=False)
    offers = []
    for _ in range(4):
        for model in (deferred, immediate):
            torch.manual_seed(5)
            model.generate()
            found = model.score()
            offers += found
        np.testing.assert_array_equal(deferred.rollout_buffer.rewards, immediate.rollout_buffer.rewards)
        np.testing.assert_array_equal(deferred.rollout_buffer.advantages, immediate.rollout_buffer.advantages)
        assert list(deferred.ep_info_buffer)[-1]["r"] == list(immediate.ep_info_buffer)[-1]["r"]
    assert any(offer.evicted for offer in offers)
    assert len({offer.expression for offer in offers}) < len(offers)
    ours, theirs = (model.env.pool for model in (deferred, immediate))
    assert ours.factors == theirs.factors
    assert ours.evaluations == theirs.evaluations
    assert [member.expression for member in ours.factors] != []


def test_games_in_progress_carry_over_an_update_with_their_cache_recomputed() -> None:
    model = played()
    model.generate()
    buffer = model.rollout_buffer
    first = torch.as_tensor(buffer.observations[0])
    assert (np.count_nonzero(buffer.observations[0], axis=1) > 1).any()
    values, logs, _ = model.policy.evaluate_actions(
        first, torch.as_tensor(buffer.actions[0]).flatten(), torch.as_tensor(buffer.action_masks[0])
    )
    np.testing.assert_allclose(buffer.values[0], values.flatten().detach(), rtol=0, atol=1e-5)
    np.testing.assert_allclose(buffer.log_probs[0], logs.detach(), rtol=0, atol=1e-5)


def gradients_of(model: MaskablePPO, train: Any) -> tuple[dict[str, float], torch.Tensor]:
    """What `train` logs, and the clipped gradient of its first step, the weights left as they are."""
    collected: list[torch.Tensor] = []

    def keep() -> None:
        collected.append(torch.cat([p.grad.flatten().clone() for p in model.policy.parameters()]))  # type: ignore[union-attr]

    model.policy.optimizer.step = keep  # type: ignore[method-assign, assignment]
    train(model)
    return {name: model.logger.name_to_value[f"train/{name}"] for name in STATISTICS}, collected[0]


@pytest.mark.parametrize("clip_range_vf", [None, 0.05])
@pytest.mark.parametrize("normalize_advantage", [True, False])
def test_loss_and_gradients_are_those_of_sb3_contrib(
    clip_range_vf: float | None, normalize_advantage: bool
) -> None:
    settings = {"clip_range_vf": clip_range_vf, "normalize_advantage": normalize_advantage}
    model = played(batch_size=None, n_epochs=1, max_grad_norm=100.0, **settings)
    ours, gradient = gradients_of(model, AlphaPPO.train)
    theirs, expected = gradients_of(model, MaskablePPO.train)
    assert ours["clip_fraction"] > 0.05  # the clipped part is in use
    for name in STATISTICS:
        assert ours[name] == pytest.approx(theirs[name], rel=1e-5, abs=1e-5), name
    scale = expected.abs().max().item()
    assert scale > 1e-2
    torch.testing.assert_close(gradient / scale, expected / scale, rtol=0, atol=1e-5)
    # Their generator has reordered the buffer by now; the episodes in it are the same.
    again, gradient = gradients_of(model, AlphaPPO.train)
    assert again["loss"] == pytest.approx(ours["loss"], rel=1e-6)
    torch.testing.assert_close(gradient / scale, expected / scale, rtol=0, atol=1e-5)


def test_packed_and_per_prefix_numbers_of_a_rollout_agree() -> None:
    model = played()
    episodes = Episodes(model.rollout_buffer, model.device)
    batch = episodes.select(np.arange(len(episodes)))
    values, logs, entropies = model.policy.evaluate_episodes(
        batch.ids, batch.rows, batch.positions, batch.actions, batch.masks
    )
    flat = model.rollout_buffer.swap_and_flatten
    expected = model.policy.evaluate_actions(
        torch.as_tensor(flat(model.rollout_buffer.observations)),
        torch.as_tensor(flat(model.rollout_buffer.actions)).flatten(),
        torch.as_tensor(flat(model.rollout_buffer.action_masks)),
    )
    for ours, theirs in zip((values, logs, entropies), expected, strict=True):
        torch.testing.assert_close(ours, theirs.flatten(), rtol=0, atol=1e-5)


def test_minibatches_are_whole_episodes_of_about_the_batch_size() -> None:
    model = played(n_steps=64)
    episodes = Episodes(model.rollout_buffer, model.device)
    n = 64 * 8
    assert episodes.n_samples == n
    torch.manual_seed(0)
    batches = list(episodes.minibatches(50))
    assert len(batches) == -(-n // 50)
    assert sum(len(batch.rows) for batch in batches) == n
    assert all(len(batch.rows) <= n / len(batches) + 8 for batch in batches)
    total = sum(float(batch.returns.double().sum()) for batch in batches)
    assert total == pytest.approx(float(model.rollout_buffer.returns.sum(dtype=np.float64)), rel=1e-6)
    for batch in batches:
        lengths = (batch.ids != 0).sum(1)
        assert (batch.positions < lengths[batch.rows]).all()
        # The last sample of each segment is its last token.
        assert set(zip(batch.rows.tolist(), batch.positions.tolist(), strict=True)) >= set(
            enumerate((lengths - 1).tolist())
        )
    other = list(episodes.minibatches(50))
    assert not all(torch.equal(a.actions, b.actions) for a, b in zip(batches, other, strict=True))


def test_one_sample_minibatches_give_finite_losses() -> None:
    model = played(batch_size=1, n_steps=2)
    model.train()
    assert all(weight.isfinite().all() for weight in model.policy.parameters())


def test_target_kl_ends_the_update_early() -> None:
    model = played(target_kl=1e-9, n_epochs=5)
    before = [weight.detach().clone() for weight in model.policy.parameters()]
    model.train()
    assert model._n_updates == 1
    assert all(a.equal(b) for a, b in zip(before, model.policy.parameters(), strict=True))


def test_a_loss_that_is_not_finite_ends_training_before_the_step() -> None:
    model = played()
    model.rollout_buffer.returns[3, 2] = np.nan
    before = [weight.detach().clone() for weight in model.policy.parameters()]
    with pytest.raises(RlgenError, match=r"the loss was nan at step 208, epoch 1"):
        model.batch_size = None
        model.train()
    assert all(a.equal(b) for a, b in zip(before, model.policy.parameters(), strict=True))


def test_a_gradient_that_is_not_finite_ends_training() -> None:
    model = played()
    weight = next(iter(model.policy.parameters()))
    weight.register_hook(lambda gradient: gradient * torch.inf)
    with pytest.raises(RlgenError, match=r"the gradient was (nan|inf)"):
        model.train()


def test_an_empty_mask_is_an_error() -> None:
    model = make_model()
    masks = np.ones((8, model.action_space.n), bool)
    masks[5] = False
    model.env.action_masks = lambda: masks
    with pytest.raises(RuntimeError, match="game 5 allows no action"):
        model.generate()


def test_learn_runs_the_phases() -> None:
    model = make_model()
    model.learn(300)
    assert model.num_timesteps == 312
    assert model._n_updates == 6
    assert model.env.pool.offers > 20
    assert any(episode["r"] > 0 for episode in model.ep_info_buffer)


def test_a_callback_can_stop_it() -> None:
    model = make_model()
    model.learn(10_000, callback=lambda scope, _: scope["self"].num_timesteps < 150)
    assert model.num_timesteps <= 208


def test_saved_models_are_sb3_contribs(tmp_path: Path) -> None:
    model = make_model()
    model.learn(200)
    model.save(tmp_path / "model.zip")
    masks = model.env.action_masks()
    observations = model._last_obs
    expected = model.predict(observations, deterministic=True, action_masks=masks)[0]
    plain = MaskablePPO.load(tmp_path / "model.zip", device="cpu")
    assert type(plain) is MaskablePPO
    assert np.array_equal(plain.predict(observations, deterministic=True, action_masks=masks)[0], expected)
    plain.set_env(AlphaVecEnv(make_pool(2), GRAMMAR, 8, 10.0))
    plain.learn(100)
    plain.save(tmp_path / "plain.zip")
    again = AlphaPPO.load(tmp_path / "plain.zip", env=model.env, device="cpu")
    assert type(again) is AlphaPPO
    again.learn(100)
    for name in ("waiting", "_last_values", "_weights"):
        assert name not in plain.__dict__


def test_it_learns_from_a_single_plain_environment_too() -> None:
    model = AlphaPPO(
        TransformerPolicy,
        AlphaEnv(make_pool(2), GRAMMAR),
        n_steps=40,
        batch_size=20,
        n_epochs=1,
        seed=0,
        device="cpu",
        policy_kwargs={"d_model": 16, "n_layers": 1, "n_heads": 2},
    )
    model.learn(80)
    assert model.env.envs[0].unwrapped.pool.offers > 5  # type: ignore[union-attr, attr-defined]


def test_it_learns_what_earns() -> None:
    """Rewards are replaced by one for every formula of a single token: soon there are no others."""

    model = make_model(n_steps=16, batch_size=64, n_epochs=4, learning_rate=3e-3)
    model.env.pool.offer_batch = lambda formulas, steps: [
        SimpleNamespace(reward=0.1 * (formula.n_tokens == 1)) for formula in formulas
    ]
    for _ in range(16):
        model.generate()
        model.score()
        model.train()
    lengths = [episode["l"] for episode in list(model.ep_info_buffer)[-50:]]
    assert np.mean(np.array(lengths) == 2) > 0.9

import numpy as np
import pytest
from sb3_contrib.common.maskable.utils import get_action_masks, is_masking_supported

from rlgen.env import AlphaVecEnv
from rlgen.errors import ExpressionError
from rlgen.expression import BEGIN, END, PAD, sample_uniform
from tests.env.small import GRAMMAR, make_pool


def make_env(n: int = 6, deferred: bool = False) -> AlphaVecEnv:
    env = AlphaVecEnv(make_pool(2), GRAMMAR, n, 10.0, deferred)
    env.reset()
    return env


def play(env: AlphaVecEnv, steps: int, seed: int = 0) -> list[tuple]:
    rng = np.random.default_rng(seed)
    return [env.step(sample_uniform(get_action_masks(env), rng)) for _ in range(steps)]


def test_shapes_and_kinds() -> None:
    env = make_env()
    assert is_masking_supported(env)
    observations, rewards, dones, infos = play(env, 1)[0]
    assert observations.shape == (6, 8)
    assert observations.dtype == np.int64
    assert rewards.shape == dones.shape == (6,)
    assert rewards.dtype == np.float32
    assert dones.dtype == bool
    assert len(infos) == 6


def test_masks_come_as_one_array() -> None:
    env = make_env()
    masks = env.env_method("action_masks")
    assert isinstance(masks, np.ndarray)
    assert masks.shape == (6, env.action_space.n)  # type: ignore[attr-defined]
    assert np.array_equal(env.env_method("action_masks", indices=[1, 4]), masks[[1, 4]])
    assert np.array_equal(get_action_masks(env), masks)


def test_a_finished_game_starts_over_and_leaves_its_last_observation() -> None:
    env = make_env()
    ended = 0
    for observations, _, dones, infos in play(env, 40):
        for game in range(6):
            if not dones[game]:
                assert infos[game] == {}
                continue
            ended += 1
            info = infos[game]
            last = info["terminal_observation"]
            length = int((last != PAD).sum())
            assert last[length - 1] == END
            assert observations[game].tolist() == [BEGIN] + 7 * [PAD]
            assert info["episode"]["l"] == length - 1
            ids = last[1 : length - 1].tolist()
            assert info["expression"] == str(env.grammar.vocabulary.to_expression(ids))
            assert not info["TimeLimit.truncated"]
    assert ended > 20


def test_immediate_rewards_are_those_of_offers_in_the_order_step_then_game() -> None:
    env, other = make_env(), make_pool(2)
    for _, rewards, dones, infos in play(env, 60):
        for game in range(6):
            if not dones[game]:
                assert rewards[game] == 0
                continue
            offer = other.offer(infos[game]["expression"])
            assert rewards[game] == np.float32(10.0 * offer.reward)
            assert infos[game]["episode"]["r"] == rewards[game]
            assert infos[game]["reason"] == offer.reason
            assert infos[game]["admitted"] == offer.admitted


def test_deferred_games_wait_in_the_order_step_then_game() -> None:
    env = make_env(deferred=True)
    expected = []
    for step, (_, rewards, dones, infos) in enumerate(play(env, 30)):
        assert not rewards.any()
        expected += [(step, game, infos[game]["expression"]) for game in np.flatnonzero(dones)]
    assert env.pool.evaluations == 0
    waiting = env.take_finished()
    assert [(game.step, game.game, str(game.expression)) for game in waiting] == expected
    assert env.take_finished() == []
    play(env, 5)
    assert all(game.step < 5 for game in env.take_finished())


def test_a_deferred_episodes_statistics_can_be_filled_in_later() -> None:
    env = make_env(deferred=True)
    infos = [info for step in play(env, 20) for info in step[3] if info]
    for game in env.take_finished():
        game.episode["r"] = 3.5
    assert {info["episode"]["r"] for info in infos} == {3.5}


def test_observations_are_no_views_of_the_games() -> None:
    env = make_env()
    observations = play(env, 1)[0][0]
    before = observations.copy()
    play(env, 3)
    assert np.array_equal(observations, before)


def test_reset_drops_what_waits() -> None:
    env = make_env(deferred=True)
    play(env, 20)
    observations = env.reset()
    assert (observations[:, 0] == BEGIN).all()
    assert not observations[:, 1:].any()
    assert env.take_finished() == []


def test_an_illegal_action_is_an_error() -> None:
    env = make_env()
    with pytest.raises(ExpressionError, match="game 0"):
        env.step(np.full(6, END))


def test_attributes_are_shared() -> None:
    env = make_env()
    assert env.get_attr("reward_scale", indices=[0, 2]) == [10.0, 10.0]
    env.set_attr("reward_scale", 2.0)
    assert env.reward_scale == 2.0
    assert env.env_is_wrapped(object) == 6 * [False]
    assert not env.has_attr("no_such_thing")

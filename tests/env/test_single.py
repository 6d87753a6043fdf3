import warnings

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from sb3_contrib import MaskablePPO
from stable_baselines3.common.env_checker import check_env as check_env_of_sb3

from rlgen.config import GrammarConfig
from rlgen.env import AlphaEnv
from rlgen.errors import ConfigError
from rlgen.expression import BEGIN, END, PAD, parse
from rlgen.policy import TransformerPolicy
from tests.env.small import GRAMMAR, make_pool


@pytest.fixture
def env() -> AlphaEnv:
    return AlphaEnv(make_pool(), GRAMMAR, reward_scale=10.0)


def play(env: AlphaEnv, text: str) -> tuple[np.ndarray, float, bool, bool, dict]:
    """Write a formula token by token; what the last step returned."""
    env.reset()
    for token in [*env.grammar.vocabulary.to_ids(parse(text)), END]:
        result = env.step(token)
    return result  # type: ignore[return-value]


def test_gymnasiums_checker_passes(env: AlphaEnv) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        # Not registered, so the checker cannot make it anew by name.
        warnings.filterwarnings("ignore", message=".*not registered|.*spec.*")
        check_env(env, skip_render_check=True)


def test_stable_baselines3s_checker_passes(env: AlphaEnv) -> None:
    check_env_of_sb3(env, warn=False)


def test_an_episode_from_begin_to_end(env: AlphaEnv) -> None:
    observation, info = env.reset()
    assert observation.tolist() == [BEGIN] + 7 * [PAD]
    assert info == {}
    observation, reward, terminated, truncated, info = play(env, "Mean($close,5)")
    assert terminated
    assert not truncated
    assert info["expression"] == "Mean($close,5)"
    assert info["reason"] == "admitted"
    assert info["admitted"] is True
    ids = env.grammar.vocabulary.to_ids(parse("Mean($close,5)"))
    assert observation.tolist() == [BEGIN, *ids, END] + (6 - len(ids)) * [PAD]
    assert reward == pytest.approx(10.0 * env.pool.objective)
    assert reward != 0


def test_the_rewards_are_the_pools_offers(env: AlphaEnv) -> None:
    other = make_pool()
    for text in ("Mean($close,5)", "$volume", "Mean($close,5)", "Delta($close,2)", "Abs(Delta($volume,5))"):
        _, reward, _, _, info = play(env, text)
        offer = other.offer(text)
        assert reward == 10.0 * offer.reward
        assert info["reason"] == offer.reason


def test_steps_before_the_end_earn_nothing_and_say_nothing(env: AlphaEnv) -> None:
    env.reset()
    _, reward, terminated, truncated, info = env.step(env.grammar.vocabulary.to_ids(parse("$close"))[0])
    assert (reward, terminated, truncated, info) == (0.0, False, False, {})


def test_an_illegal_action_ends_the_episode_below_any_formula(env: AlphaEnv) -> None:
    env.reset()
    assert not env.action_masks()[END]
    _, reward, terminated, _, info = env.step(END)
    assert terminated
    assert reward == -10.0
    assert info == {"expression": None, "reason": "illegal_action", "admitted": False}
    assert env.pool.evaluations == 0


def test_masks_allow_what_can_be_completed(env: AlphaEnv) -> None:
    env.reset()
    masks = env.action_masks()
    assert masks.shape == (env.grammar.vocabulary.size,)
    assert masks.dtype == bool
    assert masks.any()
    assert not masks[[PAD, BEGIN, END]].any()


def test_reset_honours_the_seed(env: AlphaEnv) -> None:
    env.reset(seed=42)
    first = env.np_random.random(4)
    env.reset(seed=42)
    assert np.array_equal(first, env.np_random.random(4))
    env.reset()
    assert not np.array_equal(first, env.np_random.random(4))


def test_reset_leaves_the_global_generators_alone(env: AlphaEnv) -> None:
    np.random.seed(0)  # noqa: NPY002
    expected = np.random.random(3)  # noqa: NPY002
    np.random.seed(0)  # noqa: NPY002
    env.reset(seed=5)
    assert np.array_equal(np.random.random(3), expected)  # noqa: NPY002


def test_observations_are_no_views_of_the_game(env: AlphaEnv) -> None:
    observation, _ = env.reset()
    env.step(env.grammar.vocabulary.to_ids(parse("$close"))[0])
    assert observation[1] == PAD


def test_grammar_defaults_to_all_fields_of_the_panel() -> None:
    env = AlphaEnv(make_pool())
    assert env.grammar.vocabulary.fields == ("close", "volume")
    assert env.grammar.token_limit == GrammarConfig().token_limit


@pytest.mark.parametrize(
    ("grammar", "message"),
    [
        ({"fields": ("close", "price")}, "grammar.fields.*close, volume.*was price"),
        ({"fields": ()}, "grammar.fields.*was empty"),
        ({"windowz": (5,)}, "windowz: unknown key"),
        ({"token_limit": 2}, "token_limit"),
    ],
)
def test_a_grammar_that_does_not_fit_is_refused(grammar: dict, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        AlphaEnv(make_pool(), grammar)


@pytest.mark.parametrize("policy", ["MlpPolicy", TransformerPolicy])
def test_plain_maskable_ppo_trains_on_it(env: AlphaEnv, policy: object) -> None:
    kwargs = {} if policy == "MlpPolicy" else {"d_model": 16, "n_layers": 1, "n_heads": 2}
    model = MaskablePPO(policy, env, n_steps=32, batch_size=32, n_epochs=1, seed=0, policy_kwargs=kwargs)  # type: ignore[arg-type]
    before = [weight.detach().clone() for weight in model.policy.parameters()]
    model.learn(64)
    assert any(not a.equal(b) for a, b in zip(before, model.policy.parameters(), strict=True))
    assert env.pool.offers > 3
    assert all(np.isfinite(episode["r"]) for episode in model.ep_info_buffer)  # type: ignore[union-attr]


def test_it_is_a_gymnasium_environment(env: AlphaEnv) -> None:
    assert isinstance(env, gymnasium.Env)
    assert env.observation_space.contains(env.reset()[0])

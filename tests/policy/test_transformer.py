import pytest
import torch

from rlgen.expression import PAD
from rlgen.policy.transformer import CausalTransformer, Decoder

VOCABULARY, LENGTH, WIDTH = 23, 12, 16


@pytest.fixture
def transformer() -> CausalTransformer:
    torch.manual_seed(0)
    network = CausalTransformer(VOCABULARY, LENGTH, WIDTH, n_layers=2, n_heads=2)
    for weight in network.parameters():  # larger than at the start, so that errors would show
        torch.nn.init.normal_(weight, std=0.3)
    return network


def tokens(n: int, length: int = LENGTH) -> torch.Tensor:
    return torch.randint(1, VOCABULARY, (n, length))


def test_a_position_depends_on_no_later_token(transformer: CausalTransformer) -> None:
    ids = tokens(5)
    before = transformer(ids)
    for position in range(1, LENGTH):
        changed = ids.clone()
        changed[:, position:] = (ids[:, position:] % (VOCABULARY - 1)) + 1
        after = transformer(changed)
        torch.testing.assert_close(after[:, :position], before[:, :position], rtol=0, atol=1e-6)
        assert (after[:, position:] - before[:, position:]).abs().max() > 1e-2


def test_padding_changes_nothing(transformer: CausalTransformer) -> None:
    ids = tokens(6, 7)
    padded = torch.cat([ids, torch.full((6, LENGTH - 7), PAD)], dim=1)
    torch.testing.assert_close(transformer(padded)[:, :7], transformer(ids), rtol=0, atol=1e-6)


def test_padding_is_never_attended_to(transformer: CausalTransformer) -> None:
    ids = tokens(4)
    ids[:, 3] = PAD
    before = transformer(ids)
    with torch.no_grad():
        transformer.tokens.weight[PAD] += 5.0
    after = transformer(ids)
    content = ids != PAD
    torch.testing.assert_close(after[content], before[content], rtol=0, atol=1e-6)


def test_rows_of_padding_only_give_finite_numbers(transformer: CausalTransformer) -> None:
    assert transformer(torch.full((2, LENGTH), PAD)).isfinite().all()


def test_every_row_is_independent_of_the_others(transformer: CausalTransformer) -> None:
    ids = tokens(8)
    torch.testing.assert_close(transformer(ids)[2:3], transformer(ids[2:3]), rtol=0, atol=1e-6)


def test_token_order_matters(transformer: CausalTransformer) -> None:
    ids = tokens(3)
    swapped = ids.clone()
    swapped[:, [0, 1]] = ids[:, [1, 0]]
    different = (ids[:, 0] != ids[:, 1]).nonzero().flatten()
    assert (transformer(ids) - transformer(swapped))[different, -1].abs().max() > 1e-3


def test_decoding_token_by_token_equals_the_full_pass(transformer: CausalTransformer) -> None:
    ids = tokens(6)
    full = transformer(ids)
    decoder = Decoder(transformer, 6)
    for position in range(LENGTH):
        hidden = decoder.step(ids[:, position], torch.full((6,), position))
        torch.testing.assert_close(hidden, full[:, position], rtol=0, atol=1e-5)


def test_decoding_with_rows_at_different_positions_that_start_over(transformer: CausalTransformer) -> None:
    """Rows restart at random moments on a cache full of what they held before."""
    generator = torch.Generator().manual_seed(3)
    n = 7
    rows = [[int(t)] for t in torch.randint(1, VOCABULARY, (n,), generator=generator)]
    decoder = Decoder(transformer, n)
    for _ in range(40):
        last = torch.tensor([row[-1] for row in rows])
        positions = torch.tensor([len(row) - 1 for row in rows])
        hidden = decoder.step(last, positions)
        for i, row in enumerate(rows):
            expected = transformer(torch.tensor([row]))[0, -1]
            torch.testing.assert_close(hidden[i], expected, rtol=0, atol=1e-5)
        for i, row in enumerate(rows):
            token = int(torch.randint(1, VOCABULARY, (1,), generator=generator))
            over = len(row) == LENGTH or torch.rand(1, generator=generator) < 0.15
            rows[i] = [token] if over else [*row, token]


def test_prefill_stands_for_the_steps_it_replaces(transformer: CausalTransformer) -> None:
    ids = tokens(4)
    lengths = torch.tensor([3, 0, 8, 6])
    decoder = Decoder(transformer, 4)
    decoder.cache.fill_(100.0)
    decoder.prefill(ids.numpy(), lengths.numpy())
    rows = torch.arange(4)
    hidden = decoder.step(ids[rows, lengths], lengths)
    for i in range(4):
        expected = transformer(ids[i : i + 1, : lengths[i] + 1])[0, -1]
        torch.testing.assert_close(hidden[i], expected, rtol=0, atol=1e-5)


def test_without_dropout_training_and_evaluation_mode_agree_bit_for_bit() -> None:
    torch.manual_seed(1)
    network = CausalTransformer(VOCABULARY, LENGTH, WIDTH)
    ids = tokens(3)
    assert torch.equal(network.train()(ids), network.eval()(ids))


def test_dropout_acts_in_training_mode_only() -> None:
    torch.manual_seed(1)
    network = CausalTransformer(VOCABULARY, LENGTH, WIDTH, dropout=0.5)
    ids = tokens(3)
    assert not torch.equal(network.train()(ids), network(ids))
    assert torch.equal(network.eval()(ids), network(ids))


def test_width_must_divide_by_heads() -> None:
    with pytest.raises(ValueError, match="was 10 and 4"):
        CausalTransformer(VOCABULARY, LENGTH, 10, n_heads=4)

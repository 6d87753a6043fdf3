"""The same operators in plain torch, for CUDA: whole (R, S) float64 tensors instead of tiles.

Window statistics follow the walk of `kernels.blocks`, all blocks at once: the rows are laid out as
(m blocks, w bars, S stocks), prefixes are cumulative sums or maxima along the bars of a block,
suffixes the same backwards, and a window is merged from the suffix of one block and the prefix of the
next. Sums are of deviations from a member of the window, so nothing cancels and nothing leaks. Rank,
Med and Mad gather windows for as many rows at a time as `CHUNK_BYTES` holds. Memory is a multiple of
R · S and does not grow with the window. Definitions and missing values are those of the CPU kernels;
the bits may differ.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from rlgen.calculator.kernels import Span

CHUNK_BYTES = 2**28
NAN = float("nan")
INF = float("inf")


@dataclass(frozen=True)
class Blocks:
    """A span on a device: which row stands at which place of which block.

    Attributes:
        rows: (m, w) row of the tile, R (one past the end) where the block has none.
        block, place: (R,) where each row stands.
        fresh: (m, 1, 1) no suffix is known before this block.
        first: (R,) first row of each row's window.
        segment: (R,) first row of each row's segment.
    """

    window: int
    minimum: int
    rows: Tensor
    block: Tensor
    place: Tensor
    fresh: Tensor
    first: Tensor
    segment: Tensor

    @classmethod
    def lay(cls, span: Span, device: torch.device) -> Blocks:
        """Put a span on a device."""
        plan = torch.from_numpy(span.plan)
        n_rows = int(span.starts[-1])
        # No segment is longer than the tile, so longer windows need no longer blocks.
        width = min(span.window, int((plan[:, 2] - plan[:, 0]).max())) if len(plan) else 1
        rows = plan[:, :1] + torch.arange(width)
        present = (rows >= plan[:, 1:2]) & (rows < plan[:, 2:3])
        block, place = torch.nonzero(present, as_tuple=True)
        order = torch.argsort(rows[block, place])
        starts = torch.from_numpy(span.starts)
        segment = starts[torch.searchsorted(starts, torch.arange(n_rows), right=True) - 1].clamp(min=0)
        return cls(
            span.window,
            span.minimum,
            torch.where(present, rows, n_rows).to(device),
            block[order].to(device),
            place[order].to(device),
            plan[:, 3].bool().reshape(-1, 1, 1).to(device),
            torch.from_numpy(span.first).to(device),
            segment.to(device),
        )

    def split(self, x: Tensor) -> Tensor:
        """(R, S) as (m, w, S), missing where a block has no row."""
        padded = torch.cat([x, x.new_full((1, x.shape[1]), NAN)])
        return padded[self.rows]

    def join(self, y: Tensor) -> Tensor:
        """(m, w, S) as (R, S)."""
        return y[self.block, self.place]

    def before(self, suffix: Tensor, neutral: float) -> Tensor:
        """Suffixes (m, w, S) that start at each place, as those that complete each place's window."""
        later = torch.cat([suffix[:, 1:], suffix.new_full(suffix[:, :1].shape, neutral)], dim=1)
        before = torch.cat([later.new_full(later[:1].shape, neutral), later[:-1]])
        return torch.where(self.fresh, neutral, before)


def _finite(x: Tensor) -> Tensor:
    return torch.where(torch.isfinite(x), x, NAN)


def _backward_cumsum(x: Tensor) -> Tensor:
    return x.flip(1).cumsum(1).flip(1)


def _first_present(x: Tensor) -> Tensor:
    """(m, w, S): per block and stock the first present value, 0 if none, as (m, 1, S)."""
    place = (~x.isnan()).to(torch.uint8).argmax(1, keepdim=True)
    return x.gather(1, place).nan_to_num(nan=0.0)


@dataclass
class Sums:
    """Counts, shift and power sums of every window."""

    n: Tensor
    shift: Tensor
    powers: list[Tensor]


def _window_sums(blocks: Blocks, x: Tensor, order: int) -> Sums:
    """Σ(x − shift)^i for i = 1 … order, over every window of the blocks x (m, w, S)."""
    p = _first_present(x)
    q = _first_present(x.flip(1))
    forward = (x - p).nan_to_num(nan=0.0, posinf=INF, neginf=-INF)
    backward = (x - q).nan_to_num(nan=0.0, posinf=INF, neginf=-INF)
    present = (~x.isnan()).to(x.dtype)
    own = present.cumsum(1)
    m = blocks.before(_backward_cumsum(present), 0.0)
    # The suffix's shift belongs to the block before.
    q = torch.cat([torch.zeros_like(q[:1]), q[:-1]])
    shift = torch.where(own > 0, p, q)
    e = q - shift
    suffix = [m] + [blocks.before(_backward_cumsum(backward**i), 0.0) for i in range(1, order + 1)]
    powers = []
    for i in range(1, order + 1):
        moved = suffix[i]
        factor = torch.ones_like(e)
        binomial = 1
        for k in range(1, i + 1):
            factor = factor * e
            binomial = binomial * (i - k + 1) // k
            # Nothing to move where the distance is zero: 0 · inf would be missing.
            moved = moved + torch.where(e == 0, 0.0, binomial * factor * suffix[i - k])
        powers.append((forward**i).cumsum(1) + moved)
    return Sums(own + m, shift, powers)


def _extremes(blocks: Blocks, x: Tensor) -> Tensor:
    """The maximum of every window of the blocks, -inf where there is none."""
    filled = x.nan_to_num(nan=-INF)
    suffix = filled.flip(1).cummax(1).values.flip(1)
    return torch.maximum(filled.cummax(1).values, blocks.before(suffix, -INF))


def _is_constant(blocks: Blocks, x: Tensor) -> Tensor:
    return _extremes(blocks, x) == -_extremes(blocks, -x)


def _enough(blocks: Blocks, n: Tensor, value: Tensor) -> Tensor:
    return torch.where(n >= blocks.minimum, _finite(value), NAN)


def _moment(statistic: str) -> Callable[[Tensor, Blocks], Tensor]:
    order = {"Mean": 1, "Sum": 1, "Var": 2, "Std": 2, "Skew": 3, "Kurt": 4}[statistic]

    def kernel(x: Tensor, blocks: Blocks) -> Tensor:
        split = blocks.split(x)
        sums = _window_sums(blocks, split, order)
        n, s1 = sums.n, sums.powers[0]
        mean = s1 / n
        if order == 1:
            value = sums.shift + mean
            return blocks.join(_enough(blocks, n, value * n if statistic == "Sum" else value))
        s2 = sums.powers[1]
        variance = ((s2 - mean * s1) / (n - 1)).clamp(min=0)
        constant = _is_constant(blocks, split)
        if order == 2:
            value = torch.where(constant, 0.0, variance)
            return blocks.join(_enough(blocks, n, value.sqrt() if statistic == "Std" else value))
        s3 = sums.powers[2]
        pairs = (n - 1) * (n - 2)
        if order == 3:
            m3 = s3 - 3 * mean * s2 + 2 * n * mean**3
            value = n / pairs * m3 / (variance * variance.sqrt())
        else:
            m4 = sums.powers[3] - 4 * mean * s3 + 6 * mean**2 * s2 - 3 * n * mean**4
            value = n * (n + 1) / (pairs * (n - 3)) * m4 / variance**2
            value = value - 3 * (n - 1) ** 2 / ((n - 2) * (n - 3))
        return blocks.join(_enough(blocks, n, torch.where(constant, NAN, value)))

    return kernel


def _pair(correlation: bool) -> Callable[[Tensor, Tensor, Blocks], Tensor]:
    def kernel(x: Tensor, y: Tensor, blocks: Blocks) -> Tensor:
        both = ~(x.isnan() | y.isnan())
        xs = blocks.split(torch.where(both, x, NAN))
        ys = blocks.split(torch.where(both, y, NAN))
        sx = _window_sums(blocks, xs, 2)
        sy = _window_sums(blocks, ys, 2)
        n = sx.n
        cross = _window_products(blocks, xs, ys, sx.shift, sy.shift)
        a, b = sx.powers[0], sy.powers[0]
        cross = cross - a / n * b
        constant = _is_constant(blocks, xs) | _is_constant(blocks, ys)
        if not correlation:
            value = torch.where(constant, 0.0, cross / (n - 1))
        else:
            spread = (sx.powers[1] - a / n * a).sqrt() * (sy.powers[1] - b / n * b).sqrt()
            value = torch.where(constant, NAN, (cross / spread).clamp(-1, 1))
        return blocks.join(_enough(blocks, n, value))

    return kernel


def _window_products(blocks: Blocks, x: Tensor, y: Tensor, shift_x: Tensor, shift_y: Tensor) -> Tensor:
    """Σ(x − shift_x)(y − shift_y) over every window, about the shifts that `_window_sums` chose."""

    def zeros(d: Tensor) -> Tensor:
        return d.nan_to_num(nan=0.0, posinf=INF, neginf=-INF)

    px, py = _first_present(x), _first_present(y)
    qx, qy = _first_present(x.flip(1)), _first_present(y.flip(1))
    fx, fy, gx, gy = zeros(x - px), zeros(y - py), zeros(x - qx), zeros(y - qy)
    m = blocks.before(_backward_cumsum((~x.isnan()).to(x.dtype)), 0.0)
    a1 = blocks.before(_backward_cumsum(gx), 0.0)
    b1 = blocks.before(_backward_cumsum(gy), 0.0)
    product = blocks.before(_backward_cumsum(gx * gy), 0.0)
    d = torch.cat([torch.zeros_like(qx[:1]), qx[:-1]]) - shift_x
    e = torch.cat([torch.zeros_like(qy[:1]), qy[:-1]]) - shift_y
    moved = torch.where(m > 0, product + d * b1 + e * a1 + m * d * e, 0.0)
    return (fx * fy).cumsum(1) + moved


def _weighted(linear: bool) -> Callable[[Tensor, Blocks], Tensor]:
    def kernel(x: Tensor, blocks: Blocks) -> Tensor:
        split = blocks.split(x)
        width = split.shape[1]
        decay = 1.0 if linear else 1.0 - 2.0 / (blocks.window + 1.0)
        u = torch.arange(width, device=x.device, dtype=x.dtype).reshape(1, -1, 1)
        # Weights within a block: of a suffix by the distance to the block's end.
        backward = u if linear else decay ** (blocks.window - 1 - u)
        p, q = _first_present(split), _first_present(split.flip(1))
        present = (~split.isnan()).to(x.dtype)
        forward_d, backward_d = (split - p).nan_to_num(nan=0.0), (split - q).nan_to_num(nan=0.0)
        n = present.cumsum(1)
        m = blocks.before(_backward_cumsum(present), 0.0)
        suffix_weight = blocks.before(_backward_cumsum(present * backward), 0.0)
        suffix_total = blocks.before(_backward_cumsum(backward_d * backward), 0.0)
        if linear:
            weight = (present * u).cumsum(1) + (blocks.window - u) * n
            total = (forward_d * u).cumsum(1) + (blocks.window - u) * forward_d.cumsum(1)
            suffix_weight = suffix_weight - u * m
            suffix_total = suffix_total - u * blocks.before(_backward_cumsum(backward_d), 0.0)
        else:
            weight, total = torch.empty_like(split), torch.empty_like(split)
            w, a = torch.zeros_like(split[:, 0]), torch.zeros_like(split[:, 0])
            for k in range(width):
                w = w * decay + present[:, k]
                a = a * decay + forward_d[:, k]
                weight[:, k], total[:, k] = w, a
            suffix_weight = suffix_weight * decay ** (u + 1)
            suffix_total = suffix_total * decay ** (u + 1)
        q = torch.cat([torch.zeros_like(q[:1]), q[:-1]])
        shift = torch.where(n > 0, p, q)
        value = shift + (total + (suffix_total + suffix_weight * (q - shift))) / (weight + suffix_weight)
        return blocks.join(_enough(blocks, n + m, value))

    return kernel


def _extreme(sign: float, position: bool) -> Callable[[Tensor, Blocks], Tensor]:
    def kernel(x: Tensor, blocks: Blocks) -> Tensor:
        split = blocks.split(x * sign)
        present = (~split.isnan()).to(x.dtype)
        n = present.cumsum(1) + blocks.before(_backward_cumsum(present), 0.0)
        if not position:
            return blocks.join(_enough(blocks, n, _extremes(blocks, split) * sign))
        width = split.shape[1]
        filled = split.nan_to_num(nan=-INF)
        place = torch.arange(width, device=x.device, dtype=x.dtype).reshape(1, -1, 1)
        nothing = torch.full_like(filled[:, :1], -INF)
        prefix = filled.cummax(1).values
        # A prefix takes an equal newcomer as its record, a suffix only a strictly larger one.
        record = (filled >= torch.cat([nothing, prefix[:, :-1]], 1)) & (present > 0)
        prefix_place = torch.where(record, place, -1.0).cummax(1).values
        suffix = filled.flip(1).cummax(1).values.flip(1)
        record = filled > torch.cat([suffix[:, 1:], nothing], 1)
        suffix_place = -torch.where(record, -place, -INF).flip(1).cummax(1).values.flip(1)
        before = blocks.before(suffix, -INF)
        age_own = place - prefix_place
        age_before = place + blocks.window - blocks.before(suffix_place, 0.0)
        value = torch.where(prefix >= before, age_own, age_before)
        return blocks.join(_enough(blocks, n, value))

    return kernel


def _gathered(function: Callable[[Tensor, Tensor, int], Tensor]) -> Callable[[Tensor, Blocks], Tensor]:
    """A kernel that sees whole windows (rows, S, w), a chunk of rows at a time."""

    def kernel(x: Tensor, blocks: Blocks) -> Tensor:
        n_rows, n_stocks = x.shape
        width = blocks.rows.shape[1]
        padded = torch.cat([x, x.new_full((1, n_stocks), NAN)])
        chunk = max(1, CHUNK_BYTES // (8 * width * n_stocks))
        age = torch.arange(width, device=x.device)
        parts = []
        for low in range(0, n_rows, chunk):
            rows = torch.arange(low, min(low + chunk, n_rows), device=x.device).reshape(-1, 1)
            index = rows - age
            index = torch.where(index >= blocks.first[low : low + chunk].reshape(-1, 1), index, n_rows)
            windows = padded[index].transpose(1, 2)
            parts.append(function(windows, x[low : low + chunk], blocks.minimum))
        return torch.cat(parts)

    return kernel


def _rank(windows: Tensor, current: Tensor, minimum: int) -> Tensor:
    n = (~windows.isnan()).sum(2)
    smaller = (windows < current.unsqueeze(2)).sum(2)
    equal = (windows == current.unsqueeze(2)).sum(2)
    # A number times a whole-number tensor would be float32.
    value = (smaller + 0.5 * (equal + 1).double()) / n
    return torch.where((n >= minimum) & (equal > 0), value, NAN)


def _median(windows: Tensor, current: Tensor, minimum: int) -> Tensor:
    n = (~windows.isnan()).sum(2, keepdim=True)
    ordered = windows.nan_to_num(nan=INF).sort(2).values
    lower = ordered.gather(2, ((n - 1) // 2).clamp(min=0))
    upper = ordered.gather(2, (n // 2).clamp(max=windows.shape[2] - 1))
    value = torch.where(n % 2 == 1, lower, 0.5 * lower + 0.5 * upper)
    return torch.where(n >= minimum, _finite(value), NAN).squeeze(2)


def _mad(x: Tensor, blocks: Blocks) -> Tensor:
    mean = _moment("Mean")(x, blocks)

    def deviations(windows: Tensor, centre: Tensor, minimum: int) -> Tensor:
        return _finite((windows - centre.unsqueeze(2)).abs().nanmean(2))

    # `_gathered` hands each chunk its rows of x; here the rows of the mean are wanted.
    stacked = torch.cat([x, mean], dim=1)
    half = x.shape[1]
    return _gathered(lambda w, c, m: deviations(w[:, :half], c[:, half:], m))(stacked, blocks)


def _shift(change: bool) -> Callable[[Tensor, Blocks], Tensor]:
    def kernel(x: Tensor, blocks: Blocks) -> Tensor:
        rows = torch.arange(len(x), device=x.device)
        source = rows - blocks.window
        inside = (source >= blocks.segment).reshape(-1, 1)
        past = torch.where(inside, x[source.clamp(min=0)], NAN)
        return _finite(x - past) if change else past

    return kernel


def _operands(a: Tensor | float, b: Tensor | float) -> tuple[Tensor, Tensor]:
    """Both as float64 tensors of the same shape."""
    like = a if isinstance(a, Tensor) else b
    assert isinstance(like, Tensor)
    return tuple(x if isinstance(x, Tensor) else torch.full_like(like, x) for x in (a, b))  # type: ignore[return-value]


def _binary(function: Callable[[Tensor, Tensor], Tensor]) -> Callable[..., Tensor]:
    def kernel(a: Tensor | float, b: Tensor | float) -> Tensor:
        x, y = _operands(a, b)
        return torch.where(x.isnan() | y.isnan(), NAN, _finite(function(x, y)))

    return kernel


ELEMENTWISE: Mapping[str, Callable[..., Tensor]] = {
    "Abs": torch.abs,
    "Sign": lambda a: torch.where(a.isnan(), NAN, torch.sign(a)),
    "Log": lambda a: _finite(torch.where(a > 0, a, NAN).log()),
    "Add": _binary(torch.add),
    "Sub": _binary(torch.sub),
    "Mul": _binary(torch.mul),
    "Div": _binary(torch.div),
    "Pow": _binary(torch.pow),
    "Greater": _binary(torch.maximum),
    "Less": _binary(torch.minimum),
}

ROLLING: Mapping[str, Callable[..., Tensor]] = {
    "Ref": _shift(change=False),
    "Delta": _shift(change=True),
    "Mean": _moment("Mean"),
    "Sum": _moment("Sum"),
    "Var": _moment("Var"),
    "Std": _moment("Std"),
    "Skew": _moment("Skew"),
    "Kurt": _moment("Kurt"),
    "Max": _extreme(1.0, position=False),
    "Min": _extreme(-1.0, position=False),
    "ArgMax": _extreme(1.0, position=True),
    "ArgMin": _extreme(-1.0, position=True),
    "Rank": _gathered(_rank),
    "Med": _gathered(_median),
    "Mad": _mad,
    "WMA": _weighted(linear=True),
    "EMA": _weighted(linear=False),
    "Cov": _pair(correlation=False),
    "Corr": _pair(correlation=True),
}


def _members(x: Tensor, universe: Tensor) -> Tensor:
    return torch.where(universe, x, NAN)


def cross_section_rank(x: Tensor, universe: Tensor) -> Tensor:
    """Percentile with average ties among the bar's present members."""
    members = _members(x, universe)
    n = (~members.isnan()).sum(1, keepdim=True)
    ordered = members.nan_to_num(nan=INF).sort(1).values
    below = torch.searchsorted(ordered, members.contiguous())
    up_to = torch.searchsorted(ordered, members.contiguous(), right=True)
    return torch.where(members.isnan(), NAN, 0.5 * (below + up_to + 1).double() / n)


def cross_section_zscore(x: Tensor, universe: Tensor) -> Tensor:
    """Population z-score among the bar's present members; missing in a bar without spread."""
    members = _members(x, universe)
    present = ~members.isnan()
    low = torch.where(present, members, INF).amin(1, keepdim=True)
    high = torch.where(present, members, -INF).amax(1, keepdim=True)
    d = members - low
    d = d - d.nanmean(1, keepdim=True)
    spread = (d * d).nanmean(1, keepdim=True).sqrt()
    return torch.where(low < high, _finite(d / spread), NAN)


CROSS_SECTION: Mapping[str, Callable[[Tensor, Tensor], Tensor]] = {
    "CSRank": cross_section_rank,
    "CSZscore": cross_section_zscore,
}

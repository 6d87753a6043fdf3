"""AlphaPool: keeps and weighs the formulas that together predict the forward return.

1. `pool`: the surface, and the steps of an offer; `offer`: its answers.
2. `screen`: a candidate on its own. `members`: Gram matrix and trials. `weights`: the fits.
3. `objective`: what a signal is worth, the exact metric.
4. `values` (with `kernels`) and `gpu`: z-scores in memory and sums over cells.
5. `ledger` and `storage`: files, read as data.
"""

from rlgen.alphapool.ledger import Ledger, read_ledger
from rlgen.alphapool.objective import Worth
from rlgen.alphapool.offer import Member, Offer, Reason
from rlgen.alphapool.pool import AlphaPool
from rlgen.alphapool.storage import PoolFile, read_pool

__all__ = [
    "AlphaPool",
    "Ledger",
    "Member",
    "Offer",
    "PoolFile",
    "Reason",
    "Worth",
    "read_ledger",
    "read_pool",
]

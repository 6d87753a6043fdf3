"""Blocks are taken again, the budget holds, and what does not fit lies in files."""

from __future__ import annotations

import gc
import threading

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from rlgen.errors import RlgenError
from rlgen.memory import SMALL, Memory

MB = 2**20


def address(array):
    return array.__array_interface__["data"][0]


def test_a_block_is_taken_again_when_its_last_view_is_gone():
    memory = Memory(64 * MB)
    array = memory.empty((MB, 2), np.float32)
    place = address(array)
    view = torch.from_numpy(array)[100:200].numpy().T
    assert memory.in_use == 8 * MB
    del array
    gc.collect()
    assert memory.in_use == 8 * MB, "a view still reads it"
    del view
    gc.collect()
    assert (memory.in_use, memory.kept) == (0, 8 * MB)
    again = memory.empty(2 * MB - 5, np.float32)
    assert address(again) == place
    assert again.shape == (2 * MB - 5,)


def test_blocks_much_larger_than_wanted_are_not_taken():
    memory = Memory(64 * MB)
    del [memory.empty(16 * MB, np.uint8)][:]
    small = memory.empty(MB, np.uint8)
    assert memory.in_use == small.nbytes


def test_kept_blocks_make_room_before_anything_goes_to_a_file():
    memory = Memory(10 * MB)
    for size in (3, 4, 5, 6, 7, 8, 9):
        array = memory.empty(size * MB, np.uint8)
        array[:] = size
        del array
        assert memory.in_use + memory.kept <= 10 * MB
    assert memory.spilled == 0


def test_what_does_not_fit_lies_in_a_file(tmp_path):
    memory = Memory(4 * MB, tmp_path)
    first = memory.empty(3 * MB, np.uint8)
    second = memory.empty((MB // 2, 4), np.float64)
    second[:] = np.arange(2 * MB).reshape(second.shape)
    assert (memory.in_use, memory.spilled) == (3 * MB, 16 * MB)
    assert list(tmp_path.iterdir()) == [], "the file has no name"
    view = second[5:7].sum()
    assert view == np.arange(20, 28).sum()
    del first, second
    gc.collect()
    assert (memory.in_use, memory.spilled) == (0, 0)


def test_small_arrays_are_not_counted():
    memory = Memory(0)
    assert memory.empty(SMALL - 1, np.uint8).size == SMALL - 1
    assert (memory.in_use, memory.spilled) == (0, 0)


@given(st.lists(st.tuples(st.integers(1, 12), st.booleans()), max_size=30))
def test_the_budget_holds_and_arrays_keep_their_contents(wanted):
    memory = Memory(20 * SMALL)
    held = []
    for size, drop in wanted:
        array = memory.empty(size * SMALL, np.uint8)
        array[:] = len(held) % 251
        held.append((array, len(held) % 251))
        del array
        if drop:
            held.pop(0)
        assert memory.in_use + memory.kept <= memory.budget
        assert all((array == value).all() for array, value in held)


def test_threads_share_it():
    memory = Memory(8 * MB)
    wrong = []

    def work(number):
        for _ in range(50):
            array = memory.empty(MB, np.uint8)
            array[:] = number
            if not (array == number).all():
                wrong.append(number)
            del array

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
    assert memory.in_use == 0


def test_lasting_arrays_take_a_quarter_at_most():
    memory = Memory(16 * MB)
    kept = [memory.keep(MB, np.uint8) for _ in range(6)]
    assert (memory.in_use, memory.spilled) == (4 * MB, 2 * MB)
    del kept
    gc.collect()
    again = memory.keep(MB, np.uint8)
    assert again.size == MB
    assert memory.spilled == 0


def test_no_room_for_the_file_is_said(tmp_path):
    with pytest.raises(RlgenError, match="no file of 1 MB"):
        Memory(0, tmp_path / "absent").empty(MB, np.uint8)

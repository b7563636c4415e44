# SPDX-FileCopyrightText: The graphsafe_gg authors
# SPDX-License-Identifier: Apache-2.0
"""The file of recorded group sizes: round trip, every refusal."""

import numpy as np
import pytest

from graphsafe_gg.sizes_file import FORMAT, load_group_sizes, save_group_sizes

SIZES = np.array([[[4, 0, 2], [1, 3, 2]], [[2, 2, 0], [0, 0, 4]]])


def entries(**changes):
    good = {"format": FORMAT, "num_experts": 3, "top_k": 2, "group_sizes": SIZES}
    return {
        key: value for key, value in {**good, **changes}.items() if value is not None
    }


def test_sizes_file_round_trip(tmp_path):
    path = tmp_path / "sizes.npz"
    save_group_sizes(path, SIZES.astype(np.uint16), 2, model="tiny")
    recorded = load_group_sizes(path)
    np.testing.assert_array_equal(recorded.group_sizes, SIZES)
    assert recorded.group_sizes.dtype == np.int32
    assert (recorded.top_k, recorded.num_experts, recorded.model) == (2, 3, "tiny")
    assert recorded.num_tokens == 3


def test_sizes_file_model_is_optional(tmp_path):
    save_group_sizes(tmp_path / "sizes.npz", SIZES, 2)
    assert load_group_sizes(tmp_path / "sizes.npz").model is None


def test_sizes_file_save_keeps_the_name_it_was_given(tmp_path):
    save_group_sizes(tmp_path / "sizes", SIZES, 2)
    assert [path.name for path in tmp_path.iterdir()] == ["sizes"]


def test_sizes_file_first_cuts_steps_and_layers(tmp_path):
    save_group_sizes(tmp_path / "sizes.npz", SIZES, 2)
    cut = load_group_sizes(tmp_path / "sizes.npz").first(1, 1)
    np.testing.assert_array_equal(cut.group_sizes, SIZES[:1, :1])


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"format": None}, "has no entry 'format'"),
        ({"num_experts": None}, "has no entry 'num_experts'"),
        ({"top_k": None}, "has no entry 'top_k'"),
        ({"group_sizes": None}, "has no entry 'group_sizes'"),
        ({"format": "graphsafe_gg/group_sizes/2"}, "format must be .*/1'; got .*/2'"),
        ({"num_experts": 4}, "must have 4 experts, as num_experts says; got 3"),
        ({"num_experts": 3.0}, "num_experts must be one positive integer; got 3.0"),
        ({"top_k": 0}, "top_k must be one positive integer; got 0"),
        ({"top_k": [2, 2]}, "top_k must be one positive integer; got an array"),
        ({"top_k": 4}, "multiple of top_k = 4; got 6 at step 0, layer 0"),
        ({"group_sizes": SIZES[0]}, r"shape \(steps, layers, experts\).*got \(2, 3\)"),
        ({"group_sizes": SIZES[:0]}, "none of them 0"),
        ({"group_sizes": SIZES * 1.0}, "integer dtype; got float64"),
        ({"group_sizes": SIZES > 1}, "integer dtype; got bool"),
        ({"group_sizes": SIZES * 0}, "to more than 0 in some layer"),
        ({"group_sizes": SIZES * 2**31}, r"0 to 2\*\*31 - 1; got 8589934592 at step 0"),
        ({"group_sizes": np.full((1, 1, 3), 2**30)}, r"add up to less than 2\*\*31"),
        ({"group_sizes": SIZES - 1}, "got -1 at step 0, layer 0, expert 1"),
    ],
)
def test_sizes_file_errors(tmp_path, changes, text):
    path = tmp_path / "sizes.npz"
    np.savez(path, **entries(**changes))
    with pytest.raises(ValueError, match=rf"sizes\.npz: .*{text}"):
        load_group_sizes(path)


def test_sizes_file_errors_unsigned_overflow(tmp_path):
    path = tmp_path / "sizes.npz"
    np.savez(path, **entries(group_sizes=np.full((1, 1, 3), 2**64 - 2, np.uint64)))
    with pytest.raises(ValueError, match="got 18446744073709551614 at step 0"):
        load_group_sizes(path)


def write_text(path):
    path.write_text("step,layer,expert\n")


def write_truncated(path):
    np.savez(path, **entries())
    path.write_bytes(path.read_bytes()[:-40])


def write_damaged(path):
    np.savez_compressed(path, **entries(group_sizes=np.tile(SIZES, (50, 50, 1))))
    data = bytearray(path.read_bytes())
    middle = len(data) // 2
    data[middle : middle + 20] = bytes(20)
    path.write_bytes(data)


def write_array(path):
    with open(path, "wb") as file:
        np.save(file, SIZES)


def write_pickle(path):
    np.savez(path, **entries(group_sizes=np.array([{}, []], dtype=object)))


def write_empty(path):
    path.touch()


@pytest.mark.parametrize(
    "write",
    [
        write_text,
        write_truncated,
        write_damaged,
        write_array,
        write_pickle,
        write_empty,
    ],
)
def test_sizes_file_errors_not_an_npz(tmp_path, write):
    path = tmp_path / "sizes.npz"
    write(path)
    with pytest.raises(ValueError, match=r"sizes\.npz: not an npz file"):
        load_group_sizes(path)


def test_sizes_file_errors_unreadable(tmp_path):
    with pytest.raises(ValueError, match=r"cannot be read: No such file"):
        load_group_sizes(tmp_path / "none.npz")
    with pytest.raises(ValueError, match=r"cannot be read: Is a directory"):
        load_group_sizes(tmp_path)


@pytest.mark.parametrize(
    ("sizes", "top_k"), [(SIZES, 2), (SIZES * 1.5, None), (SIZES - 1, 2), ([1, 2], 2)]
)
def test_sizes_file_save_errors(tmp_path, sizes, top_k):
    if top_k == 2 and sizes is SIZES:
        top_k = 5
    with pytest.raises(ValueError, match="sizes"):
        save_group_sizes(tmp_path / "sizes.npz", sizes, top_k or 2)
    assert not list(tmp_path.iterdir())

# SPDX-FileCopyrightText: The graphsafe_gg authors
# SPDX-License-Identifier: Apache-2.0
"""csrc/kernels/publish.cu on the emulated device: the ticket of the early copy."""

import struct

import numpy as np
import pytest
from emulated import SEEDS

from graphsafe_gg import _testing

HEADER = struct.Struct("<4Q")  # stamp, checksum, bytes of the sizes, reserved
COUNT_BITS = 48
WORDS = 2**64


def checksum_term(value, word):
    """One term of the sum, as csrc/kernels/ticket.h defines it."""
    x = (value + 0x9E3779B97F4A7C15 * (word + 2)) % WORDS
    x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9 % WORDS
    x = (x ^ x >> 27) * 0x94D049BB133111EB % WORDS
    return x ^ x >> 31


def checksum_of(stamp, payload):
    words = np.frombuffer(payload, "<u4").tolist()
    terms = [checksum_term(value, word) for word, value in enumerate(words)]
    return (checksum_term(stamp, -1) + sum(terms)) % WORDS


@pytest.mark.parametrize("num_bytes", [0, 1, 2, 3, 4, 24, 255, 1024, 4 * 700])
def test_publish_copies_the_sizes_and_sums_them_up(num_bytes):
    sizes = np.random.default_rng(num_bytes).bytes(num_bytes)
    for seed in SEEDS:
        misalignment = seed % 3
        ticket = _testing.emulate_publish(sizes, misalignment, seed=seed)
        stamp, checksum, size_bytes, reserved = HEADER.unpack_from(ticket)
        payload = ticket[HEADER.size :]
        assert payload == sizes + bytes(-num_bytes % 4)
        assert checksum == checksum_of(stamp, payload)
        assert (size_bytes, reserved) == (num_bytes, 0)


def test_publish_draws_stamps_in_order_and_below_the_device():
    stamps = [
        HEADER.unpack_from(_testing.emulate_publish(b"abcd", ordinal=ordinal))[0]
        for ordinal in (0, 0, 3)
    ]
    counts = [stamp % 2**COUNT_BITS for stamp in stamps]
    assert counts == [counts[0], counts[0] + 1, counts[0] + 2]
    assert [stamp >> COUNT_BITS for stamp in stamps] == [0, 0, 3]

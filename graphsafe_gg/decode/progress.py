# SPDX-FileCopyrightText: The graphsafe_gg authors
# SPDX-License-Identifier: Apache-2.0
"""Progress on stderr: tqdm's bar where it is installed, else a plain counter.

Nothing is written unless stderr is a terminal, so that logs stay free of it.
"""

import contextlib
import sys
from collections.abc import Callable, Iterator


@contextlib.contextmanager
def progress(label: str, total: int) -> Iterator[Callable[[], None]]:
    """Yields a function that counts one unit of `total`."""
    if not sys.stderr.isatty():
        yield lambda: None
        return
    try:
        from tqdm import tqdm
    except ImportError:
        with _plain(label, total) as advance:
            yield advance
        return
    with tqdm(total=total, desc=label, file=sys.stderr, leave=False) as bar:

        def advance() -> None:
            bar.update()

        yield advance


@contextlib.contextmanager
def _plain(label: str, total: int) -> Iterator[Callable[[], None]]:
    count = 0

    def advance() -> None:
        nonlocal count
        count += 1
        print(f"\r{label}: {count}/{total}", end="", file=sys.stderr, flush=True)

    try:
        yield advance
    finally:
        print("\r\033[K", end="", file=sys.stderr, flush=True)

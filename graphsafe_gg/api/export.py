# SPDX-FileCopyrightText: The graphsafe_gg authors
# SPDX-License-Identifier: Apache-2.0
"""What jax.export must be told about the package's custom calls."""

from jax import export

from graphsafe_gg import _ffi


def export_safety_checks() -> list[export.DisabledSafetyCheck]:
    """The checks to disable when a program with calls of this package is exported.

    ``jax.export.export(jitted, disabled_checks=gg.export_safety_checks())(*args)``

    JAX vouches for its own custom calls only. These targets carry a version in their
    name: a program that was exported with another one is refused when it is loaded,
    and never runs on other operands. The process that loads it must have imported
    graphsafe_gg; call sites keep their ids, and get their names back where the same
    names are traced.
    """
    return [
        export.DisabledSafetyCheck.custom_call(target) for target in _ffi.target_names()
    ]

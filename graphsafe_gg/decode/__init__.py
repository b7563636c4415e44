# SPDX-FileCopyrightText: The graphsafe_gg authors
# SPDX-License-Identifier: Apache-2.0
"""The `graphsafe-gg decode` command: times and checks decode steps of MoE layers."""

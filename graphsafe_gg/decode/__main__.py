# SPDX-FileCopyrightText: The graphsafe_gg authors
# SPDX-License-Identifier: Apache-2.0
"""`python -m graphsafe_gg.decode` is `graphsafe-gg decode`."""

import sys

from graphsafe_gg.decode.cli import main

sys.exit(main(["decode", *sys.argv[1:]]))

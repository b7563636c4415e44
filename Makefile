# SPDX-FileCopyrightText: The graphsafe_gg authors
# SPDX-License-Identifier: Apache-2.0
# Each target makes the virtual environment and installs what it needs: Python >= 3.11, a C++
# compiler and make are enough. Variables:
#   PYTHON       interpreter to use (default: the newest suitable one)
#   GG_CUDA      compile the CUDA kernels: on, off, or auto (default): if a GPU works here
#   JAX          version of jax to test with (default: the newest that is allowed)
#   PYTEST_ARGS  more arguments of pytest
#   ARGS         arguments of graphsafe-gg decode

VENV ?= .venv
GG_CUDA ?= auto
JAX ?=
PYTEST_ARGS ?=
ARGS ?=

python = $$(PYTHON='$(PYTHON)' sh scripts/find_python.sh)
install = python=$(python) && "$$python" scripts/install.py --env $(VENV) --cuda $(GG_CUDA)

cxx_sources = $$(find csrc tests benchmarks -name '*.cc' -o -name '*.h' -o -name '*.cu' -o -name '*.cuh')

.PHONY: help install decode test test-graph gpu-wheel lint format clean

help:
	@sed -n 's/^#   /  /p' Makefile; echo "Targets: install decode test test-graph gpu-wheel lint format clean"

install:
	@$(install)

decode:
	@$(install)
	@$(VENV)/bin/graphsafe-gg decode $(ARGS)

test:
	@$(install) --extras test --testing --jax '$(JAX)'
	@$(VENV)/bin/pytest $(PYTEST_ARGS)

# The tests that compile for a GPU without one; installs jax's CUDA plugin, twice 0.7 GB.
test-graph:
	@PYTHON='$(PYTHON)' bash .ci/graph

# For the GPU machine: stable ABI of Python 3.12, kernels of CUDA 13.0.
gpu-wheel:
	@python=$$(PYTHON='$(PYTHON)' sh scripts/find_python.sh 3.12) && \
	  "$$python" scripts/install.py --cuda on --exact-nvcc --wheel-dir dist

lint:
	@$(install) --extras lint,test
	@$(VENV)/bin/ruff check .
	@$(VENV)/bin/ruff format --check .
	@$(VENV)/bin/pyright --pythonpath $(VENV)/bin/python
	@$(VENV)/bin/clang-format --dry-run -Werror $(cxx_sources)

format:
	@$(install) --extras lint,test
	@$(VENV)/bin/ruff check --fix .
	@$(VENV)/bin/ruff format .
	@$(VENV)/bin/clang-format -i $(cxx_sources)

clean:
	rm -rf build dist .venv .venv-*

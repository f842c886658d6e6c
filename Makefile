# Every target sets up what it needs; a fresh machine needs only Python 3.10 or newer and make.
#   make test PYTHON=python3.12                another interpreter
#   make test PYTEST_ARGS="-m 'not slow' -x"   more arguments for pytest
PYTHON ?= python3
VENV ?= .venv
WORKERS ?= 2
PYTEST_ARGS ?=

BIN := $(VENV)/bin
INSTALL := $(BIN)/python -m pip install --quiet --constraint constraints.txt
READY := $(VENV)/ready
PINS := constraints.txt pyproject.toml

# What `make paper` runs, quickest first: hours each. Another choice: make paper STUDIES=synthetic
STUDIES ?= synthetic snippets table1-lm-small table1-vit table1-sentiment table1-lm-xl

# Independent second opinions for tests/oracles. Their metadata asks for torchvision, which nothing
# here uses, so they are installed without their dependencies.
WITNESSES := curvlinops-for-pytorch backpack-for-pytorch einconv einops jaxtyping linear_operator \
	opt_einsum unfoldNd wadler_lindig

# One thread per test worker: two workers with a thread pool each only get in each other's way.
ONE_THREAD := OMP_NUM_THREADS=1 MKL_NUM_THREADS=1
PYTEST := $(ONE_THREAD) $(BIN)/python -m pytest

.DEFAULT_GOAL := help
.PHONY: help demo test check format docs bench-env test-peers paper bench-memory bench-conditioning clean

help: ## show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "make %-18s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: $(READY)/demo ## fine-tune MiniLM on real texts, find its uncertainty, and the page (under 5 minutes)
	$(BIN)/regvar demo

test: $(READY)/dev ## run all tests, the docstrings' examples and the pages' examples
	$(PYTEST) -n $(WORKERS) --dist worksteal $(PYTEST_ARGS)
	$(PYTEST) -q --doctest-modules src || test $$? -eq 5 # 5: nothing to run

check: $(READY)/dev ## lint, format, types, import layers, sizes
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright --pythonpath $(BIN)/python
	$(BIN)/lint-imports
	$(BIN)/python tools/size_budget.py
	$(BIN)/python tools/pages.py --check

format: $(READY)/dev ## let ruff repair what it can
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

docs: $(READY)/docs ## build the pages into site/, strictly
	$(BIN)/python tools/docs_coverage.py
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

bench-env: $(READY)/peers ## install laplace-torch beside us, to compare with

test-peers: $(READY)/peers ## the agreement with laplace-torch, and its adapter's contract
	$(PYTEST) -n $(WORKERS) tests/equivalence
	$(PYTEST) -n $(WORKERS) tests/contracts -k kfac

paper: $(READY)/bench ## build the records of all experiments that are missing, then their pages
	for study in $(STUDIES); do $(BIN)/regvar run $$study --out records || exit; done
	$(BIN)/python tools/pages.py

bench-memory: $(READY)/bench ## peak memory on SmolLM2-135M (about ten minutes)
	$(BIN)/python benchmarks/memory.py
	$(BIN)/python tools/pages.py

bench-conditioning: $(READY)/bench ## conjugate gradients on MiniLM (about half an hour)
	$(BIN)/python benchmarks/conditioning.py
	$(BIN)/python tools/pages.py

clean: ## remove everything built; the environment stays (rm -r .venv starts that over)
	rm -rf site dist build demo_output .pytest_cache .ruff_cache .hypothesis .import_linter_cache
	find src tests tools -name __pycache__ -type d -prune -exec rm -rf {} +

# --- set-up: a stamp file each, renewed when the pins or the dependencies change -----------------

$(READY)/core: $(PINS)
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10) and "regvar needs Python 3.10 or newer: make PYTHON=... ")'
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(INSTALL) torch
	$(INSTALL) hatchling editables
	@mkdir -p $(READY)
	@touch $@

$(READY)/demo: $(READY)/core
	$(INSTALL) --no-build-isolation --editable '.[bench,hf]'
	@touch $@

$(READY)/dev: $(READY)/core
	$(INSTALL) --no-build-isolation --editable '.[bench,hf,dev]'
	$(INSTALL) --no-deps $(WITNESSES)
	@touch $@

# laplace-torch asks for torchvision too, and does without.
$(READY)/peers: $(READY)/dev
	$(INSTALL) --no-deps laplace-torch asdfghjkl
	@touch $@

$(READY)/bench: $(READY)/core
	$(INSTALL) --no-build-isolation --editable '.[bench,hf,weights]'
	@touch $@

$(READY)/docs: $(READY)/core
	$(INSTALL) --no-build-isolation --editable '.[bench,docs]'
	@touch $@

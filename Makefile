# The task menu of gputop. Each target makes its own .venv; `make` alone prints the menu.
SHELL := /bin/sh
.DEFAULT_GOAL := menu
.NOTPARALLEL:

BIN := .venv/bin
PYTEST := $(BIN)/python -m pytest
# in the order of the folders: the longest tests, of acts on real machines, begin first
PARALLEL := -n auto --maxprocesses 8 --dist loadfile --no-loadscope-reorder
ARGS ?=

.PHONY: menu
menu: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-14s %s\n", $$1, $$2}' Makefile

.PHONY: run-env dev-env
run-env:
	@sh scripts/venv.sh run
dev-env:
	@sh scripts/venv.sh dev

.PHONY: demo
demo: run-env ## the demo fleet on the real screen (a table where there is no terminal)
	@$(BIN)/gputop demo $(ARGS)

.PHONY: test
test: dev-env ## every test; one: make test ARGS='-k words'
	@$(PYTEST) $(PARALLEL) $(ARGS)

.PHONY: check
check: format-check lint types contracts docs-check test ## everything a change must pass

.PHONY: format
format: dev-env ## rewrite the code in the project's format
	@$(BIN)/ruff format .
	@$(BIN)/ruff check --fix --select I .

.PHONY: format-check
format-check: dev-env
	@$(BIN)/ruff format --check --quiet --diff .

.PHONY: lint
lint: dev-env ## ruff, and Python 3.6 for the agent
	@$(BIN)/ruff check --quiet .
	@$(BIN)/vermin --quiet --no-tips --violations --eval-annotations -t=3.6- gputop/remote

.PHONY: types
types: dev-env ## mypy, strict
	@$(BIN)/mypy --no-error-summary

.PHONY: contracts
contracts: dev-env ## who may import whom
	@$(BIN)/lint-imports --no-cache

.PHONY: docs
docs: dev-env ## rewrite the generated parts of docs/
	@$(BIN)/python scripts/gen_docs.py

.PHONY: docs-check
docs-check: dev-env ## fail where docs/ is not what the code says
	@$(BIN)/python scripts/gen_docs.py --check

.PHONY: pictures
pictures: run-env ## take the README's pictures of the screen anew
	@sh scripts/pictures.sh

.PHONY: golden
golden: dev-env ## accept the screens as they are now (look at the diff before you commit)
	@$(PYTEST) $(PARALLEL) --snapshot-update tests/golden $(ARGS)

.PHONY: bench
bench: dev-env ## measure gputop itself against its targets
	@$(BIN)/python -m benchmarks $(ARGS)

.PHONY: gpu-check
gpu-check: ## check the agent on this machine's NVIDIA GPUs (no network, 3 minutes; see docs/accuracy.md)
	@python=python3; [ -x $(BIN)/python ] && python=$(BIN)/python; \
	$$python -c 'import pynvml' 2>/dev/null || \
	{ echo "needs nvidia-ml-py; or carry one file here: scripts/gpu_check --pack gpu-check.pyz"; exit 1; }; \
	$$python scripts/gpu_check $(ARGS)

.PHONY: services
services: ## install what the tests against real services need (Debian, Ubuntu)
	@sh scripts/services.sh

.PHONY: clean
clean: ## remove .venv and every cache
	@rm -rf .venv .venv-services build dist .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +

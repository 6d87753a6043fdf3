# What a user and a developer run. Needs make, git and Python 3.11 or newer; the rest goes into .venv.
# Everything is installed once and again only when pyproject.toml or constraints.txt changed.

PYTHON ?=
VENV ?= .venv
CONFIG ?= configs/demo.yaml
OUT ?= runs/$(basename $(notdir $(CONFIG)))
ARGS ?=
PIP_OPTIONS ?=

PY := $(VENV)/bin/python
PIP := $(PY) -m pip install --disable-pip-version-check --quiet $(PIP_OPTIONS) --constraint constraints.txt
STAMP := $(VENV)/.installed
NEEDED := pyproject.toml constraints.txt

.DEFAULT_GOAL := help
.PHONY: help install train test test-all check format bench docs clean
.DELETE_ON_ERROR:

help: ## list these targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | sort | \
	while IFS="$$(printf '\t')" read -r target text; do printf '  make %-10s %s\n' "$$target" "$$text"; done

install: $(STAMP) ## make .venv and install rlgen there

train: $(STAMP) ## train on the demo (CONFIG=configs/us_1min.yaml OUT=runs/us ARGS="--training.seed 3")
	$(PY) scripts/rlgen_train.py --config $(CONFIG) --out $(OUT) $(if $(wildcard $(OUT)/config.yaml),--resume) $(ARGS)

test: $(STAMP)-test ## the tests, 6 minutes at most on two cores
	$(PY) -m pytest $(ARGS)

test-all: $(STAMP)-test ## the slow rest of the tests, 20 minutes at most
	$(PY) -m pytest -m slow $(ARGS)

check: $(STAMP)-check ## formatting, lint, types
	$(PY) -m ruff format --check .
	$(PY) -m ruff check .
	$(PY) -m mypy rlgen data_adapters scripts

format: $(STAMP)-check ## format the code, and repair what the linter can
	$(PY) -m ruff format .
	$(PY) -m ruff check --fix .

bench: $(STAMP)-bench ## the benchmarks
	@for file in $$(grep -l __main__ benchmarks/*.py); do \
	  module=benchmarks.$$(basename $$file .py); \
	  echo "== $$module"; $(PY) -m $$module $(ARGS) || exit 1; done

docs: $(STAMP) ## write the generated pages anew
	$(PY) -m rlgen.document_config
	$(PY) -m rlgen.expression.document > docs/operators.md.new
	mv docs/operators.md.new docs/operators.md

clean: ## remove everything that was made, runs apart
	rm -rf $(VENV) build *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis .benchmarks
	find . -name __pycache__ -type d -not -path './.git/*' -prune -exec rm -rf {} +

$(PY):
	sh scripts/make_venv.sh $(VENV) $(PYTHON)

$(STAMP): $(NEEDED) | $(PY)
	@echo "installing rlgen into $(VENV); the first time takes some minutes"
	$(PIP) --editable .
	@touch $@

$(STAMP)-%: $(NEEDED) $(STAMP)
	$(PIP) --editable '.[$*]'
	@touch $@

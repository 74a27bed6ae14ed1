# One command each; `make help` lists them. PYTHON may name another interpreter.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: help install test test-all matrix mutants lint format bench docs release ci

help: ## show this list
	@sed -nE 's/^([a-z-]+):.*## (.*)/\1	\2/p' Makefile | expand -t 12

install: $(BIN)/pytest ## create .venv with all dependencies

$(BIN)/pytest:
	$(PYTHON) -m venv .venv
	$(BIN)/pip install -q -e '.[dev]'

test: install ## run the fast tests: no Spark, no Java
	$(BIN)/pytest -n 2 --dist worksteal -m "not spark and not matrix and not long"

test-all: install ## run all tests except the matrix, with more random inputs than plain pytest has
	TICDC_ASSETS_DELIVERIES=2000 TICDC_ASSETS_HOSTILE_INPUTS=100000 \
		$(BIN)/pytest -n 2 --dist worksteal -m "not matrix"

matrix: install ## run every recorded variant and seed through Spark and Iceberg (long)
	TICDC_ASSETS_FIXTURES=$${TICDC_ASSETS_FIXTURES:-../shared/fixtures} $(BIN)/pytest -n 2 --dist worksteal -m matrix

COUNT ?= 120
SEED ?= 0
MINUTES ?= 60
WITHIN ?=

mutants: install ## test COUNT mutants of the code, which the fast tests must notice (needs Python 3.12: PYTHON=python3.13)
	nice $(BIN)/python -m ticdc_assets_tests.mutants --count $(COUNT) --seed $(SEED) --minutes $(MINUTES) \
		--within "$(WITHIN)"

lint: install ## check style, types, the direction of imports, and the budgets of lines
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/pytest -q ticdc_assets_tests/test_budgets.py ticdc_assets_tests/test_layers.py

format: install ## format the code
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

EVENTS ?= 1000000

bench: install ## measure speed and memory; BENCH names a folder of recorded streams, EVENTS=100000 is short
	$(BIN)/python -m ticdc_assets_tests.bench $(BENCH) --events $(EVENTS)

docs: install ## make a site of the pages in build/site, and fail where a link leads nowhere
	$(BIN)/pip install -q -e '.[docs]'
	$(BIN)/mkdocs build

release: install ## build the release of the commit into dist/, twice with equal hashes, and install it
	$(BIN)/pip install -q -e '.[release]'
	.ci/release dist

ci: ## run all checks that a change must pass
	.ci/run

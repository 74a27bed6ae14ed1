# One command each; `make help` lists them. PYTHON may name another interpreter.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: help install test test-all matrix lint format bench ci

help: ## this list
	@sed -nE 's/^([a-z-]+):.*## (.*)/\1	\2/p' Makefile | expand -t 12

install: $(BIN)/pytest ## .venv with everything for developing

$(BIN)/pytest:
	$(PYTHON) -m venv .venv
	$(BIN)/pip install -q -e '.[dev]'

test: install ## the fast tests: no Spark, no Java
	$(BIN)/pytest -n 2 --dist worksteal -m "not spark and not matrix"

test-all: install ## all tests but the matrix
	$(BIN)/pytest -n 2 --dist worksteal

matrix: install ## every variant and seed of the fixtures through Spark and Iceberg; takes long
	$(BIN)/pytest -n 2 --dist worksteal -m matrix

lint: install ## style, types, and the direction of imports
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports

format: install ## mend style
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

bench: install ## rows a second on this machine; BENCH names a folder of recorded streams
	$(BIN)/python -m ticdc_assets_tests.bench.storage $(BENCH)
	$(BIN)/python -m ticdc_assets_tests.bench.messages $(BENCH)

ci: ## what decides whether a change lands
	.ci/run

# Every target makes what it needs: the virtual environment .venv, and in it the packages of one extra of pyproject.toml.
# A stamp in .venv records that an extra is installed; it is made anew when pyproject.toml changes.

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
export PIP_DISABLE_PIP_VERSION_CHECK := 1
export NO_MKDOCS_2_WARNING := 1

.DEFAULT_GOAL := help
.PHONY: help kernels wheel run watch test quick soak mutants thorough systems redis postgres chromium lint bench docs lowest highest clean

help: ## Show this list
	@grep -hE '^[a-z]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{ printf "  make %-8s %s\n", $$1, $$2 }'

run: $(VENV)/.installed-demo ## See it at work: a streaming query on Spark over the power readings of a house
	$(BIN)/muntin demo

watch: $(VENV)/.installed-demo ## See it live: readings that keep coming, Spark streaming, and the page, until Ctrl-C
	$(BIN)/muntin demo --live

test: $(VENV)/.installed-test redis postgres chromium ## Run all tests and doctests
	$(BIN)/python -m pytest

quick: $(VENV)/.installed-test ## Run what takes a minute: plain kernels, few random examples, no Spark, no servers
	MUNTIN_QUICK=1 $(BIN)/python -m pytest -m 'not slow' tests

soak: $(VENV)/.installed-test ## Run pipelines that fail at any moment, for MINUTES=10 or RUNS=10000, from SEED=1 on or any other
	$(BIN)/python tools/soak.py $(if $(MINUTES),--minutes $(MINUTES)) $(if $(RUNS),--runs $(RUNS)) $(if $(SEED),--seed $(SEED))

mutants: $(VENV)/.installed-test ## Change the package in N=50 small ways, of SEED=1, and see that tests notice each
	$(BIN)/python tools/mutants.py $(if $(N),--count $(N)) $(if $(SEED),--seed $(SEED)) $(if $(JOBS),--jobs $(JOBS))

thorough: $(VENV)/.installed-test redis postgres chromium ## Run all tests, those of memory too, with fifteen times as many random examples
	MUNTIN_THOROUGH=5 $(BIN)/python -m pytest

lowest: .venv-lowest/.installed redis ## Run a sample of the tests with the lowest versions that pyproject.toml allows
	$(call SAMPLE,$(<D))

highest: .venv-highest/.installed redis ## Run the same sample with the highest versions
	$(call SAMPLE,$(<D))

# What is quick, and what meets the packages that the quick tests leave out: numba, Redis, Spark as batch and as stream.
SAMPLE = MUNTIN_QUICK=1 $(1)/bin/python -m pytest -m 'not slow' tests \
	  && $(1)/bin/python -m pytest -n 2 -k 'not connect' tests/stores/test_stores.py tests/arrays/test_warm.py \
	    tests/spark/test_awkward.py tests/spark/test_batch.py tests/test_imports.py

# Delta and Iceberg have no release for the newest Spark: these tests have an environment of their own.
JARS = io.delta:delta-spark_4.1_2.13:4.4.0 io.delta:delta-storage:4.4.0 \
	org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.12.0

systems: .venv-systems/.installed .systems/.fetched ## Run upsert into Delta and Iceberg, with their jars from Maven and PySpark 4.1
	MUNTIN_SYSTEMS=1 .venv-systems/bin/python -m pytest -n 0 tests/systems

.systems/.fetched: Makefile
	@command -v mvn >/dev/null || { echo "make systems fetches jars by Maven, and there is no mvn here" >&2; exit 1; }
	@for jar in $(JARS); do \
	  mvn --quiet --batch-mode dependency:copy -Dartifact=$$jar -DoutputDirectory=$(CURDIR)/.systems/jars \
	    || { echo "make systems cannot fetch $$jar by Maven" >&2; exit 1; }; done
	@touch $@

.venv-systems/.installed: pyproject.toml
	$(PYTHON) -m venv .venv-systems
	.venv-systems/bin/pip install --quiet --editable '.[spark]' 'pyspark>=4.1,<4.2' 'hypothesis>=6.100,<7' \
	  'pytest>=8.2,<10' 'pytest-randomly>=3.15,<6' 'pytest-xdist>=3.6.1,<4'
	@touch $@

# The store Redis is tested with a real server, and the live page in a real browser: found, or installed where that is
# allowed. Without them those tests fail.
APT = apt-get install --yes --quiet --no-install-recommends $(1)
INSTALLED = command -v $(1) >/dev/null \
	  || { [ "$$(id -u)" = 0 ] && $(APT); } || { [ "$$(id -u)" = 0 ] && apt-get update --quiet && $(APT); } \
	  || sudo --non-interactive $(APT) \
	  || echo "$(1) is missing and cannot be installed here: the tests of $(2) will fail" >&2

redis:
	@$(call INSTALLED,redis-server,the Redis store)

postgres:
	@ls /usr/lib/postgresql/*/bin/postgres >/dev/null 2>&1 || { $(call INSTALLED,postgresql,features in PostgreSQL); }

chromium:
	@$(call INSTALLED,chromium,the live page)

kernels: $(VENV)/.installed-lint ## Compile what all queries share into the package, so that first answers are quick
	$(BIN)/python tools/ship_kernels.py

wheel: kernels ## Build a wheel into dist/, with these kernels in it
	$(BIN)/python -m pip wheel --quiet --no-deps --wheel-dir dist .

lint: $(VENV)/.installed-lint ## Check style, formatting, types and layers
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: $(VENV)/.installed-bench kernels ## Measure against bottleneck, polars, pandas, numbagg and DuckDB
	$(BIN)/python benchmarks/run.py

docs: $(VENV)/.installed-docs ## Run the code of the documentation, and build it into site/
	$(BIN)/python tools/check_docs.py
	$(BIN)/mkdocs build --strict --quiet
	$(BIN)/python tools/check_site.py
	@echo "The documentation is in site/index.html"

clean: ## Delete the virtual environment and everything built
	rm -rf $(VENV) .venv-lowest .venv-highest site dist build .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 15))' 2>/dev/null \
	  || { echo "muntin needs Python 3.11 to 3.14, and $(PYTHON) is $$($(PYTHON) --version 2>&1): try make PYTHON=python3.12" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)

# One rule for all extras. Two pips at once would break the environment, so that `make -j` is not for here.
.NOTPARALLEL:
$(VENV)/.installed-%: pyproject.toml | $(VENV)/bin/python
	$(BIN)/python -m pip install --quiet --editable '.[$*]'
	@touch $@

# Environments of their own, beside .venv.
.venv-lowest/.installed: pyproject.toml tools/lowest.py
	rm -rf $(@D) && $(PYTHON) -m venv $(@D)
	$(PYTHON) tools/lowest.py test > $(@D)/lowest.txt
	$(@D)/bin/python -m pip install --quiet --constraint $(@D)/lowest.txt --editable '.[test]'
	@touch $@

# The extra spark holds pandas back; whoever has no Spark has its next major version.
.venv-highest/.installed: pyproject.toml
	rm -rf $(@D) && $(PYTHON) -m venv $(@D)
	$(@D)/bin/python -m pip install --quiet --editable '.[test]'
	$(@D)/bin/python -m pip install --quiet --upgrade --upgrade-strategy eager --editable '.[pandas]'
	@touch $@

# Every target makes or completes .venv from the locks of the layers it needs (tools/setup.py).
# A machine needs Python 3.11+ and make; only the interop tests need more (a JDK and Maven, and
# Go and Node for their clients).

PYTHON ?= python3
LAYERS ?= server dev
UPGRADE ?=

BIN := .venv/bin
SETUP = @$(PYTHON) -m tools setup

export PYTHONUNBUFFERED := 1

.DEFAULT_GOAL := help
.PHONY: help setup run demo test test-spark-oldest lint fmt interop interop-full bench docs lock clean

define HELP
make setup         complete .venv (LAYERS="server dev"; further layers: spark, lake, connect, docs)
make run           start a name server (9876) and a broker (10911)
make demo          the whole journey: produce → broker → Spark → Parquet
make test          all tests that need only Python and what PyPI carries
make test-spark-oldest  those of Spark, on the oldest PySpark that is supported
make lint          ruff, mypy and the import rules
make fmt           format the code, mend what ruff can mend
make interop       the official software against EmberQ, CI's part (needs a JDK and Maven)
make interop-full  the same, the whole matrix
make bench         the benchmarks (PART=store, scenarios, timers, transactions, client, client_soak, spark, spark.kafka)
make docs          build the documentation into site/, every link checked
make lock          requirements/*.lock from pyproject.toml (UPGRADE=1: newest versions)
make clean         remove .venv, caches and everything built
make help          this table

PYTHON=/path/to/python3.12 chooses the Python that .venv is made with.
endef

help:
	@: $(info $(HELP))

setup:
	$(SETUP) $(LAYERS)

run:
	$(SETUP) server
	@$(BIN)/emberq standalone

demo:
	$(SETUP) server spark
	@$(BIN)/python -m emberq.testing.demo $(ARGS)

# The store's tests run with both twins of the kernel where there are two.
TWIN_TESTS = tests/unit/kernel tests/unit/record tests/unit/store \
	$(wildcard tests/property/test_*kernel* tests/property/test_*store* tests/property/test_*log*) \
	tests/property/test_key_index.py tests/property/test_spark_decoders.py
PYTEST = $(BIN)/python -m pytest -n auto --maxprocesses=4 --dist=worksteal

# Two to four workers: enough to hide waiting, few enough that deadlines hold on small machines.
# Spark's tests share one session, so they run in one process.
test:
	$(SETUP) server dev s3 spark lake connect
	$(PYTEST) --ignore=tests/interop --ignore=tests/spark $(ARGS)
	$(if $(ARGS),,$(BIN)/python -m pytest tests/spark)
	@if ls src/emberq/kernel/compiled.*.so >/dev/null 2>&1; then \
		echo "once more with the pure kernel:"; EMBERQ_PURE=1 $(PYTEST) $(TWIN_TESTS); fi

# An environment of its own: one holds one PySpark.
test-spark-oldest: export EMBERQ_VENV := .venv-spark-oldest
test-spark-oldest:
	$(SETUP) server dev s3 spark-oldest
	$(EMBERQ_VENV)/bin/python -m pytest tests/spark $(ARGS)

lint:
	$(SETUP) server dev spark lake
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

fmt:
	$(SETUP) dev
	$(BIN)/ruff check --fix-only .
	$(BIN)/ruff format .

interop:
	@$(PYTHON) -m tools interop

interop-full:
	@$(PYTHON) -m tools interop --full

bench:
	$(SETUP) server dev $(if $(filter client,$(PART)),bench) $(if $(filter spark%,$(PART)),spark)
	$(BIN)/python -m benchmarks$(if $(PART),.$(PART)) $(ARGS)

# A fresh environment each time: Sphinx warns about a page only in the run that reads it.
docs:
	$(SETUP) docs
	$(BIN)/sphinx-build --fresh-env --fail-on-warning --keep-going --nitpicky --quiet -c tools/docs . site
	@echo "open site/index.html"

lock:
	@$(PYTHON) -m tools lock $(if $(UPGRADE),--upgrade)

clean:
	rm -rf .venv .venv-spark-oldest build dist site src/*.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find src -name '*.pyx' | while read f; do rm -f "$${f%.pyx}.c" "$${f%.pyx}".*.so; done
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# make demo: from a fresh clone to the first result. make test: everything the tests need, then the tests.

PYTHON ?= python3
VENV ?= .venv
DEMO_SECONDS ?= 60
# What is installed for the tests. EXTRAS=dev,gpu adds torch and Triton, without which their tests skip.
EXTRAS ?= dev

.PHONY: demo test test-all check clean

demo: $(VENV)/.installed
	$(VENV)/bin/evolve run q4_matvec_cpu --set caps.seconds=$(DEMO_SECONDS)

test: $(VENV)/.installed-dev
	$(VENV)/bin/python -m pytest

test-all: $(VENV)/.installed-dev
	$(VENV)/bin/python -m pytest -m ''

check: $(VENV)/.installed-dev
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/mypy

judge-report: $(VENV)/.installed-dev
	$(VENV)/bin/python -m benchmarks.judge_report

clean:
	rm -rf $(VENV) build dist

$(VENV)/bin/python:
	@command -v g++ >/dev/null || { echo "error: g++ is missing: apt-get install g++" >&2; exit 2; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	    || { echo "error: $(PYTHON) is older than 3.11: make PYTHON=python3.11" >&2; exit 2; }
	@$(PYTHON) -c 'import ensurepip' 2>/dev/null \
	    || { echo "error: $(PYTHON) cannot make environments: apt-get install python3-venv" >&2; exit 2; }
	$(PYTHON) -m venv $(VENV)

$(VENV)/.installed: $(VENV)/bin/python pyproject.toml
	$(VENV)/bin/python -m pip install --quiet --no-compile --disable-pip-version-check --editable .
	@touch $@

$(VENV)/.installed-dev: $(VENV)/bin/python pyproject.toml
	$(VENV)/bin/python -m pip install --quiet --no-compile --disable-pip-version-check --constraint constraints-cpu.txt --editable '.[$(EXTRAS)]'
	@touch $@

# Everything from a clean checkout with Python >= 3.11 and make; Node.js for building comes from PyPI.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
EVIDENCE := $(VENV)/.installed-evidence
DEMO_INSTALLED := $(VENV)/.installed-demo
TYPECHECK := labextension/typecheck
NODE_TESTS := tests/node
SOURCES := pyproject.toml $(shell find labextension/src labextension/style labextension/schema labextension/package.json cumulus_jupyter/jupyter/panels.css -type f 2>/dev/null)

.PHONY: demo test test-all test-long check lab bench clean

demo: $(DEMO_INSTALLED)
	$(BIN)/python notebooks/run_demo.py

lab: $(DEMO_INSTALLED)
	$(BIN)/jupyter lab notebooks $(if $(filter 0,$(shell id -u)),--allow-root)

test: check
	$(BIN)/python -m pytest -m "not long and not browser" -n 2 --dist worksteal
	$(BIN)/python -m pytest -m "not long and browser"
	rm -rf build/nbval && mkdir -p build/nbval && cp notebooks/*.ipynb notebooks/*.csv build/nbval
	$(BIN)/python -m pytest --nbval-lax --rootdir build/nbval build/nbval

test-all: test test-long

test-long: $(EVIDENCE) $(NODE_TESTS)/node_modules
	CUMULUS_EVIDENCE=1 $(BIN)/python -m pytest -m "long and not browser" -n 2 --dist worksteal
	$(BIN)/python -m pytest -m "long and browser"

check: $(INSTALLED) $(TYPECHECK)/node_modules
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache
	cd $(TYPECHECK) && PATH="$(CURDIR)/$(BIN):$$PATH" jlpm run check

# JupyterLab's own types are large, so they are no part of the build.
$(TYPECHECK)/node_modules: $(TYPECHECK)/package.json $(TYPECHECK)/yarn.lock | $(INSTALLED)
	cd $(TYPECHECK) && PATH="$(CURDIR)/$(BIN):$$PATH" jlpm install --immutable
	touch $@

$(NODE_TESTS)/node_modules: $(NODE_TESTS)/package.json $(NODE_TESTS)/yarn.lock | $(INSTALLED)
	cd $(NODE_TESTS) && PATH="$(CURDIR)/$(BIN):$$PATH" jlpm install --immutable
	touch $@

bench: $(INSTALLED)
	$(BIN)/python -m tests.benchmarks

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip

$(DEMO_INSTALLED): $(SOURCES) | $(BIN)/python
	$(BIN)/python -m pip install --quiet --editable ".[demo]"
	touch $@

$(INSTALLED): $(SOURCES) | $(BIN)/python
	$(BIN)/python -m pip install --quiet --editable ".[test]"
	touch $@ $(DEMO_INSTALLED)

$(EVIDENCE): $(INSTALLED)
	$(BIN)/python -m pip install --quiet --editable ".[evidence]"
	touch $@

clean:
	rm -rf build dist $(VENV) cumulus_jupyter/labextension labextension/lib labextension/node_modules

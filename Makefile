# Two commands are enough: `make run` and `make test`. Both set up what they need in .venv first.
PYTHON ?= python3
BIN := .venv/bin
# torch is installed first and by its exact version, so that nothing pulls a build for another machine.
TORCH := torch==2.13.0
# Everything else has the versions that the tests were run with.
INSTALL := $(BIN)/pip install --quiet --disable-pip-version-check --constraint constraints.txt

.PHONY: run test lint docs setup clean

run: .venv/ready-to-run  ## evaluate the built-in reward models on the built-in benchmark
	$(BIN)/palate eval mini

test: .venv/ready-to-test  ## all tests
	$(BIN)/pytest -n 2 --dist worksteal

lint: .venv/ready-to-test  ## formatting, style, types and the floors of the house
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

docs: .venv/ready-to-test  ## build the documentation into site/
	$(BIN)/mkdocs build --strict

setup: .venv/ready-to-test  ## everything a contributor needs

clean:
	rm -rf .venv site runs

.venv/ready-to-run: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(INSTALL) $(TORCH)
	$(INSTALL) --editable '.[local]'
	touch $@

.venv/ready-to-test: .venv/ready-to-run
	$(INSTALL) --editable '.[local,train,privacy,downstream,serve,collect,postgres,build,cluster,storage,hub,onnx,dev,docs]'
	touch $@

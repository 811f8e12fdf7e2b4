# Two commands do everything: `make demo` searches a kernel, `make test` proves the project.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.PHONY: demo test check style types suite evidence lock clean

demo: $(VENV)/.ready
	$(BIN)/cuda-llm run histogram

# Types are checked beside the tests, which leave a core idle now and then.
test: style
	$(MAKE) --no-print-directory -j2 types suite

check: style types

style: $(VENV)/.ready
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/.ready
	$(BIN)/mypy

# The modules of imported problems run in PyTorch, which is an extra. Dozens of commands are
# started: where images forbid bytecode, each of them would compile all of our modules again.
# The tests of a file share what they build, hence a process.
suite: $(VENV)/.ready
	$(BIN)/python -c 'import torch' 2>/dev/null || VENV=$(VENV) sh scripts/install torch==2.13.0
	PYTHONDONTWRITEBYTECODE= $(BIN)/pytest -n logical --dist loadfile --no-loadscope-reorder -q

# What takes hours: whole corpora, kills by the hundred, every point of every playbook.
evidence: $(VENV)/.ready
	CUDA_LLM_EVIDENCE=1 $(MAKE) --no-print-directory suite

$(VENV)/.ready: requirements.lock requirements-toolkit.lock requirements-uv.lock pyproject.toml scripts/setup scripts/install
	PYTHON=$(PYTHON) VENV=$(VENV) sh scripts/setup
	touch $@

# Writes the locks anew: exact versions with hashes, for every Python and platform we support.
lock: $(VENV)/.ready
	$(BIN)/pip install -q --upgrade uv
	echo uv | $(BIN)/uv pip compile -q - --universal --python-version 3.11 \
	    --generate-hashes --no-emit-index-url --no-header -o requirements-uv.lock
	$(BIN)/uv pip compile -q pyproject.toml --group dev --universal --python-version 3.11 \
	    --generate-hashes --no-emit-index-url --no-header -o requirements.lock
	$(BIN)/uv pip compile -q pyproject.toml --extra toolkit --universal --python-version 3.11 \
	    --constraint requirements.lock --no-emit-package setuptools \
	    --generate-hashes --no-emit-index-url --no-header -o requirements-toolkit.lock

clean:
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis

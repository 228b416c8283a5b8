# Everything is done with the Python of $(VENV), made on first use and again when needed.
VENV = .venv
PYTHON = $(shell for python in python3 python3.13 python3.12 python3.11 python; do \
	$$python -c $(FITS) >/dev/null 2>&1 && echo $$python && break; done)
# TensorFlow has no wheels for 3.14.
FITS = 'import ensurepip, sys, venv; assert (3, 11) <= sys.version_info < (3, 14)'
MISSING = 'Python 3.11, 3.12 or 3.13 with venv is needed (Debian, Ubuntu: apt install \
	python3-venv). Received: PYTHON=$(PYTHON)'
# setuptools warns at length that an editable installation is editable.
PIP = PYTHONWARNINGS=ignore $(VENV)/bin/python -m pip --disable-pip-version-check --quiet

SUDO = $(shell [ "$$(id -u)" = 0 ] || echo sudo)

# The libraries that benchmarks/ compares with, each in an environment of its own.
BENCH = .bench-env
transformers = torch==2.13.0 transformers==5.23.0 datasets==5.2.0 ctranslate2==4.8.5 numpy
keras-hub = keras-hub==0.32.0 keras==3.15.1 tensorflow==2.21.0
model-garden = tf-models-official==2.20.0 tf_keras==2.20.1

.PHONY: help install demo test test-runs test-browser test-slow test-backends test-oldest lint docs dist bench-env clean

help:
	@echo 'make install       make $(VENV) with the package'
	@echo 'make demo          pretrain and finetune a small BERT on this machine, in minutes'
	@echo 'make test          the tests but for those below, 14 minutes on 2 cores'
	@echo 'make test-runs     those that train for seconds, 20 minutes'
	@echo 'make test-browser  the report and the attention page in headless Chromium, which it installs as root if there is none'
	@echo 'make test-slow     the long tests: kills, workers, examples; two hours'
	@echo 'make test-backends the library on PyTorch and JAX; half an hour'
	@echo 'make test-oldest   the tests on the oldest TensorFlow and Keras; half an hour'
	@echo 'make lint          ruff, import-linter and mypy'
	@echo 'make docs          the documentation in site/'
	@echo 'make dist          sdist and wheel in dist/, checked in an empty environment'
	@echo 'make bench-env     the libraries to compare with, for benchmarks/; 7 GB in $(BENCH)'
	@echo 'make clean         remove $(VENV) and what was built; $(BENCH) and runs/ stay'

install: $(VENV)/installed-report

demo: $(VENV)/installed-report
	$(VENV)/bin/python examples/demo.py

test: $(VENV)/installed-test
	$(VENV)/bin/python -m pytest -n 2 --dist loadfile

test-runs: $(VENV)/installed-test
	$(VENV)/bin/python -m pytest -m 'runs and not slow' -n 2 --dist loadfile

test-browser: $(VENV)/installed-test
	@command -v chromium >/dev/null || { echo "installing Debian's chromium"; \
		{ $(SUDO) apt-get update && \
		$(SUDO) apt-get install --yes --no-install-recommends chromium; } >/dev/null; }
	$(VENV)/bin/python -m pytest -m browser tests/browser

test-slow: $(VENV)/installed-test
	$(VENV)/bin/python -m pytest -m slow -vv --durations=0 --ignore=tests/backends

test-backends: $(VENV)/installed-test
	$(VENV)/bin/python -m pytest -m slow -vv tests/backends/test_other_backends.py

test-oldest: $(VENV)/installed-test
	$(VENV)/bin/python -m pytest -m slow -vv tests/backends/test_oldest_versions.py

lint: $(VENV)/installed-test
	$(VENV)/bin/python -m ruff check .
	$(VENV)/bin/lint-imports
	$(VENV)/bin/python -m mypy
	$(VENV)/bin/python -m pytest tests/test_annotations.py

# NO_MKDOCS_2_WARNING: about a version that the bound of the extra excludes.
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

# Editable, so that changed configs and code count at once, in the commands too.
$(VENV)/installed: $(VENV)/made setup.py pyproject.toml
	@echo 'installing; TensorFlow and the rest take 2.6 GB and some minutes'
	@$(PIP) install --editable .
	@touch $@

$(VENV)/installed-%: $(VENV)/installed
	@$(PIP) install --editable '.[$*]'
	@touch $@

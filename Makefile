# Needs python3 (3.11 or newer) and make; everything else goes into .venv.
# Variables to override: PYTHON (python3), VENV (.venv), PIP, EXTRAS (what to install besides), PYTEST_ARGS;
# for a GPU: GPU_PYTHON (python3, with the extra [cuda]), GPU_WORKERS (processes of its tests, 8 where pytest-xdist is
# installed), GPU_LIMIT (of the tests: 30m), OUT (build/gpu).

PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
PIP ?= $(BIN)/python -m pip
PYTEST_ARGS ?=
EXTRAS ?= dev
# Extras may be separated by commas, by spaces or by both.
comma := ,
space := $(subst x,,x x)
NAMED := $(subst $(space),$(comma),$(strip $(subst $(comma),$(space),$(EXTRAS))))
GPU_PYTHON ?= $(PYTHON)
OUT ?= build/gpu
GPU_WORKERS ?= $(shell $(GPU_PYTHON) -c 'import xdist; print(8)' 2> /dev/null || echo 0)
GPU_LIMIT ?= 30m
# Nothing is installed on such a machine: the checkout is what is imported.
GPU_PATH = PYTHONPATH=$(CURDIR)$${PYTHONPATH:+:$$PYTHONPATH}
# What a GPU is tested with: its own tests, and of the others the cases that name it. Compilation for other GPUs
# and the stand-in are tested without one. A module that lacks a package does not keep the others from running.
GPU_TESTS = tests/cuda tests/rnn/test_vectors.py tests/model/test_gradients.py \
  -k "cuda or on_a_gpu" $(addprefix --ignore=tests/cuda/test_,compile.py host_side.py \
  runtime.py contract.py gpu_fence.py) --continue-on-collection-errors -m ""
GPU_MANY = $(patsubst %,-n %,$(filter-out 0,$(GPU_WORKERS)))
# PyTorch is larger than everything else together: its tests have an environment of their own.
TORCH_VENV ?= .venv-torch
# An index with builds for CPUs, without the 2 GB for GPUs.
TORCH_INDEX ?=
# Renewed when pyproject.toml changes. BASE: the package alone, which is enough for the demo; STAMP: these EXTRAS as well.
BASE := $(VENV)/.base
STAMP := $(VENV)/.installed-$(NAMED)

# Machine code for the wheel; where the package looks for it.
PACKS := nmt/rnn/kernels/packs

DEMO_DATA := data/demo
DEMO_CONFIG := configs/quickstart.yaml
# The model_dir of that file.
DEMO_MODEL := runs/quickstart
DEMO_SOURCES := $(wildcard data_scripts/*.py data_scripts/demo_corpus/*.py)

.DEFAULT_GOAL := help
.PHONY: help setup install demo test check test-long witness format bench test-torch test-arm test-windows test-windows-part windows-app linux-app test-gpu test-ptx card bench-gpu docs pictures size site wheel wheel-arm dist clean

help:
	@echo 'make demo    install the package alone, make a corpus, train a small translator, translate, score (minutes)'
	@echo 'make test    install all that developers need, run the tests'
	@echo 'make test-long    run the cases that make test omits because they take long'
	@echo 'make check   lint, format, types, who imports whom; what the code writes of itself into docs/ is of today'
	@echo 'make witness  fences around arrays, system calls that fail, random cells and texts (two hours)'
	@echo 'make format  mend what ruff can mend'
	@echo 'make bench   run the benchmarks, one question a script'
	@echo 'make test-torch   make $(TORCH_VENV) with PyTorch, run the tests of nmt.torch'
	@echo 'make test-arm   run chosen tests for Arm, under qemu (an hour; Debian)'
	@echo 'make test-gpu   run the tests of tests/cuda on a GPU'
	@echo 'make test-ptx   run the tests of tests/ptx and those of a GPU on the PTX of the kernels, without a GPU (half an hour)'
	@echo 'make test-windows   tests under Wine, which it installs with CPython for Windows into build/windows'
	@echo 'make test-windows-part    those of them that continuous integration runs, ten minutes at most'
	@echo 'make windows-app    a zip with Python, all packages and machine code for Windows, into dist/'
	@echo 'make linux-app      the same as a tar for any Linux (MACHINE=aarch64: for 64-bit Arm); needs apt of Debian 12'
	@echo 'make card   the first nine minutes on a GPU: starts, compiles, right, fences, fast; files into $(OUT)'
	@echo 'make bench-gpu  measure on a GPU, compared with PyTorch; tables into $(OUT)'
	@echo 'make wheel   compile for all levels of processors (minutes), and put that into a wheel in dist/'
	@echo 'make wheel-arm    the same for Linux on 64-bit Arm, made on any machine'
	@echo 'make dist    sdist, and the wheel from it, into dist/, with a bill of materials; built twice and compared'
	@echo 'make docs    write docs/commands.md, the settings reference and the links of the tour from the code'
	@echo 'make pictures   draw docs/pictures from the code, by Graphviz'
	@echo 'make size    lines by folder, compared with the goal and the bound that a test enforces'
	@echo 'make site    the documentation as a site, build/site/html/index.html; every link in it is checked'
	@echo 'make install    the same as make setup'
	@echo 'make setup   make $(VENV) and install into it the package with EXTRAS ($(EXTRAS))'
	@echo 'make clean   remove the demo, caches and build output; keeps $(VENV), data and other models'

setup: $(STAMP)

# The name that other projects give it.
install: setup

$(BASE): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo 'Makefile: $(PYTHON) must be Python 3.11 or newer; name one with PYTHON=...' >&2; exit 1; }
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV) || \
	  { echo 'Makefile: $(PYTHON) must have venv and pip; install them (often python3-venv)' >&2; exit 1; }
	$(PIP) install --quiet --disable-pip-version-check -e .
	@touch $@

$(STAMP): $(BASE)
	$(PIP) install --quiet --disable-pip-version-check -e '.[$(NAMED)]'
	@touch $@

# test.de stands for the whole corpus; the script writes all files in under a second.
$(DEMO_DATA)/test.de: $(DEMO_SOURCES) | $(BASE)
	$(BIN)/python data_scripts/number_words.py --out $(DEMO_DATA)
	@touch $@

demo: $(BASE) $(DEMO_DATA)/test.de
	$(BIN)/nmt-train $(DEMO_CONFIG)
	$(BIN)/nmt-translate $(DEMO_MODEL) $(DEMO_DATA)/examples.en -o $(DEMO_MODEL)/examples.de
	$(BIN)/nmt-translate $(DEMO_MODEL) $(DEMO_DATA)/test.en -o $(DEMO_MODEL)/test.de
	@echo && echo 'Examples the model has never seen:' && echo
	@paste -d '\n' $(DEMO_DATA)/examples.en $(DEMO_MODEL)/examples.de | sed 'n;s/^/    /'
	@echo && echo 'The held-out file, $(DEMO_DATA)/test.en:' && echo
	$(BIN)/nmt-evaluate --hyp $(DEMO_MODEL)/test.de --ref $(DEMO_DATA)/test.de
	$(BIN)/python data_scripts/exact_match.py $(DEMO_MODEL)/test.de $(DEMO_DATA)/test.de --at-least 98

test: $(STAMP)
	$(BIN)/python -m pytest -q -n auto --dist worksteal $(PYTEST_ARGS)

# By tests/long.py; together with make test these are all tests.
test-long: $(STAMP)
	$(BIN)/python -m pytest -q -n auto --dist worksteal -m long $(PYTEST_ARGS)

check: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy nmt
	$(BIN)/lint-imports --no-logo
	@before=$$(git diff -- docs configs | cksum); $(BIN)/python docs/build.py; \
	  [ "$$before" = "$$(git diff -- docs configs | cksum)" ] || \
	  { echo 'make check: generated documents were out of date and have been updated; commit them' >&2; exit 1; }

# What ends a process that reads or writes beyond an array, and what lets each system call of a command fail; needs cc.
MOST ?= 40
SEED ?= 1000
CELLS ?= 500
SECONDS_OF_TEXTS ?= 3600
witness: $(STAMP)
	$(BIN)/python -m tests.witness.fence
	$(BIN)/python -m tests.witness.faults --most $(MOST)
	$(BIN)/python -m tests.witness.cells --first $(SEED) --count $(CELLS)
	$(BIN)/python -m tests.documents.random_texts $(SEED) $(SECONDS_OF_TEXTS)

format: $(STAMP)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# Scripts that know --quick get it: minutes instead of an hour. Those for a GPU are for bench-gpu.
bench: $(STAMP)
	@set -e; for script in benchmarks/[!_]*.py; do \
	  [ -f "$$script" ] || { echo 'benchmarks/ contains no script'; exit 0; }; \
  case $$script in benchmarks/gpu*) continue;; esac; \
	  quick=$$(grep -q -e '"--quick"' "$$script" && echo --quick || true); \
	  echo "== $$script $$quick"; $(BIN)/python "$$script" $$quick; done

test-torch:
	@test -x $(TORCH_VENV)/bin/python || $(PYTHON) -m venv $(TORCH_VENV)
	$(TORCH_VENV)/bin/python -m pip install --quiet --disable-pip-version-check $(addprefix --extra-index-url ,$(TORCH_INDEX)) -e '.[torch]' pytest
	$(TORCH_VENV)/bin/python -m pytest -q tests/torch $(PYTEST_ARGS)

# Fetches Debian's and PyPI's packages for Arm once, into build/arm.
test-arm: $(BASE)
	$(BIN)/python -m tests.arm.run

# Wine, CPython for Windows and its wheels, once, into build/windows; root and Debian's debootstrap and mingw are needed.
# Not there: what looks at the checkout, and programs of other folders, which that Python does not find.
WINDOWS_TESTS ?= $(addprefix tests/,documents data learning decode cli train serve studio importing exporting model doctor \
  report fuzz) $(filter-out $(patsubst %,tests/test_%.py,docs packaging sizes tour words rows front_door installing \
  other_systems),$(wildcard tests/test_*.py))
test-windows: $(STAMP)
	$(BIN)/python -m tests.windows.bed build/windows $(WINDOWS_TESTS) $(PYTEST_ARGS); status=$$?; [ $$status -eq 77 ] || exit $$status

# What continuous integration runs of it.
test-windows-part: WINDOWS_TESTS = tests/test_files.py tests/test_config.py tests/test_tensor_file.py tests/data/test_tables.py \
  tests/train/test_resume.py tests/studio
test-windows-part: test-windows

# Python, all packages and machine code for Windows on x86 in one zip, made on Linux with mingw (an hour where the machine
# is busy). It is not signed.
X86 := avx512_bf16 avx512_vnni avx512 avx2_vnni avx2 generic
windows-app: $(STAMP)
	$(BIN)/python -m nmt.precompile make-windows build/windows-packs $(X86)
	$(BIN)/python deploy/app.py windows build/windows-app build/windows-packs dist/nmt-windows.zip

# The same for Linux, with Debian's Python and C library; it runs on any other Linux of this kind of machine.
MACHINE ?= x86_64
linux-app: $(STAMP)
	$(BIN)/python -m nmt.precompile make build/linux-$(MACHINE)-packs $(if $(MACHINE:x86_64=),neon neon_dotprod neon_bf16,$(X86))
	$(BIN)/python deploy/app.py linux-$(MACHINE) build/linux-$(MACHINE)-app build/linux-$(MACHINE)-packs dist/nmt-linux-$(MACHINE).tar.gz

# On a machine with a GPU and what the extra [cuda] names; nothing is installed.
test-gpu:
	@mkdir -p $(OUT)
	NMT_TEST_DEVICE=cuda NMT_GPU_LOG=$(OUT) timeout $(GPU_LIMIT) env $(GPU_PATH) $(GPU_PYTHON) -m pytest -q -rs -p no:cacheprovider -p tests.gpu_fence $(GPU_TESTS) $(GPU_MANY) $(PYTEST_ARGS) > $(OUT)/tests.txt 2>&1; \
	  status=$$?; tail -n 40 $(OUT)/tests.txt; exit $$status
	@if command -v compute-sanitizer > /dev/null; then \
	  sanitized() { tool=$$1; shift; \
	    NMT_TEST_DEVICE=cuda timeout $(GPU_LIMIT) env $(GPU_PATH) compute-sanitizer --tool $$tool --report-api-errors no --error-exitcode 9 \
	      --log-file $(OUT)/$$tool.txt $(GPU_PYTHON) -m pytest -q -p no:cacheprovider tests/cuda/test_persistent.py "$$@"; \
	    status=$$?; tail -n 1 $(OUT)/$$tool.txt; return $$status; }; \
	  sanitized racecheck -k test_layer && \
	  sanitized memcheck tests/cuda/test_cells.py -k test_layer; \
	else echo 'compute-sanitizer is not installed: races on the GPU were not looked for'; fi

# CARD_ARGS: --dry-run without a GPU, --only STEP ..., --wheels FOLDER with packages that the machine lacks.
card:
	$(GPU_PATH) $(GPU_PYTHON) benchmarks/card.py --out $(OUT) $(CARD_ARGS)

# Needs numba-cuda and NVVM (EXTRAS=dev,cuda-compiler) and a C++ compiler.
test-ptx: $(STAMP)
	NMT_TEST_DEVICE=ptx $(BIN)/python -m pytest -q -rs -n auto --dist worksteal tests/ptx $(GPU_TESTS) -m "" -k "cuda or on_a_gpu or ptx" $(PYTEST_ARGS)

bench-gpu:
	@mkdir -p $(OUT)
	$(GPU_PATH) $(GPU_PYTHON) benchmarks/gpu.py --out $(OUT)

# A checkout does without the packs: they are removed again.
wheel: $(STAMP)
	rm -rf $(PACKS)
	$(BIN)/python -m nmt.precompile make $(PACKS)
	$(PIP) wheel --quiet --disable-pip-version-check --no-deps -w dist .
	rm -rf $(PACKS)
	@ls -l dist/*.whl

# Twice, since anybody must get the same bytes; times in the archives are those of the last commit. The wheel is made from
# the sdist, and without machine code: that is for `make wheel`. The bill of materials is of what the wheel with [serve]
# installs; the package itself is its subject, read from pyproject.toml.
wheel-arm: $(STAMP)
	rm -rf $(PACKS) build/wheel
	$(BIN)/python -m nmt.precompile make $(PACKS) neon neon_dotprod neon_bf16
	$(PIP) wheel --quiet --disable-pip-version-check --no-deps -w build/wheel .
	rm -rf $(PACKS)
	$(BIN)/python -m wheel tags --remove --platform-tag manylinux_2_17_aarch64 build/wheel/*.whl > /dev/null
	@mkdir -p dist && mv build/wheel/*.whl dist && ls -l dist/*aarch64.whl

dist: $(STAMP)
	rm -rf build/dist && mkdir -p build/dist
	@set -e; epoch=$$(git log -1 --format=%ct); for copy in first second; do \
	  SOURCE_DATE_EPOCH=$$epoch $(BIN)/python -m build --outdir build/dist/$$copy . > build/dist/$$copy.log 2>&1 || \
	    { cat build/dist/$$copy.log >&2; exit 1; }; done
	@diff -r build/dist/first build/dist/second || \
	  { echo 'Makefile: two builds of one commit must be the same bytes, they differ' >&2; exit 1; }
	@mkdir -p dist && cp build/dist/first/* dist/ && cd dist && sha256sum $$(ls ../build/dist/first)
	@$(PYTHON) -m venv --without-pip build/dist/served
	$(PIP) --python build/dist/served install --quiet --disable-pip-version-check -c constraints.txt "$$(ls build/dist/first/*.whl)[serve]"
	$(PIP) --python build/dist/served uninstall --quiet --yes recurrent-nmt
	$(BIN)/cyclonedx-py environment build/dist/served --pyproject pyproject.toml --output-reproducible -o dist/sbom.json

docs: $(STAMP)
	$(BIN)/python docs/build.py

size: $(STAMP)
	@$(BIN)/python docs/size.py

# Needs Graphviz.
pictures: $(STAMP)
	$(BIN)/python docs/build.py pictures

# Reads the pages that `make docs` has written; needs no network. SITE_BUILDER: html, or linkcheck to ask other hosts too.
SITE_BUILDER ?= html
site: $(STAMP)
	$(BIN)/python -m sphinx -W --keep-going -q -j auto -b $(SITE_BUILDER) -c docs -d build/site/cache . build/site/$(SITE_BUILDER)
	@echo build/site/html/index.html

clean:
	rm -rf $(DEMO_MODEL) $(DEMO_DATA) build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache \
	  .import_linter_cache
	find . -path './.venv*' -prune -o -name __pycache__ -type d -print | xargs -r rm -rf

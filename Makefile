# Two commands do everything on a machine that has only python3 >= 3.10:
#   make demo    the operator table of a real ResNet-50, and a SqueezeNet compiled for oneDNN
#   make test    what CI runs, except the wheel test
# make docs builds the documentation into build/site, make docs-serve shows it while you write.
# make plan-page writes the pages of two planned models to build/.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
JOBS ?= 2
ONNX_LIGHT = $$($(BIN)/python -c "import pathlib, onnx; print(pathlib.Path(onnx.__file__).parent / 'backend/test/data/light')")

.PHONY: demo test oldest quick sweep lint types pytest docs docs-serve coverage bench plan-page clean

demo: $(VENV)/.demo
	$(BIN)/opinfo inspect "$(ONNX_LIGHT)/light_resnet50.onnx"
	@command -v g++ > /dev/null || (echo "make demo goes on to compile a model, and needs g++"; exit 1)
	$(BIN)/python -m examples.seeded_weights "$(ONNX_LIGHT)/light_squeezenet.onnx" build/squeezenet.onnx
	OMP_NUM_THREADS=1 TVM_NUM_THREADS=1 $(BIN)/opinfo compile build/squeezenet.onnx \
		-o build/squeezenet.so --backend onednn,tvm --verify --report build/squeezenet.html

test: lint types pytest

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/.dev
	$(BIN)/mypy

pytest: $(VENV)/.dev
	$(BIN)/python -m pytest -n $(JOBS) --dist worksteal --durations 25

# The oldest TVM that analysis, planning and raising run on; tests/oldest.py lists what it runs.
oldest: $(VENV)-oldest/.dev
	$(VENV)-oldest/bin/python -m pytest -n $(JOBS) -m "not slow and not sweep" -rxX \
		$$($(VENV)-oldest/bin/python -m tests.oldest)

$(VENV)-oldest/.dev: pyproject.toml
	$(PYTHON) -m venv $(VENV)-oldest
	$(VENV)-oldest/bin/python -m pip install --quiet -e '.[onnx]' 'apache-tvm==0.26.*' \
		'hypothesis>=6.100' 'islpy>=2025.1' 'pytest>=8' 'pytest-xdist>=3.6'
	touch $@

quick: $(VENV)/.dev
	$(BIN)/python -m pytest -n $(JOBS) -m "not slow and not sweep"

# The cases that the suite leaves out where they go the same way as others.
sweep: $(VENV)/.dev
	$(BIN)/python -m pytest -n $(JOBS) -m sweep

# Not --quiet: it hides the warnings that --strict counts.
docs: $(VENV)/.dev
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

docs-serve: $(VENV)/.dev
	NO_MKDOCS_2_WARNING=1 OPINFO_TUTORIALS=0 $(BIN)/mkdocs serve

# Half as long again as pytest without it, so CI does not ask.
coverage: $(VENV)/.dev
	$(BIN)/python -m pytest -n $(JOBS) --cov --cov-report=term

bench: $(VENV)/.dev
	$(BIN)/python -m benchmarks.op_info
	$(BIN)/python -m benchmarks.growth
	$(BIN)/python -m benchmarks.imports

plan-page: $(VENV)/.dev
	$(BIN)/python -m examples.plan_page

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10) and "opinfo needs Python >= 3.10")'
	$(PYTHON) -m venv $(VENV)

$(VENV)/.demo: pyproject.toml | $(BIN)/python
	@echo "installing TVM, ONNX and oneDNN into $(VENV), which takes a minute or two"
	$(BIN)/python -m pip install --quiet -e '.[onnx,onednn]'
	touch $@

# The OCR wheel is wanted for the ONNX files in it, timm for its architectures, and neither for what
# it depends on: timm would bring a torchvision that does not load beside the CPU build of torch.
$(VENV)/.dev: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet -e '.[dev]'
	$(BIN)/python -m pip install --quiet --no-deps rapidocr-onnxruntime==1.4.4 timm==1.0.31
	touch $@ $(VENV)/.demo

clean:
	rm -rf $(VENV) $(VENV)-oldest .venv-wheel dist build .mypy_cache .pytest_cache .ruff_cache .hypothesis

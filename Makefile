# Everything a developer types. `make demo` and `make test` need a Debian-like system with
#   apt-get install -y python3-venv python3-dev g++ make
# and nothing else: the remaining tools come pinned from PyPI into .venv (extras `dev` and `test`).
PYTHON ?= python3
JOBS ?= $(shell nproc)
BIN := $(CURDIR)/.venv/bin
BUILD := build/python
PYTEST := ASCENDRT_MACHINE=private $(BIN)/python -m pytest -q
CPP := $(shell git ls-files -- '*.c' '*.h' '*.cpp' '*.hpp' 2>/dev/null | grep -v '/gen/')
export PATH := $(BIN):$(PATH)
# Unit tests wait as much as they compute: two processes take half of them each. Fails when one does.
HALVES := xargs -n 1 -P 2

.PHONY: demo build test unit check docs gen dist asan tsan cross fuzz test-clients soak om-damage claims bench size clean

demo: build
	$(BIN)/python examples/digits/demo.py

# The tools, without the package itself, so that the package can be built without build isolation.
.venv/.tools: pyproject.toml
	$(PYTHON) -m venv .venv
	$(BIN)/python -c 'import tomllib; p = tomllib.load(open("pyproject.toml", "rb")); print(*p["build-system"]["requires"], *p["project"]["dependencies"], *(r for e in ("dev", "test", "docs") for r in p["project"]["optional-dependencies"][e]), sep="\n")' > .venv/requirements.txt
	$(BIN)/pip install -q --disable-pip-version-check -r .venv/requirements.txt
	touch $@

build: .venv/.tools
	$(BIN)/pip install -q --disable-pip-version-check --no-build-isolation --no-deps --config-settings=build-dir=$(BUILD) -e .

test: unit
	$(PYTEST) -n 2 --ignore=tests/clients $(ALSO_NOT:%=--ignore=%) tests

unit: build
	cmake -S csrc -B $(BUILD) -DART_BUILD_TESTS=ON > /dev/null
	cmake --build $(BUILD) --target unit_tests -j $(JOBS)
	echo -1/2 -2/2 | $(HALVES) $(BUILD)/emulator/unit_tests

check: build
	ruff check .
	ruff format --check .
	mypy
	mypy --python-version 3.12 benchmarks
	clang-format --dry-run -Werror $(CPP)
	run-clang-tidy.py -quiet -p $(BUILD) -j $(JOBS) '/emulator/(base|clock|probe|ops|memory|core|model|abi|check|trace)/' > build/tidy.log 2>&1 || { grep -E 'error|warning' build/tidy.log; exit 1; }
	$(PYTEST) tests/abi
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

# The site, in build/site; warnings (a dead link, a name without docstring) are errors.
docs: .venv/.tools
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

gen: .venv/.tools
	$(BIN)/python csrc/abi/generate.py
	$(BIN)/python csrc/abi/conformance.py

dist: .venv/.tools
	rm -rf dist
	$(BIN)/python -m build --no-isolation --outdir dist .
	abi3audit --strict dist/*.whl

# The wheel under every interpreter that pyenv has (PYTHONS= names others).
pythons: dist
	$(BIN)/python tests/pythons.py dist/*.whl $(PYTHONS)

asan tsan: .venv/.tools
	cmake --preset $@ -S emulator > /dev/null
	cmake --build build/$@ --target unit_tests -j $(JOBS)
	echo -1/2 -2/2 | $(HALVES) build/$@/unit_tests

cross: .venv/.tools
	@for tool in g++-11 aarch64-linux-gnu-g++ qemu-aarch64; do command -v $$tool > /dev/null || { echo "$$tool is missing: apt-get install -y g++-11 g++-aarch64-linux-gnu qemu-user"; exit 1; }; done
	for preset in gcc11 aarch64; do cmake --preset $$preset -S emulator > /dev/null && cmake --build build/$$preset -j $(JOBS) || exit 1; done
	echo -1/2 -2/2 | $(HALVES) qemu-aarch64 -L /usr/aarch64-linux-gnu build/aarch64/unit_tests

# Readers of files under libFuzzer for FUZZ_SECONDS each. What is found is kept in build/fuzz/found.
FUZZ_SECONDS ?= 60
fuzz: .venv/.tools
	@command -v clang++ > /dev/null || { echo "clang++ is missing: apt-get install -y clang libclang-rt-14-dev"; exit 1; }
	cmake --preset $@ -S emulator > /dev/null
	cmake --build build/$@ --target fuzz_om fuzz_onnx -j $(JOBS)
	mkdir -p build/$@/found/om build/$@/found/onnx
	for kind in om onnx; do build/$@/fuzz_$$kind -max_total_time=$(FUZZ_SECONDS) -timeout=20 -rss_limit_mb=2048 -malloc_limit_mb=512 -print_final_stats=1 -verbosity=0 -artifact_prefix=build/$@/found/$$kind- build/$@/found/$$kind tests/fuzz/corpus/$$kind || exit 1; done

test-clients: build
	$(PYTEST) tests/clients

# Minutes of load that `make test` gives seconds.
soak: build
	SERVING_SECONDS=60 $(PYTEST) -s tests/serving/test_clients.py

# Every other value of every byte of header and tables of three files of ASCENDRT_OM_CORPUS; half a minute.
om-damage: unit
	ASCENDRT_OM_DAMAGE=1 $(BUILD)/emulator/unit_tests om_corpus_damaged_in_every_way

claims: build
	$(BIN)/python -m benchmarks claims

bench: build
	$(BIN)/python -m benchmarks binding

# The budgets stand in the test: lines of a file, of a function, of the emulator without kernels.
size: .venv/.tools
	@git ls-files 'emulator/*.cpp' 'emulator/*.hpp' | grep -vE '/(gen|ops)/' | xargs cat | wc -l | xargs echo emulator without ops and gen, lines:
	$(PYTEST) tests/abi/test_sizes.py

clean:
	rm -rf build dist .venv

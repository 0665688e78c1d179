# make demo   build everything, make data, start the server, run PySpark against it; make demo-cluster: with a Ballista cluster
# make test   what CI runs: tiers with time budgets (core, sanitizers, engine, clients, rotating)
# Also: build, core, engine, test-all, bench, dist, install (PREFIX=, DESTDIR=), symbols (docs/abi/symbols.txt), format, clean
CACHE  := $(if $(XDG_CACHE_HOME),$(XDG_CACHE_HOME),$(HOME)/.cache)/trunnion
PYTHON := $(CACHE)/venv/bin/python
TARGET := $(CACHE)/engine-target
JOBS   := $(shell nproc)

.PHONY: build core engine setup demo demo-cluster test test-all bench dist format clean install symbols

build: core engine

setup:
	@packaging/setup.sh $(CACHE)

# The C part: no Rust needed from here on.
core: setup
	@[ -f build/release/build.ninja ] || cmake --preset release -DTRUNNION_PYTHON=$(PYTHON) \
	    -DTRUNNION_ENGINE_DIR=$(CURDIR)/build/release > build.log 2>&1 || { cat build.log; exit 1; }
	@rm -f build.log
	@ninja -C build/release -j $(JOBS) --quiet

# DataFusion is compiled once per user, outside the checkout, by one invocation for everything that is Rust: cargo unifies
# features per invocation, and another set of them would be another DataFusion.
engine: setup
	@[ -d $(TARGET)/engine ] || echo "compiling the engine (DataFusion): 20 to 40 minutes on two cores, once"
	@cd engine && CARGO_TARGET_DIR=$(TARGET) cargo build --quiet --locked --profile engine --workspace
	@mkdir -p build/release && for file in libtrunnion_engine.so libtrunnion_ballista.so trunnion-ballista ballista-client; do \
	    ln -sf $(TARGET)/engine/$$file build/release/$$file; done

demo: build
	@$(PYTHON) packaging/demo.py $(CACHE)

# The same on a Ballista cluster of two executors on this machine.
demo-cluster: build
	@$(PYTHON) packaging/demo.py $(CACHE) --cluster

test: setup
	@$(PYTHON) tests/run.py

test-all: setup
	@$(PYTHON) tests/run.py --all

bench: build
	@$(PYTHON) bench/run.py

dist: core
	@packaging/dist.sh build/release/generated

install: build
	@cmake --install build/release --prefix $(or $(PREFIX),/usr/local)

symbols: core
	@$(PYTHON) tests/check_tree.py build/release --write-symbols

format:
	@git ls-files '*.c' '*.h' | xargs clang-format -i
	@cd engine && cargo fmt

clean:
	rm -rf build

# Weir's commands. `make run` and `make test` are all that a fresh Debian machine with rustup needs: what is missing is
# named and installed (apt as root or by sudo, npm packages from the lock file), nothing that is there is touched.

SHELL := /bin/bash
.DEFAULT_GOAL := build
.PHONY: help build trained dist dist-test run check test features torture lint fuzz bench room tools rocksdb-tools test-tools go-tools

CARGO ?= cargo
TARGET_DIR := $(or $(CARGO_TARGET_DIR),target)
LISTEN ?= 127.0.0.1:8080
ORIGIN ?=
FUZZ_SECONDS ?= 60
KILLS ?= 1000
POWER_CUTS ?= 200
SEEDS ?= 10000
# Most scenarios wait for something: more of them at a time than there are cores.
TEST_THREADS ?= 6
# So many at most in `make test`, which begins one more as long as the processor idles.
TEST_PROCESSES ?= 12
# What the program can be built with and without.
FEATURES = $(shell sed -n '/^\[features\]/,/^\[[^f]/s/^\([a-z0-9-]*\) *=.*/\1/p' crates/weir/Cargo.toml | grep -v '^default$$')
# What has a lock file of npm packages: the public suite, and what drives a browser.
NPM_FOLDERS := tests/conformance tests/browser
PEBBLE := $(addsuffix @v2.10.1,$(addprefix github.com/letsencrypt/pebble/v2/cmd/,pebble pebble-challtestsrv))
# And a tester of HTTP/2.
GO_TOOLS := $(PEBBLE) github.com/summerwind/h2spec/cmd/h2spec@v2.2.1+incompatible
# Cargo with RocksDB, whose library is built once and kept outside: 6 minutes of CPU.
ROCKSDB_CARGO := crates/weir-rocks/with-library $(CARGO)

# need command:package ...: installs the packages whose commands are missing.
need = missing=; for pair in $(1); do \
	command -v "$${pair%%:*}" >/dev/null || missing="$$missing $${pair\#\#*:}"; done; $(install)

# Installs what $missing names.
install = if [ -n "$$missing" ]; then \
	  echo "make: installing$$missing"; \
	  as_root=; [ "$$(id -u)" = 0 ] || as_root=sudo; \
	  $$as_root apt-get update -q && \
	  DEBIAN_FRONTEND=noninteractive $$as_root apt-get install -q -y --no-install-recommends $$missing </dev/null || \
	  { echo "make: install$$missing and try again" >&2; exit 1; }; fi

## help: what there is; what they take is in CONTRIBUTING.md
help:
	@sed -n 's/^## /  make /p' $(firstword $(MAKEFILE_LIST))

## build: the release binaries, weir with RocksDB, and weir-stress
build: tools rocksdb-tools
	$(ROCKSDB_CARGO) build --release --locked -p weir -p weir-stress --features weir/rocksdb

## trained: the same, built twice: the second time optimized for what runs (dist/training.toml); half an hour
trained: tools rocksdb-tools
	@$(call need,curl:curl)
	CARGO=$(CARGO) dist/trained $(TARGET_DIR)/trained

## dist: a trained release to hand out, in dist/out: a tarball, and on Debian a package; RocksDB is linked in
dist: trained
	@missing=; command -v dpkg-deb >/dev/null && ! command -v dpkg-shlibdeps >/dev/null && missing=" dpkg-dev"; $(install)
	CARGO=$(CARGO) dist/build $(TARGET_DIR)/trained/dist/weir

## dist-test: the package installed, run, upgraded under load, removed and purged in a clean Debian, without and with systemd (root, debootstrap)
dist-test: trained
	CARGO=$(CARGO) dist/test $(TARGET_DIR)/trained/dist/weir
	CARGO=$(CARGO) dist/test-systemd $(TARGET_DIR)/trained/dist/weir

## run: Weir on LISTEN in front of ORIGIN (https://host), or of the built-in demo origin; built for a first look, in some minutes
run: tools
	@CARGO=$(CARGO) dist/first $(TARGET_DIR)
	$(TARGET_DIR)/first/weir run $(if $(ORIGIN),--origin $(ORIGIN),--demo) --listen $(LISTEN)

## check: format, clippy, and every test that needs no RocksDB, no browser and no other language
check: tools room
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets --locked -- -D warnings
	RUST_TEST_THREADS=$(TEST_THREADS) $(CARGO) test --workspace --locked --no-fail-fast -- \
	  --skip answer::conformance --skip answer::lint --skip answer::structured --skip range::browser --skip scenario::tests::programs

## test: the whole suite, with the thousand clients for one cold object at its full 100 MB
test: tools rocksdb-tools test-tools room
	@mkdir -p $(TARGET_DIR)
	$(ROCKSDB_CARGO) test --workspace --locked --features weir/rocksdb --no-run --message-format=json-render-diagnostics >$(TARGET_DIR)/test.json
	set -o pipefail; WEIR_CROWD_BYTES=100000000 $(CARGO) run -q --locked -p weir-suite -- $(TARGET_DIR)/test.json $(TEST_PROCESSES) 2>&1 \
	  | tee $(TARGET_DIR)/test.log

## features: the program compiles without features, with each alone, and with all
features: tools rocksdb-tools
	set -e; for features in "--no-default-features" $(FEATURES:%="--no-default-features --features=%") "--all-features"; do \
	  echo "make: $$features"; $(ROCKSDB_CARGO) check -q --locked -p weir $$features; done

## torture: Weir killed KILLS times and its drive's power cut POWER_CUTS times (as root); thousands for the volume alone
torture: tools rocksdb-tools test-tools
	WEIR_KILLS=$(KILLS) WEIR_POWER_CUTS=$(POWER_CUTS) $(ROCKSDB_CARGO) test --workspace --locked --features weir/rocksdb --test it -- --nocapture drives::
	WEIR_VOLUME_SEEDS=$(SEEDS) $(CARGO) test --locked -p weir-volume --lib -- tests::power

## lint: format, clippy, dependencies
lint: tools rocksdb-tools
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets --locked -- -D warnings
	$(ROCKSDB_CARGO) clippy -p weir -p weir-rocks --features weir/rocksdb --all-targets --locked -- -D warnings
	@if command -v cargo-deny >/dev/null; then $(CARGO) deny --offline check bans licenses sources; \
	else echo "make: no cargo-deny here: licences and duplicates are not checked"; fi

## fuzz: each parser's target for FUZZ_SECONDS (needs a nightly compiler; the seeds alone run in `make test`)
fuzz: tools
	@command -v cargo-fuzz >/dev/null || { echo "make: installing cargo-fuzz"; $(CARGO) install --locked cargo-fuzz; }
	@$(CARGO) +nightly --version >/dev/null 2>&1 || \
	  { echo "make: installing the nightly compiler"; rustup toolchain install nightly --profile minimal; }
	@set -e; for target in $$($(CARGO) +nightly fuzz list); do \
	  mkdir -p fuzz/corpus/$$target; \
	  $(CARGO) +nightly fuzz run $$target fuzz/corpus/$$target fuzz/seeds/$$target -- -max_total_time=$(FUZZ_SECONDS); done

## bench: a trained release beside its peers; ARGS=--quick for a short one
bench: trained
	CARGO_TARGET_DIR=$(TARGET_DIR)/trained bench/compare $(ARGS)

# Said before anything is built, and not by scenarios one after another.
room:
	@tests/room $(TARGET_DIR)

tools:
	@command -v $(CARGO) >/dev/null || { echo "make: no cargo: install Rust by rustup, see https://rustup.rs" >&2; exit 1; }
	@$(call need,cc:build-essential cmake:cmake)
	@$(CARGO) --version >/dev/null 2>&1 || { echo "make: installing the stable compiler"; rustup default stable; }

# A library that generates RocksDB's bindings from its headers; it has no command by which it could be looked for.
rocksdb-tools:
	@missing=; [ -n "$$LIBCLANG_PATH" ] || \
	  ls /usr/lib/llvm-*/lib/libclang.so /usr/lib/libclang.so /usr/lib64/libclang.so 2>/dev/null | grep -q . || \
	  missing=" libclang-dev"; $(install)

test-tools: go-tools $(NPM_FOLDERS:%=%/node_modules/.package-lock.json)
	@$(call need,curl:curl chromium:chromium nghttp:nghttp2-client openssl:openssl gmond:ganglia-monitor prometheus-node-exporter:prometheus-node-exporter valgrind:valgrind)
	@missing=; python3 -c 'import ensurepip' 2>/dev/null || missing=" python3-venv"; $(install)

# A certificate authority for tests. Without Go, or without a way to its modules, the tests that need it say so.
go-tools:
	@command -v go >/dev/null || { echo "make: no go here: what needs Pebble is skipped"; exit 0; }; \
	for tool in $(GO_TOOLS); do name=$$(basename $${tool%@*}); \
	  [ -x "$$(go env GOPATH)/bin/$$name" ] || command -v $$name >/dev/null || \
	  { echo "make: installing $$name"; go install $$tool </dev/null; } || \
	  echo "make: $$name cannot be installed: what needs it is skipped"; done

# npm before 10, as Debian 12 has it, cannot read a lock file in which an override names another package.
%/node_modules/.package-lock.json: %/package-lock.json
	@$(call need,node:nodejs npm:npm)
	@echo "make: installing the packages of $<"
	case "$$(npm --version)" in [0-9].*) npm="npx --yes npm@10";; *) npm=npm;; esac; \
	$$npm ci --prefix $* --no-audit --no-fund </dev/null
	@touch $@

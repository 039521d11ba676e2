# Weir's commands. `make run` and `make test` are all that a fresh Debian machine with rustup needs: what is missing is
# named and installed (apt as root or by sudo, npm packages from the lock file), nothing that is there is touched.

SHELL := /bin/bash
.DEFAULT_GOAL := build
.PHONY: build run test lint fuzz bench tools test-tools

CARGO ?= cargo
TARGET_DIR := $(or $(CARGO_TARGET_DIR),target)
LISTEN ?= 127.0.0.1:8080
ORIGIN ?=
FUZZ_SECONDS ?= 60
SUITE := tests/conformance

# need command:package ...: installs the packages whose commands are missing.
need = missing=; for pair in $(1); do \
	command -v "$${pair%%:*}" >/dev/null || missing="$$missing $${pair\#\#*:}"; done; \
	if [ -n "$$missing" ]; then \
	  echo "make: installing$$missing"; \
	  as_root=; [ "$$(id -u)" = 0 ] || as_root=sudo; \
	  $$as_root apt-get update -q && \
	  DEBIAN_FRONTEND=noninteractive $$as_root apt-get install -q -y --no-install-recommends $$missing </dev/null || \
	  { echo "make: install$$missing and try again" >&2; exit 1; }; fi

## build: the release binary
build: tools
	$(CARGO) build --release --locked -p weir

## run: Weir on LISTEN in front of ORIGIN (https://host), or of the built-in demo origin
run: build
	$(TARGET_DIR)/release/weir run $(if $(ORIGIN),--origin $(ORIGIN),--demo) --listen $(LISTEN)

## test: the whole suite
test: tools test-tools
	$(CARGO) test --workspace --locked

## lint: format, clippy, dependencies
lint: tools
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets --locked -- -D warnings
	@if command -v cargo-deny >/dev/null; then $(CARGO) deny --offline check bans licenses sources; \
	else echo "make: no cargo-deny here: licences and duplicates are not checked"; fi

tools:
	@command -v $(CARGO) >/dev/null || { echo "make: no cargo: install Rust by rustup, see https://rustup.rs" >&2; exit 1; }
	@$(call need,cc:gcc cmake:cmake)

test-tools: $(SUITE)/node_modules/.package-lock.json
	@$(call need,curl:curl)

$(SUITE)/node_modules/.package-lock.json: $(SUITE)/package-lock.json
	@$(call need,node:nodejs npm:npm)
	@echo "make: installing the packages of $(SUITE)/package-lock.json"
	npm ci --prefix $(SUITE) --no-audit --no-fund </dev/null
	@touch $@

# Every command of this repository; `make help` lists them. Each does its own set-up.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

# Build output stays outside the checkout.
export CARGO_TARGET_DIR ?= $(HOME)/.cache/rehome/target

ARGS ?=
LANES ?=
SEEDS ?= 1000
# For the whole machine as root, else for oneself.
PREFIX ?= $(if $(filter 0,$(shell id -u)),/usr/local,$(HOME)/.local)
export LANES

.PHONY: help demo test build install check fmt sim release setup clean

help: ## list these commands
	@sed -n 's/^\([a-z]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | while IFS=$$'\t' read -r name text; do \
		printf '  make %-9s %s\n' "$$name" "$$text"; done

demo: ## reshard three million flights under load and compare (ARGS='--input zipf' for generated rows)
	@scripts/demo.sh $(ARGS)

test: ## run every test lane (LANES='tidy lint unit conformance simulation integration' chooses)
	@scripts/test.sh

build: ## build the binary; the last line is its path
	@scripts/build.sh

install: ## build the binary and copy it to PREFIX/bin (/usr/local as root, else ~/.local)
	@install -D "$$(scripts/build.sh | tail -n 1)" "$(PREFIX)/bin/rehome" && printf '%s\n' "$(PREFIX)/bin/rehome"

check: ## formatting and lints
	@scripts/check.sh

fmt: ## format the sources
	@cargo fmt --all

sim: ## run the simulation with more seeds (SEEDS=1000)
	@scripts/setup.sh && . "$$HOME/.cache/rehome/env" && \
		REHOME_SIM_SEEDS=$(SEEDS) cargo test --locked -p rehome-simulation -- --nocapture

release: ## build what is shipped: RocksDB from source; the last line is its path
	@scripts/build.sh release

setup: ## only the set-up: system packages, RocksDB, ~/.cache/rehome/env for plain cargo commands
	@scripts/setup.sh

clean: ## remove the build output (the caches stay: rm -r ~/.cache/rehome removes those too)
	@cargo clean

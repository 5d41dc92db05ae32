# Every command of this repository; `make help` lists them. Each does its own set-up.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

# Build output stays outside the checkout.
export CARGO_TARGET_DIR ?= $(HOME)/.cache/rehome/target

ARGS ?=
SERVICE ?=
DESTDIR ?=
LANES ?=
SEEDS ?= 1000
CUTOVERS ?= 500
# For the whole machine as root, else for oneself.
PREFIX ?= $(if $(filter 0,$(shell id -u)),/usr/local,$(HOME)/.local)
export LANES

.PHONY: help demo bench test build install check fmt sim mutants cutovers release setup clean

help: ## list these commands
	@sed -n 's/^\([a-z]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | while IFS=$$'\t' read -r name text; do \
		printf '  make %-9s %s\n' "$$name" "$$text"; done

demo: ## reshard three million flights under load and compare (ARGS='--input zipf' for generated rows)
	@scripts/demo.sh $(ARGS)

bench: ## measure what is shipped, beside what disk and RocksDB do by themselves (ARGS='--repeat 5' and so on)
	@"$$(scripts/build.sh release | tail -n 1)" bench $(ARGS)

test: ## run the test lanes (LANES='tidy lint unit conformance simulation integration broker cutovers' chooses)
	@scripts/test.sh

build: ## build the binary; the last line is its path
	@scripts/build.sh

install: ## build the binary and copy it to PREFIX/bin (/usr/local as root, else ~/.local); SERVICE=1: a systemd service
	@kind=dev; [ -z "$(SERVICE)" ] || kind=release; \
		install -D "$$(scripts/build.sh "$$kind" | tail -n 1)" "$(DESTDIR)$(PREFIX)/bin/rehome"; \
		printf '%s\n' "$(DESTDIR)$(PREFIX)/bin/rehome"
ifneq ($(SERVICE),)
	@install -d "$(DESTDIR)/etc/systemd/system"
	@sed 's|/usr/local/bin/|$(PREFIX)/bin/|' packaging/rehome.service >"$(DESTDIR)/etc/systemd/system/rehome.service"
	@printf '%s\nnext: systemctl daemon-reload && systemctl enable --now rehome\n' "$(DESTDIR)/etc/systemd/system/rehome.service"
endif

check: ## formatting and lints
	@scripts/check.sh

fmt: ## format the sources
	@cargo fmt --all

sim: ## run the simulation with more seeds (SEEDS=1000)
	@scripts/setup.sh && . "$$HOME/.cache/rehome/env" && \
		REHOME_SIM_SEEDS=$(SEEDS) cargo test --locked -p rehome-simulation -- --nocapture

mutants: ## break the product on purpose, by each patch of tests/mutations, and see that it is noticed (ARGS='R6 R12-scan')
	@scripts/mutants.sh $(ARGS)

cutovers: ## five hundred cutovers under load, all counters zero (CUTOVERS=500)
	@REHOME_CUTOVERS=$(CUTOVERS) LANES=cutovers scripts/test.sh

release: ## build what is shipped: RocksDB from source; the last line is its path
	@scripts/build.sh release

setup: ## only the set-up: system packages, RocksDB, ~/.cache/rehome/env for plain cargo commands
	@scripts/setup.sh

clean: ## remove the build output (the caches stay: rm -r ~/.cache/rehome removes those too)
	@cargo clean

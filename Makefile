# The commands of this repository. Anything longer than a line lives in .ci/.

.DEFAULT_GOAL := help
.PHONY: help demo install test manifests chaos hostile drill fuzz bench profile conformance package toolchain servers engine promtool

# A Rust that was installed a moment ago may not be on this shell's PATH yet.
export PATH := $(PATH):$(or $(CARGO_HOME),$(HOME)/.cargo)/bin

# Build servers build exactly what the lock file says; at a desk it may move along with a manifest.
LOCKED := $(if $(filter true,$(CI)),--locked)

help: ## Lists these commands
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "make %-11s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: toolchain servers ## Starts a whole cluster and runs a job on it; EXAMPLE=services shows services that find each other
	cargo build --profile demo $(LOCKED) --package drover
	@EXAMPLE='$(EXAMPLE)' .ci/demo

install: toolchain ## Builds a release, and installs it below PREFIX=/usr/local, in DESTDIR= if that is set
	cargo build --release $(LOCKED) --package drover
	@PREFIX='$(PREFIX)' DESTDIR='$(DESTDIR)' .ci/install

test: toolchain servers engine promtool ## Checks format and lints, and runs every test
	@.ci/skipped forget
	cargo fmt --all --check
	@.ci/checks
	@.ci/kubernetes
	cargo clippy --workspace --all-targets $(LOCKED) -- -D warnings
	@# Documentation first: what ends the output should be the tests.
	cargo test --workspace $(LOCKED) --doc
	cargo test --workspace $(LOCKED) --lib --bins --tests
	@.ci/skipped report

manifests: ## Checks the Helm chart and the Kubernetes manifests, which deploy/kubernetes/render makes from it
	@.ci/kubernetes --admission

chaos: toolchain servers ## Kills and stops everything, and lets clocks, disks and networks fail, ROUNDS=20 times; SEED= chooses again what was chosen, BEFORE=<drover> mixes versions
	@.ci/skipped forget
	ROUNDS=$(or $(ROUNDS),20) SEED=$(SEED) cargo test --package tests $(LOCKED) --test chaos $(ONLY) -- --nocapture --test-threads 1
	@.ci/skipped report

hostile: toolchain servers ## Attacks a cluster in every way of docs/hostile.md, and measures its neighbours; ONLY=slow those so named
	HOSTILE=1 ONLY='$(ONLY)' cargo test --profile measured --package tests $(LOCKED) --test hostile -- --nocapture --test-threads 1

drill: toolchain servers engine ## Runs the image and the compose file, and kills every container; FULL=1 compiles in the image
	@.ci/skipped forget
	$(if $(FULL),,cargo build --release $(LOCKED) --package drover)
	FULL=$(FULL) cargo test --package tests $(LOCKED) --test drill $(ONLY) -- --include-ignored --nocapture --test-threads 1
	@.ci/skipped report

fuzz: toolchain servers ## Fuzzes every target guided by coverage, SECONDS=60 each; ONLY=job_file that one, KEEP=1 keeps inputs
	@LOCKED=$(LOCKED) FUZZ_SECONDS=$(or $(SECONDS),60) .ci/fuzz

bench: toolchain servers ## Runs the benchmarks; ONLY=burst runs that one, ADDR=http://host:port measures what is there, CREDENTIALS=1 TLS=1 with both
	@LOCKED=$(LOCKED) .ci/bench

profile: toolchain servers ## Draws where a benchmark's time goes, as a flame graph; ONLY=burst
	@LOCKED=$(LOCKED) .ci/profile

conformance: toolchain servers ## Compares the scheduler, job files or the HTTP API with recorded cases; CASES=<folder or file>
	@# Scenes of the API are played to the second of these.
	cargo build --quiet --package tests $(LOCKED) --bin conformance --bin drover-under-test
	cargo run --quiet --package tests $(LOCKED) --bin conformance -- '$(or $(CASES),tests/data/scheduling)'

package: toolchain ## Builds the Debian package, and installs and purges it in a small Debian of its own
	@LOCKED=$(LOCKED) .ci/package

toolchain:
	@.ci/toolchain

servers:
	@.ci/servers

engine:
	@.ci/engine

promtool:
	@.ci/promtool

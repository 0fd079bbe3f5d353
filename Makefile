# Every target makes its own set-up; Rust, Node 20 and Python 3.11 are all that must be there before.

# Clean clones on a build machine share one target folder, so that each does not build every dependency again.
ifneq ($(CI),)
ifeq ($(CARGO_TARGET_DIR),)
export CARGO_TARGET_DIR := $(HOME)/.cache/portico/target
endif
endif
target := $(or $(CARGO_TARGET_DIR),target)

.PHONY: help run demo example console dist test check bench docs clean

help: ## Show this list (the default)
	@sed -n 's/^\([a-z]*\):.*## /  make \1\t/p' Makefile | expand -t 16

run: console ## Build and start the server with its console; data goes to ./data
	cargo build --release -p portico --locked
	@echo "This build was quick to make. The fast one, which is shipped and measured: make dist"
	$(target)/release/portico serve

dist: console ## Build the program as it is shipped and measured: slower to build, faster to run
	cargo build --profile dist -p portico --locked
	@echo $(target)/dist/portico

demo: console ## Serve a made-up team with a month behind it, in a folder that goes at the end
	cargo build --release -p portico --locked
	scripts/demo $(target)/release/portico

example: console ## Serve an invoice service behind it, with calls to try; LANGUAGE=typescript or rust for another than Python
	cargo build --release -p portico --locked
	scripts/example $(target)/release/portico $(LANGUAGE)

console_sources := $(wildcard console/*.html console/*.json console/*.ts docs/api/*.json docs/guides/*.md) \
	$(shell find console/src console/build -type f -not -name '*.gen.*')

# Cargo takes what it finds in console/dist. Without Node the server runs all the same, and its console says how to get it.
console: ## Build the console, where Node 20 or later is installed
	@if node -e 'process.exit(parseInt(process.versions.node) < 20 ? 1 : 0)' 2>/dev/null; then \
		$(MAKE) --no-print-directory console/dist/index.html; \
	else \
		echo "Node 20 or later is not here, so the console is not built; everything else is."; \
	fi

console/node_modules/.package-lock.json: console/package-lock.json
	cd console && npm ci

console/dist/index.html: console/node_modules/.package-lock.json $(console_sources)
	cd console && npm run --silent build
	@touch $@

# The cheap judges come first: whoever forgot to format should not wait for a build to learn it. Two tests run at once for
# each processor, because many wait for a server or a clock.
test: ## Format, lints and every test, on both databases and in a browser
	cargo fmt --all --check
	$(MAKE) --no-print-directory console/dist/index.html
	cargo clippy --workspace --all-targets --locked -- -D warnings
	scripts/need-nextest
	scripts/with-postgres cargo nextest run --workspace --locked --test-threads $$((2 * $$(nproc)))
	cargo build --workspace --bins --locked
	scripts/need-chromium
	cd console && npm test --silent

check: ## The slower judges from outside (see check/README.md)
	check/run

# With as many files as it may open: ten thousand connections have two ends each, in a process each.
bench: ## Measure, on both databases; with PART=streams, say, one part alone
	cargo build --profile dist -p portico -p portico-bench --locked
	scripts/need-peers
	ulimit -n "$$(ulimit -Hn)" && scripts/with-postgres $(target)/dist/portico-bench $(PART)

# By way of a second file, so that a failed build does not leave an empty document behind.
docs: ## Write the documents in docs/api and docs/schema.sql anew
	cargo build -p portico --locked
	for name in openapi events asyncapi openapi-persons; do \
		$(target)/debug/portico $$(echo $$name | sed 's/-/ --/') > docs/api/$$name.json.new && mv docs/api/$$name.json.new docs/api/$$name.json || exit 1; \
	done
	$(target)/debug/portico schema > docs/schema.sql.new && mv docs/schema.sql.new docs/schema.sql

clean: ## Remove what was built, the judges' tools included
	cargo clean

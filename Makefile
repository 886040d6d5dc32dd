# Larder. `make demo` and `make check` are the two commands; the README tells the rest.
#
# FLAVOUR=default|asan|tsan puts its objects under build/<flavour>/; O= chooses another folder.

SHELL := /bin/bash
.DEFAULT_GOAL := all
.DELETE_ON_ERROR:

VERSION := 0.1.0
FLAVOUR ?= default
O ?= build
B := $(if $(filter default,$(FLAVOUR)),$(O),$(O)/$(FLAVOUR))
PREFIX ?= /usr
DESTDIR ?=

CC ?= cc
CLANG ?= clang
CFLAGS ?= -O2 -g
WARN := -Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wvla -Wno-unused-parameter
CPPFLAGS += -D_GNU_SOURCE -DLARDER_VERSION='"$(VERSION)"' -Iappliance/include -Iappliance
BASE_CFLAGS := -std=gnu11 -fPIC -fvisibility=hidden -pthread $(WARN) $(CFLAGS)
LDFLAGS += -pthread
ifeq ($(FLAVOUR),asan)
BASE_CFLAGS += -fsanitize=address,undefined -fno-sanitize-recover=undefined -fno-omit-frame-pointer
LDFLAGS += -fsanitize=address,undefined
else ifeq ($(FLAVOUR),tsan)
BASE_CFLAGS += -fsanitize=thread -fno-omit-frame-pointer
LDFLAGS += -fsanitize=thread
else ifneq ($(FLAVOUR),default)
$(error FLAVOUR is default, asan or tsan)
endif
Q := $(if $(V),,@)

# --- modules: which may link which; lowest first (DEPS in reverse link order) ---
MODULES := base mem view wire transport engine node client
DEPS_base :=
DEPS_mem := base
DEPS_view := base
DEPS_wire := base
DEPS_transport := base
DEPS_engine := mem view base
DEPS_node := engine transport wire mem view base
DEPS_client := transport wire base
LIBS_base := -lisal -lxxhash
LIBS_wire := -lcrypto
LIBS_node := -lcrypto
LIBS_client := -lcrypto
LIBS_engine :=
LIBS_transport := -lrdmacm -libverbs
ALL_LIBS := -lisal -lxxhash -lcrypto -lrdmacm -libverbs

include mk/rules.mk
include mk/programs.mk mk/ebpf-tools.mk
include mk/ctl.mk mk/fsview.mk mk/ebpf.mk mk/exporter.mk mk/contract.mk mk/fuzz.mk
include mk/lint.mk mk/sim.mk mk/fault.mk
include mk/tests.mk
include mk/guest.mk mk/packaging.mk

# --- what people type ---
.PHONY: help deps demo run check check-quick check-native bench lint clean
help:
	@sed -n 's/^## //p' Makefile

## make demo          installs what is missing, builds, starts a node, shows it at work, stops it
## make run           the same node in the foreground
## make check         every test that exists
## make check-quick   the inner loop: unit tests, contract, fuzz corpus, lint
## make check-native  FLAVOUR=asan|tsan: the native tiers under a sanitizer
## make bench         ceilings, then the node; figures, chart
## make bench-resp    the RESP port beside Redis and Valkey
## make bench-probes  what listening to probes costs (root)
## make bench-memory  bytes per object and time of a restart with one and two million objects
## make eviction      hit rates of the default policy on the public traces: docs/eviction.md
## make sim           the simulator on fresh seeds: SIM_SEEDS=2000 SIM_BASE=1
## make sim-planted   each planted bug must fall to it
## make fault         the Nth call into the system fails, for every N
## make soak          an hour of churn beside the node's memory: SOAK_SECONDS=3600
## make check-guest   the cases that need RDMA, in a Debian 13 guest; guest-shell: a prompt there
## make lint          layers and limits
## make install       DESTDIR= PREFIX=
## make deb           Debian packages, and what lintian says of them: build/deb

deps: $(O)/.deps
$(O)/.deps: packaging/debian/control
	@packaging/install-deps
	@mkdir -p $(@D) && touch $@

demo: deps
	@$(MAKE) --no-print-directory all
	@BIN=$(abspath $(BIN)) packaging/demo/demo
run: deps
	@$(MAKE) --no-print-directory all
	@BIN=$(abspath $(BIN)) packaging/demo/run
clean:
	rm -rf $(O)

# What the test targets run. Every one ends "N passed, N failed, N skipped".

# Each tier is a target of its own that prints its sum; tests/tiers adds the sums up.
QUICK_TIERS := unit contract fuzz-replay lint
FULL_TIERS := $(QUICK_TIERS) promises sim-check fault-check e2e

.PHONY: unit e2e e2e-threads
unit: $(UNIT_TESTS) $(CTL_TESTS)
	$(Q)tests/run-tests $^

E2E_TESTS := $(patsubst tests/e2e/%.c,$(B)/tests/e2e/%,$(wildcard tests/e2e/test_*.c))
E2E_SCRIPTS := $(wildcard tests/e2e/test_*.sh)
E2E_HARNESS := $(call objs,$(filter-out $(wildcard tests/e2e/test_*.c),$(wildcard tests/e2e/*.c)))
# the modules' archives: what speaks the wire by hand needs names that liblarder.a keeps to itself
$(E2E_TESTS): $(B)/tests/e2e/%: $(B)/obj/tests/e2e/%.o $(E2E_HARNESS) \
		$(call archives,$(CLIENT_MODULES))
	@mkdir -p $(@D)
	@echo "  LD    $@"
	$(Q)$(CC) $(LDFLAGS) $(filter %.o,$^) -Wl,--start-group $(filter %.a,$^) -Wl,--end-group \
		-o $@ -lcmocka -ljansson $(ALL_LIBS)
# under a sanitizer a replay of a whole trace takes minutes: one capacity, in one process
e2e: export LARDER_REPLAY_CAPACITIES ?= $(if $(filter default,$(FLAVOUR)),1000 5859 30000,1000)
e2e: export LARDER_REPLAY_NODE ?= $(if $(filter default,$(FLAVOUR)),5859,none)
e2e: $(PROGRAMS) $(EBPF_PROGRAMS) $(PROBE_TESTS) $(B)/tests/bench/probe_cost $(LIB)/liblarder.a $(LIB)/liblarder.so.$(SOVERSION) $(E2E_TESTS)
	$(Q)BIN=$(abspath $(BIN)) LARDER_TEST_TIMEOUT=600 tests/run-tests $(E2E_TESTS) $(E2E_SCRIPTS)

# --- a program for each promise: tests/promises ---
PROMISE_TESTS := $(patsubst tests/promises/%.c,$(B)/tests/promises/%,$(wildcard tests/promises/p*_*.c))
$(PROMISE_TESTS): $(B)/tests/promises/%: $(B)/obj/tests/promises/%.o \
		$(call objs,tests/promises/promise.c) $(E2E_HARNESS) $(call archives,$(CLIENT_MODULES))
	@mkdir -p $(@D)
	@echo "  LD    $@"
	$(Q)$(CC) $(LDFLAGS) $(filter %.o,$^) -Wl,--start-group $(filter %.a,$^) -Wl,--end-group \
		-o $@ -lcmocka -ljansson $(ALL_LIBS)
.PHONY: promises
promises: $(PROGRAMS) $(PROMISE_TESTS)
	$(Q)BIN=$(abspath $(BIN)) tests/promises/run $(PROMISE_TESTS)

# What a sanitizer can say something about: everything native, and threads where they meet.
ASAN_TIERS := asan:unit asan:contract asan:fuzz-replay asan:sim-check asan:fault-check asan:e2e
TSAN_TIERS := tsan:unit-transport tsan:unit-engine tsan:unit-client tsan:unit-node tsan:contract \
	tsan:e2e-threads

# the end-to-end programs in which the daemon's own threads meet
e2e-threads: $(PROGRAMS) $(EBPF_PROGRAMS) \
		$(addprefix $(B)/tests/e2e/,test_values test_writers test_counts)
	$(Q)BIN=$(abspath $(BIN)) LARDER_TEST_TIMEOUT=900 tests/run-tests $(filter $(B)/tests/%,$^)

check: deps
	@tests/tiers $(MAKE) $(FULL_TIERS) $(ASAN_TIERS) $(TSAN_TIERS)
check-quick: deps
	@tests/tiers $(MAKE) $(QUICK_TIERS)
check-native: deps
	@tests/tiers $(MAKE) $(if $(filter asan,$(FLAVOUR)),$(ASAN_TIERS),$(if \
		$(filter tsan,$(FLAVOUR)),$(TSAN_TIERS),$(FULL_TIERS)))

# hours instead of the minute that `make e2e` gives it; a line a minute
SOAK_SECONDS ?= 3600
.PHONY: soak
soak: deps
	@$(MAKE) --no-print-directory all $(B)/tests/e2e/test_churn
	@BIN=$(abspath $(BIN)) SOAK_SECONDS=$(SOAK_SECONDS) $(B)/tests/e2e/test_churn

# --- figures: build/bench/bench.json and bench.svg ---
BENCH_ARGUMENTS ?=
$(B)/tests/bench/ceiling: tests/bench/ceiling.c
	@mkdir -p $(@D)
	$(Q)$(CC) -D_GNU_SOURCE -std=gnu11 -O2 $(WARN) $< -o $@

# what the probes of a GET cost while nobody listens: tests/e2e/test_probe_cost.sh
PROBE_COST := $(B)/tests/bench/probe_cost
$(PROBE_COST): $(B)/obj/tests/bench/probe_cost.o $(call archives,base)
	@mkdir -p $(@D)
	@echo "  LD    $@"
	$(Q)$(CC) $(LDFLAGS) $^ -o $@ $(LIBS_base)
# what they cost while somebody does: root, a quiet machine
.PHONY: bench-probes
bench-probes: deps
	@$(MAKE) --no-print-directory all
	@tests/bench/probes.py --bin $(abspath $(BIN))

# --- docs/eviction.md: hit rates of the default policy on the public traces, from LARDER_TRACES ---
POLICY_REPLAY := $(B)/tests/bench/policy_replay
$(POLICY_REPLAY): $(B)/obj/tests/bench/policy_replay.o $(call archives,engine $(DEPS_engine))
	@mkdir -p $(@D)
	@echo "  LD    $@"
	$(Q)$(CC) $(LDFLAGS) $< -Wl,--start-group $(filter %.a,$^) -Wl,--end-group -o $@ $(ALL_LIBS)
.PHONY: eviction
eviction: $(POLICY_REPLAY)
	$(Q)tests/bench/eviction.py --replay $< --out docs/eviction.md

# bytes per object, and what a restart with them takes: build/bench/objects.json, a line each
BENCH_OBJECTS ?= 1000000 2000000
.PHONY: bench-memory
bench-memory: deps
	@$(MAKE) --no-print-directory all $(B)/tests/e2e/test_objects
	@mkdir -p $(B)/bench && rm -f $(B)/bench/objects.json
	@BIN=$(abspath $(BIN)) LARDER_OBJECTS="$(BENCH_OBJECTS)" LARDER_JSON=$(B)/bench/objects.json \
		$(B)/tests/e2e/test_objects

bench: deps
	@$(MAKE) --no-print-directory all $(B)/tests/bench/ceiling
	@tests/bench/bench.py --bin $(abspath $(BIN)) --ceiling $(abspath $(B)/tests/bench/ceiling) \
		--out $(B)/bench $(BENCH_ARGUMENTS)

# the RESP port beside Redis and Valkey where they are: build/bench/resp.json
.PHONY: bench-resp
bench-resp: deps
	@$(MAKE) --no-print-directory all $(B)/tests/bench/ceiling
	@tests/bench/resp.py --bin $(abspath $(BIN)) --out $(B)/bench $(BENCH_ARGUMENTS) \
		--ceiling $(abspath $(B)/tests/bench/ceiling)

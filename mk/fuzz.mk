# Fuzz targets: tests/fuzz/fuzz_<name>.c, one per decoder, corpus in tests/fuzz/corpus/fuzz_<name>/.
#
#   make fuzz-replay             every file of every corpus, any compiler, any flavour
#   make fuzz FUZZ_SECONDS=30    libFuzzer with ASan and UBSan on each target; needs clang
#   make fuzz-corpus             writes the seeds again after a change of the wire
#
# FUZZ_DEPS_<target> names the modules that a target links; wire and base unless told.

FUZZ_SECONDS ?= 30
FUZZ_TARGETS := $(patsubst tests/fuzz/%.c,%,$(wildcard tests/fuzz/fuzz_*.c))
FUZZ_REPLAYS := $(FUZZ_TARGETS:%=$(B)/tests/fuzz/replay_%)
FUZZ_DEPS_fuzz_fsview := base
# sources that are in no module
FUZZ_SRCS_fuzz_fsview := fsview/tree.c
fuzz_deps = $(or $(FUZZ_DEPS_$(1)),wire base)

define fuzz
$(B)/obj/tests/fuzz/replay_$(1).o: tests/fuzz/replay.c
	@mkdir -p $$(@D)
	@echo "  CC    $$< ($(1))"
	$$(Q)$$(CC) $$(CPPFLAGS) $$(BASE_CFLAGS) -DFUZZ_CORPUS='"tests/fuzz/corpus/$(1)"' -MMD -MP -c $$< -o $$@

$(B)/tests/fuzz/replay_$(1): $(B)/obj/tests/fuzz/$(1).o $(B)/obj/tests/fuzz/replay_$(1).o \
		$(call objs,$(FUZZ_SRCS_$(1))) $(call archives,$(call fuzz_deps,$(1)))
	@mkdir -p $$(@D)
	@echo "  LD    $$@"
	$$(Q)$$(CC) $$(LDFLAGS) $$(filter %.o,$$^) -Wl,--start-group $$(filter %.a,$$^) -Wl,--end-group \
		-o $$@ $$(ALL_LIBS)

# one compilation of everything: sanitizer coverage wants the library's code, too
$(B)/fuzz/$(1): tests/fuzz/$(1).c tests/fuzz/fuzz.h $(wildcard appliance/*/*.h) $(FUZZ_SRCS_$(1)) $(foreach m,$(call fuzz_deps,$(1)),$(SRCS_$(m)))
	@mkdir -p $$(@D)
	@echo "  FUZZ  $$@"
	$$(Q)$$(CLANG) $$(CPPFLAGS) -std=gnu11 -g -O1 -pthread -fsanitize=fuzzer,address,undefined \
		-fno-sanitize-recover=undefined $$(filter %.c,$$^) -o $$@ $$(ALL_LIBS)
endef
$(foreach t,$(FUZZ_TARGETS),$(eval $(call fuzz,$(t))))

.PHONY: fuzz fuzz-replay fuzz-corpus
fuzz-replay: $(FUZZ_REPLAYS)
	$(Q)tests/run-tests $^

fuzz:
	$(Q)MAKE='$(MAKE)' CLANG='$(CLANG)' tests/fuzz/run $(B)/fuzz $(FUZZ_SECONDS) $(FUZZ_TARGETS)

$(B)/tests/fuzz/make_corpus: $(B)/obj/tests/fuzz/make_corpus.o $(call archives,wire base)
	@mkdir -p $(@D)
	$(Q)$(CC) $(LDFLAGS) $< -Wl,--start-group $(filter %.a,$^) -Wl,--end-group -o $@ $(ALL_LIBS)
fuzz-corpus: $(B)/tests/fuzz/make_corpus
	$(Q)$< tests/fuzz/corpus

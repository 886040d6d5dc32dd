# larder-bpf: makes and pins the BPF maps that larderd counts in.

LARDER_BPF_SRCS := $(addprefix ebpf/,larder_bpf.c pins.c pins_map.c maps_btf.c)
$(BIN)/larder-bpf: $(call objs,$(LARDER_BPF_SRCS)) $(call archives,view base)
	@mkdir -p $(@D)
	@echo "  LD    $@"
	$(Q)$(CC) $(LDFLAGS) $(filter %.o,$^) -Wl,--start-group $(filter %.a,$^) -Wl,--end-group \
		-o $@ -lbpf $(ALL_LIBS)
PROGRAMS += $(BIN)/larder-bpf
all: $(BIN)/larder-bpf

UNIT_ebpf := $(patsubst tests/unit/ebpf/%.c,$(B)/tests/unit/ebpf/%,$(wildcard tests/unit/ebpf/test_*.c))
UNIT_TESTS += $(UNIT_ebpf)
$(patsubst $(B)/tests/%,$(B)/obj/tests/%.o,$(UNIT_ebpf)): CPPFLAGS += -I.
$(B)/tests/unit/ebpf/test_maps_btf: $(call objs,ebpf/maps_btf.c)
$(UNIT_ebpf): $(B)/tests/unit/ebpf/%: $(B)/obj/tests/unit/ebpf/%.o $(call archives,view base)
	@mkdir -p $(@D)
	@echo "  LD    $@"
	$(Q)$(CC) $(LDFLAGS) $(filter %.o,$^) -Wl,--start-group $(filter %.a,$^) -Wl,--end-group \
		-o $@ -lcmocka -lbpf $(ALL_LIBS)
.PHONY: unit-ebpf
unit-ebpf: $(UNIT_ebpf)
	$(Q)tests/run-tests $^

# posts into the ledger itself
$(B)/tests/e2e/test_ledger_cost: $(call archives,view)

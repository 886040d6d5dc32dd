# The tree's own rules (tests/lint/lint), and the reference page that is made from the code.

PROTOCOL_GEN := $(B)/gen/protocol
PROTOCOL_TEMPLATE := appliance/wire/gen/protocol.md.in

$(PROTOCOL_GEN): $(B)/obj/appliance/wire/gen/protocol.o $(call archives,wire base)
	@mkdir -p $(@D)
	@echo "  LD    $@"
	$(Q)$(CC) $(LDFLAGS) $< -Wl,--start-group $(filter %.a,$^) -Wl,--end-group -o $@ $(ALL_LIBS)

.PHONY: docs lint
docs: $(PROTOCOL_GEN)
	@mkdir -p docs $(B)/gen
	$(Q)$< $(PROTOCOL_TEMPLATE) >$(B)/gen/protocol.md
	$(Q)cp $(B)/gen/protocol.md docs/protocol.md

# the self-test first: a lint that can not fail says nothing
lint: $(PROTOCOL_GEN)
	$(Q)CC='$(CC)' LARDER_PROTOCOL_GEN=$(abspath $(PROTOCOL_GEN)) tests/run-tests \
		tests/lint/selftest tests/lint/lint

# The transport contract: one program, every transport of the registry.

CONTRACT := $(B)/tests/contract/contract
CONTRACT_OBJS := $(call objs,$(wildcard tests/contract/*.c))
$(CONTRACT): $(CONTRACT_OBJS) $(call archives,transport base)
	@mkdir -p $(@D)
	@echo "  LD    $@"
	$(Q)$(CC) $(LDFLAGS) $(CONTRACT_OBJS) -Wl,--start-group $(filter %.a,$^) -Wl,--end-group \
		-o $@ -lcmocka $(ALL_LIBS)

.PHONY: contract
contract: $(CONTRACT)
	$(Q)tests/run-tests $(CONTRACT)

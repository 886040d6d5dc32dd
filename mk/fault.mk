# The fault sweep: the Nth call into the system fails, for N = 1, 2, ... until none is left to fail.
#
#   make fault          every case; FAULT_ARGUMENTS="--scenario put --transport tcp" for some
#   make fault-check    make check's form: every case, under a sanitizer every FAULT_EVERY-th call
#
# A case that fails ends with the command that does it again.

FAULT_WRAPS := $(shell tests/fault/calls --names) free munmap
FAULT_LDFLAGS := -no-pie $(FAULT_WRAPS:%=-Wl,--wrap=%)
FAULT_EVERY ?= $(if $(filter default,$(FLAVOUR)),1,4)
FAULT_ARGUMENTS ?=
FAULT := $(B)/tests/fault/fault
FAULT_INJECT_OBJS := $(call objs,$(addprefix tests/fault/,inject.c books.c wraps.c))
FAULT_OBJS := $(FAULT_INJECT_OBJS) $(call objs,$(addprefix tests/fault/,world.c steps.c calls.c \
	verify.c scenarios.c fault.c))
$(FAULT): $(FAULT_OBJS) $(call archives,$(MODULES))
	@mkdir -p $(@D)
	@echo "  LD    $@"
	$(Q)$(CC) $(LDFLAGS) $(FAULT_LDFLAGS) $(FAULT_OBJS) \
		-Wl,--start-group $(filter %.a,$^) -Wl,--end-group -o $@ $(ALL_LIBS)

# Sanitizers add calls of their own to the objects: the list is checked without them.
FAULT_CALLS_CHECK := $(if $(filter default,$(FLAVOUR)),$(B)/tests/fault/calls_check)
$(B)/tests/fault/calls_check: tests/fault/calls tests/fault/calls.def tests/fault/calls.exempt \
		$(call archives,$(MODULES)) $(call objs,$(DAEMON_SRCS))
	@mkdir -p $(@D)
	$(Q)printf '#!/bin/sh\nexec tests/fault/calls %s\n' '$(filter %.a %.o,$^)' >$@
	$(Q)chmod +x $@

.PHONY: fault fault-check
fault: $(FAULT) $(FAULT_CALLS_CHECK)
	$(Q)$(if $(FAULT_CALLS_CHECK),$(FAULT_CALLS_CHECK) && )$(FAULT) $(FAULT_ARGUMENTS)
$(B)/tests/fault/fault_check: $(FAULT) mk/fault.mk
	$(Q)printf '#!/bin/sh\nexec %s --every %s\n' '$(FAULT)' '$(FAULT_EVERY)' >$@
	$(Q)chmod +x $@
fault-check: $(B)/tests/fault/fault_check $(FAULT_CALLS_CHECK)
	$(Q)LARDER_TEST_TIMEOUT=600 tests/run-tests $(FAULT_CALLS_CHECK) $<

# The fault sweep: the Nth call into the system fails, for N = 1, 2, ... until none is left to fail.
#
#   make fault          every case; and again with three more calls of that name failing after it
#   make fault-check    make check's form: every FAULT_EVERY-th call of the libraries and every
#                       FAULT_DAEMON_EVERY-th of the daemon, about half a minute
#
# A case that fails ends with the command that does it again.

FAULT_WRAPS := $(shell tests/fault/known_calls --names) free munmap
FAULT_LDFLAGS := -no-pie $(FAULT_WRAPS:%=-Wl,--wrap=%)
FAULT := $(B)/tests/fault/fault
FAULT_INJECT_OBJS := $(call objs,$(addprefix tests/fault/,inject.c books.c wraps.c))
FAULT_OBJS := $(FAULT_INJECT_OBJS) $(call objs,$(addprefix tests/fault/,world.c steps.c calls.c \
	verify.c scenarios.c fault.c))
$(FAULT): $(FAULT_OBJS) $(call archives,$(MODULES))
	@mkdir -p $(@D)
	@echo "  LD    $@"
	$(Q)$(CC) $(LDFLAGS) $(FAULT_LDFLAGS) $(FAULT_OBJS) \
		-Wl,--start-group $(filter %.a,$^) -Wl,--end-group -o $@ $(ALL_LIBS)

LARDERD_FAULT := $(B)/tests/fault/larderd
LARDERD_FAULT_OBJS := $(FAULT_INJECT_OBJS) $(call objs,tests/fault/wraps_daemon.c)
$(LARDERD_FAULT): $(call objs,$(DAEMON_SRCS)) $(LARDERD_FAULT_OBJS) $(call archives,$(MODULES))
	@mkdir -p $(@D)
	@echo "  LD    $@"
	$(Q)$(CC) $(LDFLAGS) $(FAULT_LDFLAGS) $(filter %.o,$^) \
		-Wl,--start-group $(filter %.a,$^) -Wl,--end-group -o $@ $(ALL_LIBS) \
		$(DAEMON_LIBS)

# Sanitizers add calls of their own to the objects: the list is checked without them.
FAULT_CALLS_CHECK := $(if $(filter default,$(FLAVOUR)),$(B)/tests/fault/calls_check)
$(B)/tests/fault/calls_check: tests/fault/known_calls tests/fault/calls.def tests/fault/calls.exempt \
		$(call archives,$(MODULES)) $(call objs,$(DAEMON_SRCS))
	@mkdir -p $(@D)
	$(call fault_script,tests/fault/known_calls $(filter %.a %.o,$^))

# A program with its arguments, as tests/run-tests wants it.
fault_script = @mkdir -p $(@D) && printf '\#!/bin/sh\nexec %s\n' '$(1)' >$@ && chmod +x $@
$(B)/tests/fault/check: $(FAULT) mk/fault.mk
	$(call fault_script,$(FAULT) --every $${FAULT_EVERY:-1})
$(B)/tests/fault/burst: $(FAULT) mk/fault.mk
	$(call fault_script,$(FAULT) --burst 3)
$(B)/tests/fault/daemon_check: $(LARDERD_FAULT) mk/fault.mk
	$(call fault_script,tests/fault/daemon_sweep $(LARDERD_FAULT) \
		--every $${FAULT_DAEMON_EVERY:-1})

.PHONY: fault fault-check
fault-check: export FAULT_EVERY ?= $(if $(filter default,$(FLAVOUR)),1,4)
fault-check: export FAULT_DAEMON_EVERY ?= $(if $(filter default,$(FLAVOUR)),3,12)
fault: $(B)/tests/fault/burst
fault fault-check: $(FAULT_CALLS_CHECK) $(B)/tests/fault/check $(B)/tests/fault/daemon_check
	$(Q)LARDER_TEST_TIMEOUT=1200 tests/run-tests $(filter $(B)/tests/%,$^)

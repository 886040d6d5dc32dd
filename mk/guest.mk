# A Debian 13 guest with soft-RoCE under QEMU: tests/guest/README.md tells how it is made.
# Everything is under $(O)/guest; GUEST_TREES can name trees that another build folder has made.

GUEST_OUT := $(abspath $(O))/guest
GUEST_TREES ?= $(GUEST_OUT)/trees
GUEST_CASES ?= $(notdir $(wildcard tests/guest/cases/*))
# what the cases run, built for Debian 13
GUEST_GOALS := guest-programs
export GUEST_OUT GUEST_TREES

# asked for inside the tools tree
.PHONY: guest-programs
guest-programs: $(PROGRAMS) $(EBPF_PROGRAMS) $(PROBE_TESTS) $(LIB)/liblarder.a \
	$(LIB)/liblarder.so.$(SOVERSION) $(UNIT_TESTS) $(CTL_TESTS) $(CONTRACT) \
	$(addprefix $(B)/tests/e2e/,test_client test_values)

.PHONY: guest-trees guest-build check-guest guest-shell
guest-trees:
	$(Q)tests/guest/trees $(GUEST_TREES)
guest-build: guest-trees
	$(Q)tests/guest/build $(GUEST_TREES) $(GUEST_OUT) $(GUEST_GOALS)
check-guest: deps
	$(Q)tests/guest/check $(GUEST_CASES)
guest-shell: guest-build
	$(Q)tests/guest/run --shell

# How objects, archives, programs and tests are made. Names and dependencies are in the Makefile.

objs = $(patsubst %.c,$(B)/obj/%.o,$(1))
archive = $(B)/obj/lib$(1).a
archives = $(foreach m,$(1),$(call archive,$(m)))

$(B)/obj/%.o: %.c
	@mkdir -p $(@D)
	@echo "  CC    $<"
	$(Q)$(CC) $(CPPFLAGS) $(BASE_CFLAGS) $(EXTRA_CFLAGS) -MMD -MP -c $< -o $@

define module
SRCS_$(1) := $$(wildcard appliance/$(1)/*.c)
$$(call archive,$(1)): $$(call objs,$$(SRCS_$(1)))
	@mkdir -p $$(@D)
	@echo "  AR    $$(@F)"
	$$(Q)rm -f $$@ && ar crs $$@ $$^
.PHONY: lib-$(1)
lib-$(1): $$(call archive,$(1))
endef
$(foreach m,$(MODULES),$(eval $(call module,$(m))))

# --- unit tests: tests/unit/<module>/test_*.c link that module and what it may include ---
define unit
UNIT_$(1) := $$(patsubst tests/unit/$(1)/%.c,$$(B)/tests/unit/$(1)/%,$$(wildcard tests/unit/$(1)/test_*.c))
UNIT_TESTS += $$(UNIT_$(1))
$$(UNIT_$(1)): $$(B)/tests/unit/$(1)/%: $$(B)/obj/tests/unit/$(1)/%.o $$(call archives,$(1) $$(DEPS_$(1)))
	@mkdir -p $$(@D)
	@echo "  LD    $$@"
	$$(Q)$$(CC) $$(LDFLAGS) $$< -Wl,--start-group $$(filter %.a,$$^) -Wl,--end-group -o $$@ -lcmocka $$(ALL_LIBS)
.PHONY: unit-$(1)
unit-$(1): $$(UNIT_$(1))
	$$(Q)tests/run-tests $$^
endef
$(foreach m,$(MODULES),$(eval $(call unit,$(m))))

.PHONY: all
all: $(call archives,$(MODULES))

DEPFILES := $(shell find $(B)/obj -name '*.d' 2>/dev/null)
-include $(DEPFILES)

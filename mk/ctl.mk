# larderctl: daemon/ctl/*.c over the public headers and the libraries' archives; its unit tests link
# all of it but main.c. Included from mk/rules.mk.

CTL_SRCS := $(wildcard daemon/ctl/*.c)
CTL_OBJS := $(call objs,$(CTL_SRCS))
CTL_LIBS := -lsmartcols -ljansson -lm
CTL_ARCHIVES := $(call archives,$(MODULES))

$(CTL_OBJS): CPPFLAGS += -Idaemon

$(B)/bin/larderctl: $(CTL_OBJS) $(CTL_ARCHIVES)
	@mkdir -p $(@D)
	@echo "  LD    $@"
	$(Q)$(CC) $(LDFLAGS) $(CTL_OBJS) -Wl,--start-group $(CTL_ARCHIVES) -Wl,--end-group -o $@ \
		$(CTL_LIBS) $(ALL_LIBS)

.PHONY: larderctl
larderctl: $(B)/bin/larderctl
all: $(B)/bin/larderctl

UNIT_ctl := $(patsubst tests/unit/ctl/%.c,$(B)/tests/unit/ctl/%,$(wildcard tests/unit/ctl/test_*.c))
UNIT_TESTS += $(UNIT_ctl)
UNIT_CTL_OBJS := $(filter-out $(B)/obj/daemon/ctl/main.o,$(CTL_OBJS)) \
	$(call objs,$(filter-out $(wildcard tests/unit/ctl/test_*.c),$(wildcard tests/unit/ctl/*.c)))

$(patsubst $(B)/tests/unit/ctl/%,$(B)/obj/tests/unit/ctl/%.o,$(UNIT_ctl)) \
$(filter $(B)/obj/tests/%,$(UNIT_CTL_OBJS)): CPPFLAGS += -Idaemon

$(UNIT_ctl): $(B)/tests/unit/ctl/%: $(B)/obj/tests/unit/ctl/%.o $(UNIT_CTL_OBJS) $(CTL_ARCHIVES)
	@mkdir -p $(@D)
	@echo "  LD    $@"
	$(Q)$(CC) $(LDFLAGS) $< $(UNIT_CTL_OBJS) -Wl,--start-group $(CTL_ARCHIVES) -Wl,--end-group \
		-o $@ -lcmocka $(CTL_LIBS) $(ALL_LIBS)

.PHONY: unit-ctl
unit-ctl: $(UNIT_ctl)
	$(Q)tests/run-tests $^

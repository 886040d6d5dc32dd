# larderfs: fsview/*.c over the public headers, the client library and libfuse3; its unit tests link
# all of it but main.c.

FSVIEW_SRCS := $(wildcard fsview/*.c)
FSVIEW_LIBS := -lfuse3 -ljansson -lsystemd
FSVIEW_ARCHIVES := $(call archives,$(CLIENT_MODULES))

$(BIN)/larderfs: $(call objs,$(FSVIEW_SRCS)) $(FSVIEW_ARCHIVES)
	@mkdir -p $(@D)
	@echo "  LD    $@"
	$(Q)$(CC) $(LDFLAGS) $(filter %.o,$^) -Wl,--start-group $(FSVIEW_ARCHIVES) -Wl,--end-group \
		-o $@ $(FSVIEW_LIBS) $(ALL_LIBS)

UNIT_fsview := $(patsubst tests/unit/fsview/%.c,$(B)/tests/unit/fsview/%,$(wildcard tests/unit/fsview/test_*.c))
UNIT_TESTS += $(UNIT_fsview)
$(patsubst $(B)/tests/%,$(B)/obj/tests/%.o,$(UNIT_fsview)): CPPFLAGS += -I.
$(UNIT_fsview): $(B)/tests/unit/fsview/%: $(B)/obj/tests/unit/fsview/%.o \
		$(call objs,$(filter-out fsview/main.c,$(FSVIEW_SRCS))) $(FSVIEW_ARCHIVES)
	@mkdir -p $(@D)
	@echo "  LD    $@"
	$(Q)$(CC) $(LDFLAGS) $(filter %.o,$^) -Wl,--start-group $(FSVIEW_ARCHIVES) -Wl,--end-group \
		-o $@ -lcmocka $(FSVIEW_LIBS) $(ALL_LIBS)
.PHONY: unit-fsview
unit-fsview: $(UNIT_fsview)
	$(Q)tests/run-tests $^

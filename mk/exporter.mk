# larder-exporter: daemon/exporter/*.c, with larderctl's readers of the control socket and ledger.

EXPORTER_OBJS := $(call objs,$(wildcard daemon/exporter/*.c))
EXPORTER_SHARED := $(call objs,$(addprefix daemon/ctl/,control.c ledger_read.c util.c))
$(EXPORTER_OBJS): CPPFLAGS += -Idaemon

$(BIN)/larder-exporter: $(EXPORTER_OBJS) $(EXPORTER_SHARED) $(call archives,view base)
	@mkdir -p $(@D)
	@echo "  LD    $@"
	$(Q)$(CC) $(LDFLAGS) $^ -o $@ -lmicrohttpd -ljansson -lsystemd -lm $(ALL_LIBS)
PROGRAMS += $(BIN)/larder-exporter
all: $(BIN)/larder-exporter

UNIT_exporter := $(patsubst tests/unit/exporter/%.c,$(B)/tests/unit/exporter/%,$(wildcard tests/unit/exporter/test_*.c))
UNIT_TESTS += $(UNIT_exporter)
$(patsubst $(B)/tests/%,$(B)/obj/tests/%.o,$(UNIT_exporter)): CPPFLAGS += -Idaemon
$(UNIT_exporter): $(B)/tests/unit/exporter/%: $(B)/obj/tests/unit/exporter/%.o \
		$(filter-out %/main.o,$(EXPORTER_OBJS)) $(EXPORTER_SHARED) $(call archives,view base)
	@mkdir -p $(@D)
	@echo "  LD    $@"
	$(Q)$(CC) $(LDFLAGS) $(filter %.o,$^) -Wl,--start-group $(filter %.a,$^) -Wl,--end-group \
		-o $@ -lcmocka -ljansson -lm $(ALL_LIBS)
.PHONY: unit-exporter
unit-exporter: $(UNIT_exporter)
	$(Q)tests/run-tests $^

.PHONY: install-dashboards
install: install-dashboards
install-dashboards:
	install -d $(DESTDIR)$(PREFIX)/share/larder/dashboards $(DESTDIR)$(PREFIX)/share/man/man8
	install -m 0755 packaging/dashboards/larder-* $(DESTDIR)$(PREFIX)/share/larder/dashboards/
	install -m 0644 packaging/dashboards/*.yml packaging/dashboards/*.json \
		$(DESTDIR)$(PREFIX)/share/larder/dashboards/
	install -m 0644 packaging/man/larder-exporter.8 $(DESTDIR)$(PREFIX)/share/man/man8/

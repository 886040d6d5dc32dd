# Programs and libraries under build/bin and build/lib, and their installation.

BIN := $(B)/bin
LIB := $(B)/lib
SOVERSION := 1
CLIENT_MODULES := client transport wire base

# --- liblarder: what an engine links ---
CLIENT_OBJS = $(foreach m,$(CLIENT_MODULES),$(call objs,$(SRCS_$(m))))

$(LIB)/liblarder.so.$(SOVERSION): $(CLIENT_OBJS) appliance/client/liblarder.map
	@mkdir -p $(@D)
	@echo "  LD    $@"
	$(Q)$(CC) -shared $(LDFLAGS) -Wl,-soname,liblarder.so.$(SOVERSION) \
		-Wl,--version-script=appliance/client/liblarder.map $(if $(filter default,$(FLAVOUR)),-Wl$(comma)-z$(comma)defs) \
		$(filter %.o,$^) -o $@ $(ALL_LIBS)
	$(Q)ln -sf liblarder.so.$(SOVERSION) $(LIB)/liblarder.so
comma := ,

# One object in which only the public names are global, so that a program's own crc32c or core_open
# stays its own. A sanitizer's module constructors want the objects as they are.
OBJCOPY ?= objcopy
$(LIB)/liblarder.a: $(CLIENT_OBJS)
	@mkdir -p $(@D)
	@echo "  AR    $@"
ifeq ($(FLAVOUR),default)
	$(Q)$(CC) -r -nostdlib $^ -o $(@D)/larder.o
	$(Q)$(OBJCOPY) -w --keep-global-symbol='larder_*' $(@D)/larder.o
	$(Q)rm -f $@ && ar crs $@ $(@D)/larder.o && rm -f $(@D)/larder.o
else
	$(Q)rm -f $@ && ar crs $@ $^
endif

# --- liblarder-node: the node for those who embed it (larderd, replay, tests) ---
$(LIB)/liblarder-node.a: $(foreach m,$(MODULES),$(call objs,$(SRCS_$(m))))
	@mkdir -p $(@D)
	@echo "  AR    $@"
	$(Q)rm -f $@ && ar crs $@ $^

# made each time: PREFIX may be another than at the last build
.PHONY: larder.pc
larder.pc: packaging/larder.pc.in
	@mkdir -p $(LIB)/pkgconfig
	$(Q)sed -e 's|@PREFIX@|$(PREFIX)|g; s|@VERSION@|$(VERSION)|g' $< >$(LIB)/pkgconfig/larder.pc

# --- larderd ---
DAEMON_SRCS := $(wildcard daemon/*.c)
DAEMON_LIBS := -linih -ljansson -lsystemd -lbpf
$(BIN)/larderd: $(call objs,$(DAEMON_SRCS)) $(LIB)/liblarder-node.a
	@mkdir -p $(@D)
	@echo "  LD    $@"
	$(Q)$(CC) $(LDFLAGS) $^ -o $@ $(ALL_LIBS) $(DAEMON_LIBS)

# its unit tests link all of it but main.c
UNIT_daemon := $(patsubst tests/unit/daemon/%.c,$(B)/tests/unit/daemon/%,$(wildcard tests/unit/daemon/test_*.c))
UNIT_TESTS += $(UNIT_daemon)
$(patsubst $(B)/tests/%,$(B)/obj/tests/%.o,$(UNIT_daemon)): CPPFLAGS += -I.
$(UNIT_daemon): $(B)/tests/unit/daemon/%: $(B)/obj/tests/unit/daemon/%.o \
		$(call objs,$(filter-out daemon/main.c,$(DAEMON_SRCS))) $(LIB)/liblarder-node.a
	@mkdir -p $(@D)
	@echo "  LD    $@"
	$(Q)$(CC) $(LDFLAGS) $^ -o $@ -lcmocka $(ALL_LIBS) $(DAEMON_LIBS)
.PHONY: unit-daemon
unit-daemon: $(UNIT_daemon)
	$(Q)tests/run-tests $^

$(B)/man/larderd.conf.5: packaging/man/larderd.conf.5.in $(BIN)/larderd
	@mkdir -p $(@D)
	$(Q)$(BIN)/larderd --dump-man >$@.options
	$(Q)$(BIN)/larderd --dump-man-limits >$@.limits
	$(Q)sed -e '/@OPTIONS@/{r $@.options' -e 'd}' -e '/@LIMITS@/{r $@.limits' -e 'd}' \
		-e 's/@VERSION@/$(VERSION)/' $< >$@
	$(Q)rm -f $@.options $@.limits

PROGRAMS := $(BIN)/larderd $(BIN)/larderctl $(BIN)/larderfs
LIBRARIES := $(LIB)/liblarder.so.$(SOVERSION) $(LIB)/liblarder.a $(LIB)/liblarder-node.a
all: $(PROGRAMS) $(LIBRARIES) larder.pc $(B)/man/larderd.conf.5

LIBDIR ?= $(PREFIX)/lib/$(shell $(CC) -print-multiarch 2>/dev/null)
.PHONY: install
install: all
	install -d $(DESTDIR)$(PREFIX)/bin $(DESTDIR)$(LIBDIR)/pkgconfig \
		$(DESTDIR)$(PREFIX)/include/larder $(DESTDIR)$(PREFIX)/share/man/man1 \
		$(DESTDIR)$(PREFIX)/share/man/man5 $(DESTDIR)$(PREFIX)/share/man/man7 \
		$(DESTDIR)$(PREFIX)/share/man/man8 \
		$(DESTDIR)$(PREFIX)/share/bash-completion/completions
	install -m 0755 $(PROGRAMS) $(DESTDIR)$(PREFIX)/bin/
	install -m 0644 appliance/include/larder/*.h $(DESTDIR)$(PREFIX)/include/larder/
	install -m 0755 $(LIB)/liblarder.so.$(SOVERSION) $(DESTDIR)$(LIBDIR)/
	ln -sf liblarder.so.$(SOVERSION) $(DESTDIR)$(LIBDIR)/liblarder.so
	install -m 0644 $(LIB)/liblarder.a $(LIB)/liblarder-node.a $(DESTDIR)$(LIBDIR)/
	install -m 0644 $(LIB)/pkgconfig/larder.pc $(DESTDIR)$(LIBDIR)/pkgconfig/
	install -m 0644 packaging/man/larderctl.1 $(DESTDIR)$(PREFIX)/share/man/man1/
	install -m 0644 packaging/man/larderd.8 $(DESTDIR)$(PREFIX)/share/man/man8/
	install -m 0644 $(B)/man/larderd.conf.5 $(DESTDIR)$(PREFIX)/share/man/man5/
	install -m 0644 packaging/man/larder-lmcache.7 $(DESTDIR)$(PREFIX)/share/man/man7/
	install -m 0644 packaging/man/larder-bpf.8 $(DESTDIR)$(PREFIX)/share/man/man8/
	install -m 0644 packaging/man/larderfs.8 $(DESTDIR)$(PREFIX)/share/man/man8/
	install -m 0644 packaging/completions/larderctl packaging/completions/larderfs \
		packaging/completions/larderd \
		$(DESTDIR)$(PREFIX)/share/bash-completion/completions/

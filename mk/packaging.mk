# What makes the programs a service: units, users, folders, rules. `make install` ends with it.

UNITDIR ?= $(PREFIX)/lib/systemd/system
SERVICE_DIRS := sysusers.d tmpfiles.d modules-load.d

.PHONY: install-service
install: install-service
# copies only: tests install it without a build
install-service:
	install -d $(DESTDIR)$(UNITDIR) $(DESTDIR)$(PREFIX)/lib/udev/rules.d \
		$(SERVICE_DIRS:%=$(DESTDIR)$(PREFIX)/lib/%) \
		$(DESTDIR)$(PREFIX)/share/dbus-1/system.d $(DESTDIR)$(PREFIX)/share/dbus-1/interfaces \
		$(DESTDIR)$(PREFIX)/share/polkit-1/actions
	$(Q)for u in packaging/systemd/*; do \
		sed 's|@PREFIX@|$(PREFIX)|g' $$u >$(DESTDIR)$(UNITDIR)/$${u##*/} && \
		chmod 0644 $(DESTDIR)$(UNITDIR)/$${u##*/} || exit; done
	$(Q)for d in $(SERVICE_DIRS); do \
		install -m 0644 packaging/$$d/*.conf $(DESTDIR)$(PREFIX)/lib/$$d/ || exit; done
	install -m 0644 packaging/dbus/*.conf $(DESTDIR)$(PREFIX)/share/dbus-1/system.d/
	install -m 0644 packaging/dbus/*.xml $(DESTDIR)$(PREFIX)/share/dbus-1/interfaces/
	install -m 0644 packaging/dbus/*.policy $(DESTDIR)$(PREFIX)/share/polkit-1/actions/
	install -m 0644 packaging/udev/*.rules $(DESTDIR)$(PREFIX)/lib/udev/rules.d/

# the other end of a bus, for tests/e2e/test_bus.sh
BUS_PEER := $(B)/tests/double/bus_peer
$(BUS_PEER): $(B)/obj/tests/double/bus_peer.o
	@mkdir -p $(@D)
	@echo "  LD    $@"
	$(Q)$(CC) $(LDFLAGS) $< -o $@ -lsystemd
e2e: export LARDER_BUS_PEER = $(abspath $(BUS_PEER))
e2e: $(BUS_PEER)

# --- Debian packages of this tree, for the Debian that this is: build/deb ---
.PHONY: deb
deb: deps
	$(Q)packaging/build-deb $(O)/deb

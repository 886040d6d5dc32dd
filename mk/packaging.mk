# What makes the programs a service: units, users, folders, rules. `make install` ends with it.

UNITDIR ?= $(PREFIX)/lib/systemd/system
SERVICE_DIRS := sysusers.d tmpfiles.d modules-load.d

.PHONY: install-service
install: install-service
# copies only: tests install it without a build
install-service:
	install -d $(DESTDIR)$(UNITDIR) $(DESTDIR)$(PREFIX)/lib/udev/rules.d \
		$(SERVICE_DIRS:%=$(DESTDIR)$(PREFIX)/lib/%)
	$(Q)for u in packaging/systemd/*; do \
		sed 's|@PREFIX@|$(PREFIX)|g' $$u >$(DESTDIR)$(UNITDIR)/$${u##*/} && \
		chmod 0644 $(DESTDIR)$(UNITDIR)/$${u##*/} || exit; done
	$(Q)for d in $(SERVICE_DIRS); do \
		install -m 0644 packaging/$$d/*.conf $(DESTDIR)$(PREFIX)/lib/$$d/ || exit; done
	install -m 0644 packaging/udev/*.rules $(DESTDIR)$(PREFIX)/lib/udev/rules.d/

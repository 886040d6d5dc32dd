# The tools on probes: ebpf/<tool>.bpf.c for the kernel, ebpf/<tool>.[ch] around its skeleton.
# Included after mk/programs.mk.

EBPF_TOOLS := acct oplat slow evict connlife witness
BPFTOOL ?= $(or $(shell PATH="$$PATH:/usr/sbin:/sbin" command -v bpftool),bpftool)
BPF_ARCH := $(or $(patsubst x86_64,x86,$(filter x86_64,$(shell uname -m))),$(patsubst \
	aarch64,arm64,$(filter aarch64,$(shell uname -m))),$(shell uname -m))
# freestanding: the kernel's published headers, and no libc's
BPF_CFLAGS := -g -O2 -Wall -target bpf -ffreestanding -D__TARGET_ARCH_$(BPF_ARCH) \
	-Iappliance/include -I/usr/include/$(shell $(CC) -print-multiarch 2>/dev/null)
EBPF_OBJ := $(B)/obj/ebpf
EBPF_SHARED := $(call objs,ebpf/tool.c ebpf/tool_names.c ebpf/tool_print.c)
EBPF_PROGRAMS := $(EBPF_TOOLS:%=$(BIN)/larder-%)

$(EBPF_OBJ)/%.bpf.o: ebpf/%.bpf.c ebpf/%.h ebpf/types.bpf.h ebpf/kernel.bpf.h \
		appliance/include/larder/probes.h
	@mkdir -p $(@D)
	@echo "  BPF   $<"
	$(Q)$(CLANG) $(BPF_CFLAGS) -c $< -o $@

$(EBPF_OBJ)/%.skel.h: $(EBPF_OBJ)/%.bpf.o
	@echo "  SKEL  $(@F)"
	$(Q)$(BPFTOOL) gen skeleton $< name $*_bpf >$@

$(EBPF_TOOLS:%=$(EBPF_OBJ)/%.o): $(EBPF_OBJ)/%.o: $(EBPF_OBJ)/%.skel.h
$(EBPF_TOOLS:%=$(EBPF_OBJ)/%.o): CPPFLAGS += -I$(EBPF_OBJ)

$(EBPF_PROGRAMS): $(BIN)/larder-%: $(EBPF_OBJ)/%.o $(EBPF_SHARED) $(call archives,base)
	@mkdir -p $(@D)
	@echo "  LD    $@"
	$(Q)$(CC) $(LDFLAGS) $(filter %.o,$^) $(filter %.a,$^) -o $@ -lbpf -ljansson \
		$(LIBS_base)

install: install-ebpf-tools
.PHONY: install-ebpf-tools
install-ebpf-tools: $(EBPF_PROGRAMS)
	install -d $(DESTDIR)$(PREFIX)/sbin $(DESTDIR)$(PREFIX)/share/man/man8
	install -m 0755 $^ $(DESTDIR)$(PREFIX)/sbin/
	install -m 0644 $(EBPF_TOOLS:%=packaging/man/larder-%.8) $(DESTDIR)$(PREFIX)/share/man/man8/

.PHONY: ebpf-tools
ebpf-tools: $(EBPF_PROGRAMS)
all: $(EBPF_PROGRAMS)
.PRECIOUS: $(EBPF_OBJ)/%.bpf.o $(EBPF_OBJ)/%.skel.h

# --- what tests attach to every probe, and a binary with one probe at several places ---
PROBE_TESTS := $(B)/tests/probe/attach $(B)/tests/probe/sites
PROBE_OBJ := $(B)/obj/tests/probe
$(PROBE_OBJ)/attach.bpf.o: tests/probe/attach.bpf.c tests/probe/attach.h ebpf/types.bpf.h \
		appliance/include/larder/probes.h
	@mkdir -p $(@D)
	@echo "  BPF   $<"
	$(Q)$(CLANG) $(BPF_CFLAGS) -Iebpf -c $< -o $@
$(PROBE_OBJ)/attach.skel.h: $(PROBE_OBJ)/attach.bpf.o
	@echo "  SKEL  $(@F)"
	$(Q)$(BPFTOOL) gen skeleton $< name attach_bpf >$@
$(PROBE_OBJ)/attach.o: $(PROBE_OBJ)/attach.skel.h
$(PROBE_OBJ)/attach.o: CPPFLAGS += -I$(PROBE_OBJ)
$(PROBE_TESTS): $(B)/tests/probe/%: $(PROBE_OBJ)/%.o $(call archives,base)
	@mkdir -p $(@D)
	@echo "  LD    $@"
	$(Q)$(CC) $(LDFLAGS) $(filter %.o,$^) $(filter %.a,$^) -o $@ -lbpf -ljansson $(LIBS_base)
.PRECIOUS: $(PROBE_OBJ)/attach.bpf.o $(PROBE_OBJ)/attach.skel.h

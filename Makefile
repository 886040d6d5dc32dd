# Larder. `make demo` and `make check` are the two commands; the README tells the rest.
#
# FLAVOUR=default|asan|tsan puts its objects under build/<flavour>/; O= chooses another folder.

SHELL := /bin/bash
.DEFAULT_GOAL := all
.DELETE_ON_ERROR:

VERSION := 0.1.0
FLAVOUR ?= default
O ?= build
B := $(if $(filter default,$(FLAVOUR)),$(O),$(O)/$(FLAVOUR))
PREFIX ?= /usr
DESTDIR ?=

CC ?= cc
CLANG ?= clang
CFLAGS ?= -O2 -g
WARN := -Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wvla -Wno-unused-parameter
CPPFLAGS += -D_GNU_SOURCE -DLARDER_VERSION='"$(VERSION)"' -Iappliance/include -Iappliance
BASE_CFLAGS := -std=gnu11 -fPIC -fvisibility=hidden -pthread $(WARN) $(CFLAGS)
LDFLAGS += -pthread
ifeq ($(FLAVOUR),asan)
BASE_CFLAGS += -fsanitize=address,undefined -fno-sanitize-recover=undefined -fno-omit-frame-pointer
LDFLAGS += -fsanitize=address,undefined
else ifeq ($(FLAVOUR),tsan)
BASE_CFLAGS += -fsanitize=thread -fno-omit-frame-pointer
LDFLAGS += -fsanitize=thread
else ifneq ($(FLAVOUR),default)
$(error FLAVOUR is default, asan or tsan)
endif
Q := $(if $(V),,@)

# --- modules: which may link which; lowest first (DEPS in reverse link order) ---------------------
MODULES := base mem view wire transport engine node client
DEPS_base :=
DEPS_mem := base
DEPS_view := base
DEPS_wire := base
DEPS_transport := base
DEPS_engine := mem view base
DEPS_node := engine transport wire mem view base
DEPS_client := transport wire base
LIBS_base := -lisal -lxxhash
LIBS_wire := -lcrypto
LIBS_node := -lcrypto
LIBS_client := -lcrypto
LIBS_engine :=
ALL_LIBS := -lisal -lxxhash -lcrypto

include mk/rules.mk

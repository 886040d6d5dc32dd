/* SPDX-License-Identifier: Apache-2.0 */
/* One map each: looking at a pin, creating and pinning. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <bpf/bpf.h>
#include <linux/bpf.h>

#include "maps_btf.h"
#include "pins.h"

void pins_path(const struct pins *p, unsigned section, char path[PINS_PATH])
{
	(void)snprintf(path, PINS_PATH, "%s/%s_%u", p->dir, larder_ledger_section_name(section),
		       LARDER_LEDGER_LAYOUT);
}

enum pins_found pins_look(const struct pins *p, unsigned section, char *why, size_t size)
{
	struct bpf_map_info info = { 0 };
	uint32_t len = sizeof(info), value_size, entries;
	char path[PINS_PATH];
	void *page;
	int fd, r;

	pins_path(p, section, path);
	larder_ledger_geometry(section, p->writers, &value_size, &entries);
	fd = bpf_obj_get(path);
	if (fd < 0) {
		(void)snprintf(why, size, "%s: %s", path, strerror(errno));
		return errno == ENOENT ? PINS_MISSING : PINS_OTHER;
	}
	r = bpf_obj_get_info_by_fd(fd, &info, &len);
	page = mmap(NULL, 1, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	(void)close(fd);	/* the pin holds the map */
	if (page != MAP_FAILED)
		(void)munmap(page, 1);	/* only tried */
	if (r < 0) {
		(void)snprintf(why, size, "%s: what it is can not be told", path);
		return PINS_OTHER;
	}
	if (info.type != BPF_MAP_TYPE_ARRAY || !(info.map_flags & BPF_F_MMAPABLE)) {
		(void)snprintf(why, size, "%s: not an array that can be mapped", path);
		return PINS_OTHER;
	}
	if (page == MAP_FAILED) {
		(void)snprintf(why, size, "%s: can not be mapped for writing: frozen?", path);
		return PINS_OTHER;
	}
	if (info.value_size == value_size && info.max_entries == entries) {
		(void)snprintf(why, size, "%s: %u elements of %u bytes, %s", path, entries,
			       value_size, info.btf_id ? "fields have names" :
			       "no BTF: fields have no names");
		return PINS_GOOD;
	}
	(void)snprintf(why, size, "%s: %u elements of %u bytes, wanted %u of %u", path,
		       info.max_entries, info.value_size, entries, value_size);
	return PINS_OTHER;
}

/* A kernel without BTF takes the maps all the same: they only dump as bytes. */
static struct btf *pins_btf(struct maps_btf *types)
{
	struct btf *btf = NULL;
	int r = maps_btf_new(&btf, types);

	if (!r)
		r = btf__load_into_kernel(btf);
	if (!r)
		return btf;
	pins_say("%s (%s): bpftool will show the maps as bytes; larderctl stats and "
		 "larder-exporter show names", r == -EPERM ? "no right to load BTF" :
		 "this kernel takes no BTF", strerror(-r));
	btf__free(btf);
	return NULL;
}

static int pins_create_one(const struct pins *p, unsigned section, const struct btf *btf,
			   const struct maps_btf *types)
{
	LIBBPF_OPTS(bpf_map_create_opts, o, .map_flags = BPF_F_MMAPABLE);
	uint32_t value_size, entries;
	char name[BPF_OBJ_NAME_LEN];
	int fd;

	(void)snprintf(name, sizeof(name), "%s_%u", larder_ledger_section_name(section),
		       LARDER_LEDGER_LAYOUT);
	larder_ledger_geometry(section, p->writers, &value_size, &entries);
	if (btf) {
		o.btf_fd = (uint32_t)btf__fd(btf);
		o.btf_key_type_id = types->key;
		o.btf_value_type_id = types->value[section];
	}
	fd = bpf_map_create(BPF_MAP_TYPE_ARRAY, name, sizeof(uint32_t), value_size, entries, &o);
	if (fd < 0)
		pins_say("map %s (%u elements of %u bytes) can not be created: %s%s", name, entries,
			 value_size, strerror(errno), errno == EPERM ?
			 ": it takes root, or CAP_BPF" : "");
	return fd;
}

static int pins_pin_one(const struct pins *p, unsigned section, int fd)
{
	char path[PINS_PATH];

	pins_path(p, section, path);
	if (bpf_obj_pin(fd, path) == 0)
		return 0;
	pins_say("%s can not be pinned: %s", path, strerror(errno));
	return -1;
}

int pins_create(const struct pins *p)
{
	int fd[LARDER_SECTIONS], r = 0;
	struct maps_btf types;
	struct btf *btf = pins_btf(&types);
	char path[PINS_PATH];
	unsigned made = 0;

	/* all of them before the first has a name: what fails half-way leaves nothing */
	for (unsigned i = 0; i < LARDER_SECTIONS && !r; i++) {
		fd[i] = pins_create_one(p, i, btf, &types);
		r = fd[i] < 0 ? -1 : 0;
		made += !r;
	}
	for (unsigned i = 0; i < LARDER_SECTIONS && !r; i++)
		r = pins_pin_one(p, i, fd[i]);
	for (unsigned i = 0; r && i < LARDER_SECTIONS; i++) {
		pins_path(p, i, path);
		(void)unlink(path);	/* ENOENT where it was not reached */
	}
	for (unsigned i = 0; i < made; i++)
		(void)close(fd[i]);	/* the pin holds the map */
	btf__free(btf);			/* and the map its types */
	return r;
}

/* SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-only */
/* larder-acct: the maps that it keeps. Their names and fields are what bpftool shows. */
#ifndef LARDER_EBPF_ACCT_H
#define LARDER_EBPF_ACCT_H

/* As in <larder/ledger.h>, which acct.c holds them against. */
#define ACCT_TENANTS 64
#define ACCT_OPS 64
#define ACCT_STATUSES 32
#define ACCT_CAUSES 8
#define ACCT_LIMITS 32
#define ACCT_VIEW 63
#define ACCT_LATENCY_OPS 4
#define ACCT_BUCKETS 160

struct acct_usage {
	unsigned long long ops[ACCT_OPS];	/* as larder_usage */
	unsigned long long status[ACCT_STATUSES];
	unsigned long long bytes[ACCT_CAUSES];
	unsigned long long refused[ACCT_LIMITS];
	unsigned long long sum_ns[ACCT_LATENCY_OPS];
	unsigned long long lost;		/* requests whose connection went first */
	unsigned long long evicted_objects;
	unsigned long long evicted_bytes;
	unsigned long long get_hits;		/* GETs that ended OK */
};

/* Index: tenant * ACCT_LATENCY_OPS + class of operation; bounds as in docs/ledger.md. */
struct acct_latency {
	unsigned long long buckets[ACCT_BUCKETS];
};

#endif

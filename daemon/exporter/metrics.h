/* SPDX-License-Identifier: Apache-2.0 */
/* The ledger in Prometheus' text format, version 0.0.4. */
#ifndef LARDER_EXPORTER_METRICS_H
#define LARDER_EXPORTER_METRICS_H

#include <stdint.h>
#include <stdio.h>

#include "ctl/ledger_read.h"

#define METRICS_TYPE "text/plain; version=0.0.4; charset=utf-8"

/* All of it; @l NULL: the node did not answer, which is a figure too. @now_ns: monotonic. */
void metrics_print(FILE *f, const struct ledger_reader *l, uint64_t now_ns);

/* --- metrics_latency.c --- */

/* @ns as seconds, without loss: a bound has to be the same text in every scrape. */
void metrics_seconds(FILE *f, uint64_t ns);
void metrics_latency(FILE *f, const struct larder_latency *l);

#endif

#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Namespaces by larderctl: what is made is shown, and what can not be had back is asked about first.
. "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

# shown FIELD VALUE: a row of "ns show"
shown() {
	if grep -qE "^$1 +$2\$" "$WORK/show"; then ok; else bad "ns show: $1 is not $2"; fi
}

node_start || finish
printf 0123456789abcdef >"$WORK/value"

# --- create, show ---
check "create with every field" "$ctl" ns create m --model llama --revision r7 \
	--weights-digest sha256:00 --adapter none --position rope --dtype bf16 --layout NHD \
	--hash-scheme xxh3 --hash-seed 5 --bytes-per-block 16 --tokens-per-block 512 --tp 2 --pp 3 \
	--short-last --admission second-touch
export LARDER_NS=m
code 3 "its first touch" "$ctl" put k "$WORK/value"
check "its second" "$ctl" put k "$WORK/value"
code 3 "a value that is no block" "$ctl" put long /etc/services
says "both lengths" "blocks have 16 or less"
check "show" "$ctl" ns show m
cp "$WORK/out" "$WORK/show"
shown model llama
shown revision r7
shown weights_digest sha256:00
shown adapter none
shown position rope
shown dtype bf16
shown layout NHD
shown hash_scheme xxh3
shown hash_seed 5
shown bytes_per_block 16
shown tokens_per_block 512
shown tp 2
shown pp 3
shown short_last yes
shown objects 1
shown bytes "16 B"
shown admission second-touch
shown access own
"$ctl" --json ns show m >"$WORK/json"
check "as JSON" python3 - "$WORK/json" <<-'EOT'
	import json, sys
	d = json.load(open(sys.argv[1]))
	assert d["admission"] == "second-touch" and d["objects"] == 1 and d["bytes"] == 16
	assert d["descriptor"]["tp"] == 2 and d["descriptor"]["short_last"] is True
EOT
code 3 "another descriptor" "$ctl" ns create m --model qwen
says "names the field" "model.*LAYOUT_MISMATCH|LAYOUT_MISMATCH.*model"
check "another admission" "$ctl" ns create m --admission all
check "show" "$ctl" ns show m
cp "$WORK/out" "$WORK/show"
shown admission all
shown model llama
code 2 "an admission that is none" "$ctl" ns create m --admission some
code 2 "an option of another verb" "$ctl" ns show m --admission all
code 1 "show what is not there" "$ctl" ns show none

# --- rm of many ---
check "namespace" "$ctl" ns create test
export LARDER_NS=test
for key in a-1 a-2 a-3 b-1; do
	check "put $key" "$ctl" put $key "$WORK/value"
done
check "one key: nobody is asked" "$ctl" rm b-1
code 2 "several keys off a terminal" "$ctl" rm a-1 a-2
says "count and bytes" "rm: 2 objects, 32 B"
says "a line says what is wanted" "rm: .*yes is wanted"
code 2 "a prefix off a terminal" "$ctl" rm --prefix a-
says "count and bytes" "rm: 3 objects, 48 B"
check "nothing was deleted" "$ctl" exists a-1 a-2 a-3
code 1 "a prefix of nothing" "$ctl" rm --yes --prefix zz
code 2 "a prefix and keys" "$ctl" rm --yes --prefix a- a-1
check "several with --yes" "$ctl" rm --yes a-1 a-2
code 1 "they are gone" "$ctl" exists a-1
check "the prefix" "$ctl" rm -y --prefix a-
says "how much" "^1 objects, 16 B"
code 1 "it is gone" "$ctl" exists a-3
for i in $(seq 1 40); do
	"$ctl" put "p-$i" "$WORK/value" >"$WORK/out" 2>&1 || bad "put p-$i"
done
check "many" "$ctl" --json rm --yes --prefix p-
says "as JSON" '"objects": ?40'

# --- flush, retire ---
check "put" "$ctl" put a "$WORK/value"
code 2 "flush off a terminal" "$ctl" ns flush test
says "count and bytes" "ns flush test: 1 objects, 16 B"
code 2 "retire off a terminal" "$ctl" ns retire test
check "nothing was deleted" "$ctl" exists a
check "flush" "$ctl" ns flush --yes test
says "how much" "^test: 1 objects, 16 B"
check "put" "$ctl" put a "$WORK/value"
check "retire" "$ctl" ns retire --yes test
says "how much" "^test: 1 objects, 16 B"
code 1 "it is gone" "$ctl" ns show test
code 1 "twice" "$ctl" ns retire --yes test
check "made again" "$ctl" ns create test
code 1 "and empty" "$ctl" exists a

# --- on a terminal ---
if command -v script >/dev/null; then
	check "put" "$ctl" put a "$WORK/value"
	printf 'n\n' | script -qec "'$ctl' ns retire test" /dev/null >"$WORK/out" 2>&1
	says "it asks" "Throw them away"
	check "no is no" "$ctl" exists a
	printf 'y\n' | script -qec "'$ctl' ns retire test" /dev/null >"$WORK/out" 2>&1
	code 1 "yes is yes" "$ctl" ns show test
else
	skip "no script(1): the question on a terminal"
fi
finish

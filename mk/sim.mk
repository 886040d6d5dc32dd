# The simulator: the unmodified node and client libraries, one thread, one seed.
#
#   make sim SIM_SEEDS=2000 SIM_BASE=1    as many as there is patience for
#   make sim-check                        the kept seeds, 200 short ones, one seed twice
#   make sim-planted SIM_BASE=1           each planted bug falls, the clean build does not

SIM_SEEDS ?= 2000
SIM_BASE ?= 1
SIM := $(B)/tests/sim/sim
SIM_OBJS := $(call objs,$(wildcard tests/sim/*.c))
$(SIM): $(SIM_OBJS) $(call archives,node client engine transport wire mem view base)
	@mkdir -p $(@D)
	@echo "  LD    $@"
	$(Q)$(CC) $(LDFLAGS) $(SIM_OBJS) -Wl,--start-group $(filter %.a,$^) -Wl,--end-group -o $@ \
		$(ALL_LIBS)

.PHONY: sim sim-check sim-planted
sim: $(SIM)
	$(Q)$(SIM) --base $(SIM_BASE) --seeds $(SIM_SEEDS) --kept tests/sim/seeds.txt
sim-check: $(SIM)
	$(Q)SIM=$(SIM) LARDER_TEST_TIMEOUT=900 tests/run-tests tests/sim/check
sim-planted:
	$(Q)tests/sim/planted $(SIM_BASE)

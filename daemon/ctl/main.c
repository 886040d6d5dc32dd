/* SPDX-License-Identifier: Apache-2.0 */
/* larderctl: the command line of a node. All is behind ctl_main, so that tests can call it. */
#include "ctl/ctl.h"

int main(int argc, char **argv)
{
	return ctl_main(argc, argv);
}

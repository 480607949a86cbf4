/* ir_campaign.h: many random programs of tile IR on all processors: processes that take one seed after the
 * other, and a new process where one failed. A campaign draws more than the program from its seed:
 *
 * - 15 of 16 programs are short (GEN_SHORT);
 * - three of four run after all passes, the others after none;
 * - what the way draws itself (random_ir_draw). */
#pragma once
#include "random_ir.h"

typedef struct IrCampaign {
    const RandomWay *way;
    const char *device, *save; /* save: a folder for programs that fail, or NULL */
    unsigned long long first, count;
    int jobs, seconds, limit; /* 0 seconds: no end but the count's; limit: seconds for one program */
} IrCampaign;

/* Takes --first=, --count=, --jobs=, --seconds=, --limit= and --save=. False: another argument. */
bool ir_campaign_option(IrCampaign *, const char *argument);
/* Runs it, prints each failure and a line of sums. Each seed from the first to the last begun counts once.
 * Returns the exit status. */
int ir_campaign(const IrCampaign *);

/* estimate_shares.c: of estimates: a last round that all CTAs share. */
#include "runtime/choice/cost/cost.h"
#include <math.h>

double cost_shares_time(const Cost *c, const DeviceModel *m, double rest, double walk, double ends)
{
    double share = fmax(rest, 1.0 / c->shares), parts = 1 / share, own = 1;
    if (rest <= 0) return 0;
    if (c->uneven_shares) {
        parts++;
        own++;
    }
    return share * walk + ends + m->join_workspace + (own + parts) * c->shared_out / m->l2_loads;
}

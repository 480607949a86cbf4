/* Layouts from parameters (blocked, coalesced) and from other layouts (slice, broadcast, permute, ...). */
#include "ir/layout/layout_priv.h"

#include <string.h>

/* --- blocked ----------------------------------------------------------------------------------------- */

/* `size` more values of `in` along axis d at weight *w: bits (and at the end a digit) below the tile's extent
 * place, above it replicate. */
static void spread(LayoutBuild *b, LayoutInput in, int d, int32_t size, int32_t *w)
{
    while (size % 2 == 0) {
        layout_build_digit(b, in, d, 2, *w < b->tile[d] ? *w : 0);
        if (*w < b->tile[d]) *w *= 2;
        size /= 2;
    }
    if (size > 1) {
        layout_build_digit(b, in, d, size, *w < b->tile[d] ? *w : 0);
        if (*w < b->tile[d]) *w *= size;
    }
}

const Layout *layout_blocked(Arena *a, int rank, const int32_t *tile, const int32_t *per,
    const int32_t *lanes, const int32_t *warps, const int32_t *order)
{
    LayoutBuild b;
    LayoutSpec spec = { .kind = SPEC_BLOCKED };
    int32_t w[LAYOUT_MAX_RANK];
    unsigned seen = 0;
    layout_build_init(&b, rank, tile);
    if (b.overflow) return NULL;
    for (int d = 0; d < rank; d++) {
        if (!layout_pow2(per[d]) || !layout_pow2(lanes[d]) || warps[d] < 1 || order[d] < 0 ||
            order[d] >= rank)
            return NULL;
        if (per[d] > LAYOUT_MAX_REGS || lanes[d] > LAYOUT_MAX_LANES || warps[d] > LAYOUT_MAX_WARPS ||
            tile[d] < 1 || tile[d] > LAYOUT_MAX_EXTENT)
            return NULL;
        seen |= 1u << order[d];
        w[d] = 1;
        spec.per[d] = per[d], spec.lanes[d] = lanes[d], spec.warps[d] = warps[d], spec.order[d] = order[d];
    }
    if (seen != (1u << rank) - 1) return NULL;
    for (int k = 0; k < rank; k++) {
        for (int d = order[k]; w[d] < per[d] && w[d] < tile[d]; w[d] *= 2)
            layout_build_digit(&b, LAYOUT_REG, d, 2, w[d]);
    }
    for (int k = 0; k < rank; k++) spread(&b, LAYOUT_LANE, order[k], lanes[order[k]], &w[order[k]]);
    for (int k = 0; k < rank; k++) spread(&b, LAYOUT_WARP, order[k], warps[order[k]], &w[order[k]]);
    for (int k = 0; k < rank; k++) {
        int d = order[k];
        layout_build_digit(&b, LAYOUT_REG, d, (tile[d] + w[d] - 1) / w[d], w[d]);
    }
    return layout_build(a, &b, &spec);
}

/* Lanes along the fastest axis: the fewest padded chunks, and no access below a 32-byte sector where it can
 * be helped. Eight lanes of which five have something are better than one of which each access touches a row
 * of its own. */
static int32_t fast_lanes(int64_t chunks, int64_t chunk_bytes, int32_t nlanes)
{
    int32_t best = 1;
    int64_t best_cost = INT64_MAX;
    for (int32_t t = 1; t <= nlanes; t *= 2) {
        int64_t run = t * chunk_bytes, cost = (chunks + t - 1) / t * t *
                                              (run >= 128     ? 16
                                                  : run >= 64 ? 17
                                                  : run >= 32 ? 18
                                                              : 30);
        if (t > 1 && t / 2 >= chunks) break;
        if (cost <= best_cost) best = t, best_cost = cost;
    }
    return best;
}

int layout_row_access(int64_t elems, int elem_bytes, int widest, int nlanes, int64_t *places)
{
    enum { PART = 5, LEAST = 4, MOST_OF_LANE = 48 };
    for (int width = widest; width >= elem_bytes && (width == widest || width >= LEAST); width /= 2) {
        int64_t n = (elems * elem_bytes + width - 1) / width, all = 1;
        while (all < n && all < nlanes) all *= 2;
        if (n > nlanes) all = (n + nlanes - 1) / nlanes * nlanes;
        *places = all;
        if (n > nlanes && all / nlanes * width > MOST_OF_LANE) return 0;
        if ((all - n) * PART <= all) return width;
        if (n <= nlanes) return 0; /* narrower accesses would make several of one */
    }
    return 0;
}

const Layout *layout_coalesced(Arena *a, int rank, const int32_t *tile, const int32_t *order, int elem_bytes,
    int vec_bytes, int nlanes, int nwarps)
{ return layout_coalesced_near(a, rank, tile, order, elem_bytes, vec_bytes, nlanes, nwarps, -1); }

const Layout *layout_coalesced_near(Arena *a, int rank, const int32_t *tile, const int32_t *order,
    int elem_bytes, int vec_bytes, int nlanes, int nwarps, int near)
{
    int32_t per[LAYOUT_MAX_RANK], lanes[LAYOUT_MAX_RANK], warps[LAYOUT_MAX_RANK];
    if (rank < 1 || rank > LAYOUT_MAX_RANK || nwarps < 1) return NULL;
    int64_t total = 1, threads = (int64_t)nlanes * nwarps;
    for (int d = 0; d < rank; d++) {
        if (order[d] < 0 || order[d] >= rank || tile[d] < 1 || tile[d] > LAYOUT_MAX_EXTENT ||
            total > LAYOUT_MAX_EXTENT)
            return NULL;
        per[d] = lanes[d] = warps[d] = 1;
        total *= tile[d];
    }
    int f = order[0];
    /* The elements of a vector: fewer when threads would be idle otherwise, but not less than 4 bytes. */
    int32_t n = 1;
    while (2 * n * elem_bytes <= vec_bytes && tile[f] % (2 * n) == 0 &&
           (total >= 2 * n * threads || n * elem_bytes < 4))
        n *= 2;
    per[f] = n;
    lanes[f] = fast_lanes((tile[f] + n - 1) / n, (int64_t)n * elem_bytes, nlanes);
    int32_t left = nlanes / lanes[f];
    for (int k = 1; k < rank; k++) {
        while (left > 1 && lanes[order[k]] < tile[order[k]]) lanes[order[k]] *= 2, left /= 2;
    }
    while (left > 1 && lanes[f] * n < tile[f]) lanes[f] *= 2, left /= 2;
    lanes[order[rank - 1]] *= left;
    int32_t wleft = nwarps;
    for (int i = 0; i < rank; i++) { /* slower axes first: order[1], order[2], ..., then the fastest */
        int d = i + 1 < rank ? order[i + 1] : f;
        int32_t chunks = (tile[d] + lanes[d] * per[d] - 1) / (lanes[d] * per[d]), best = 1;
        for (int32_t g = 2; g <= wleft; g++) {
            if (wleft % g == 0 && g <= chunks) best = g;
        }
        warps[d] = best;
        wleft /= best;
    }
    warps[order[rank - 1]] *= wleft;
    while (near >= 0 && 2 * per[near] * lanes[near] * warps[near] <= tile[near]) per[near] *= 2;
    return layout_blocked(a, rank, tile, per, lanes, warps, order);
}

/* --- following a tile -------------------------------------------------------------------------------- */

static void drop_axis(LayoutBuild *b, int axis)
{
    for (int d = axis; d + 1 < b->rank; d++) b->tile[d] = b->tile[d + 1];
    for (int in = 0; in < LAYOUT_INPUTS; in++) {
        for (int i = 0; i < b->nbit[in]; i++) {
            int32_t *v = b->basis[in][i];
            for (int d = axis; d + 1 < b->rank; d++) v[d] = v[d + 1];
            v[b->rank - 1] = 0;
        }
    }
    for (int i = 0; i < b->ndigit; i++) {
        if (b->digit[i].axis > axis) b->digit[i].axis--;
    }
    b->rank--;
}

/* Removes register bits that depend on those before them: they are copies within a thread. */
static void drop_copies(LayoutBuild *b)
{
    int32_t vec[BUILD_BITS][LAYOUT_MAX_RANK], kept[BUILD_BITS][LAYOUT_MAX_RANK];
    int pivot_axis[BUILD_BITS], pivot_bit[BUILD_BITS], n = 0;
    for (int i = 0; i < b->nbit[LAYOUT_REG]; i++) {
        int32_t v[LAYOUT_MAX_RANK];
        memcpy(v, b->basis[LAYOUT_REG][i], sizeof v);
        for (int p = 0; p < n; p++) {
            if (!(v[pivot_axis[p]] >> pivot_bit[p] & 1)) continue;
            for (int d = 0; d < b->rank; d++) v[d] ^= vec[p][d];
        }
        int d = 0;
        while (d < b->rank && !v[d]) d++;
        if (d == b->rank) continue;
        pivot_axis[n] = d;
        pivot_bit[n] = __builtin_ctz((unsigned)v[d]);
        memcpy(vec[n], v, sizeof v);
        memcpy(kept[n++], b->basis[LAYOUT_REG][i], sizeof v);
    }
    memcpy(b->basis[LAYOUT_REG], kept, sizeof kept[0] * (size_t)n);
    b->nbit[LAYOUT_REG] = n;
}

const Layout *layout_slice(Arena *a, const Layout *l, int axis, bool keep)
{
    LayoutBuild b;
    LayoutSpec spec = { .kind = SPEC_SLICE, .axis = axis, .keep = keep, .of = l };
    if (axis < 0 || axis >= l->rank) return NULL;
    layout_build_from(&b, l);
    b.tile[axis] = 1;
    for (int in = 0; in < LAYOUT_INPUTS; in++) {
        for (int i = 0; i < b.nbit[in]; i++) b.basis[in][i][axis] = 0;
    }
    int n = 0;
    for (int i = 0; i < b.ndigit; i++) {
        LayoutDigit x = b.digit[i];
        if (x.axis == axis) x.stride = x.axis = 0;
        if (x.in != LAYOUT_REG || x.stride) b.digit[n++] = x;
    }
    b.ndigit = n;
    drop_copies(&b);
    if (!keep && b.rank > 1) drop_axis(&b, axis);
    return layout_build(a, &b, &spec);
}

const Layout *layout_broadcast(Arena *a, const Layout *l, int axis, int32_t extent)
{
    LayoutBuild b;
    LayoutSpec spec = { .kind = SPEC_BROADCAST, .axis = axis, .extent = extent, .of = l };
    if (axis < 0 || axis >= l->rank || l->cover[axis] != 1 || extent < 1) return NULL;
    layout_build_from(&b, l);
    b.tile[axis] = extent;
    layout_build_digit(&b, LAYOUT_REG, axis, extent, 1);
    return layout_build(a, &b, &spec);
}

const Layout *layout_expand(Arena *a, const Layout *l, int axis)
{
    LayoutBuild b;
    if (axis < 0 || axis > l->rank || l->rank == LAYOUT_MAX_RANK) return NULL;
    layout_build_from(&b, l);
    for (int d = b.rank; d > axis; d--) b.tile[d] = b.tile[d - 1];
    b.tile[axis] = 1;
    for (int in = 0; in < LAYOUT_INPUTS; in++) {
        for (int i = 0; i < b.nbit[in]; i++) {
            int32_t *v = b.basis[in][i];
            for (int d = b.rank; d > axis; d--) v[d] = v[d - 1];
            v[axis] = 0;
        }
    }
    for (int i = 0; i < b.ndigit; i++) {
        if (b.digit[i].stride && b.digit[i].axis >= axis) b.digit[i].axis++;
    }
    b.rank++;
    return layout_build(a, &b, NULL);
}

const Layout *layout_widen(Arena *a, const Layout *l, int axis, int bits)
{
    LayoutBuild b;
    if (axis < 0 || axis >= l->rank || bits < 0 || l->nbit[LAYOUT_REG] + bits > LAYOUT_MAX_BITS) return NULL;
    layout_build_from(&b, l);
    b.tile[axis] <<= bits;
    for (int in = 0; in < LAYOUT_INPUTS; in++)
        for (int i = 0; i < b.nbit[in]; i++) b.basis[in][i][axis] <<= bits;
    for (int i = 0; i < b.ndigit; i++)
        if (b.digit[i].axis == axis) b.digit[i].stride <<= bits;
    int n = b.nbit[LAYOUT_REG];
    memmove(b.basis[LAYOUT_REG] + bits, b.basis[LAYOUT_REG], sizeof b.basis[0][0] * (size_t)n);
    for (int i = 0; i < bits; i++) {
        memset(b.basis[LAYOUT_REG][i], 0, sizeof b.basis[0][0]);
        b.basis[LAYOUT_REG][i][axis] = 1 << i;
    }
    b.nbit[LAYOUT_REG] = n + bits;
    return layout_build(a, &b, NULL);
}

const Layout *layout_permute(Arena *a, const Layout *l, const int32_t *perm)
{
    LayoutBuild b, p;
    LayoutSpec spec = { .kind = SPEC_PERMUTE, .of = l };
    uint8_t where[LAYOUT_MAX_RANK];
    unsigned seen = 0;
    for (int d = 0; d < l->rank; d++) {
        if (perm[d] < 0 || perm[d] >= l->rank) return NULL;
        seen |= 1u << perm[d];
        where[perm[d]] = (uint8_t)d;
        spec.order[d] = perm[d];
    }
    if (seen != (1u << l->rank) - 1) return NULL;
    layout_build_from(&b, l);
    p = b;
    for (int d = 0; d < l->rank; d++) {
        p.tile[d] = b.tile[perm[d]];
        for (int in = 0; in < LAYOUT_INPUTS; in++) {
            for (int i = 0; i < b.nbit[in]; i++) p.basis[in][i][d] = b.basis[in][i][perm[d]];
        }
    }
    for (int i = 0; i < b.ndigit; i++) p.digit[i].axis = where[b.digit[i].axis];
    return layout_build(a, &p, &spec);
}

const Layout *layout_with_tile(Arena *a, const Layout *l, const int32_t *tile)
{
    LayoutBuild b;
    layout_build_from(&b, l);
    memcpy(b.tile, tile, l->rank * sizeof *tile);
    return layout_build(a, &b, NULL);
}

const Layout *layout_vectorize(Arena *a, const Layout *l, int axis, int elem_bytes, int max_bytes)
{
    LayoutBuild b;
    if (axis < 0 || axis >= l->rank || elem_bytes < 1) return NULL;
    layout_build_from(&b, l);
    bool changed = false;
    for (int i = 0; (2 << i) * elem_bytes <= max_bytes && i < l->fbit[axis] && l->tile[axis] % (2 << i) == 0;
        i++) {
        int32_t want[LAYOUT_MAX_RANK] = { 0 };
        want[axis] = 1 << i;
        int lane = -1, reg = -1;
        bool held = false;
        for (int k = 0; k < b.nbit[LAYOUT_REG]; k++)
            held |= !memcmp(b.basis[LAYOUT_REG][k], want, sizeof want);
        if (held) continue;
        for (int k = 0; k < b.nbit[LAYOUT_LANE]; k++) {
            if (!memcmp(b.basis[LAYOUT_LANE][k], want, sizeof want)) lane = k;
        }
        /* Find the lowest register bit that moves further along this axis and along no other. */
        for (int k = b.nbit[LAYOUT_REG] - 1; k >= 0; k--) {
            int32_t rest[LAYOUT_MAX_RANK];
            memcpy(rest, b.basis[LAYOUT_REG][k], sizeof rest);
            rest[axis] = 0;
            bool pure = true;
            for (int d = 0; d < l->rank; d++) pure &= !rest[d];
            if (pure && b.basis[LAYOUT_REG][k][axis] >= max_bytes / elem_bytes &&
                layout_pow2(b.basis[LAYOUT_REG][k][axis]))
                reg = k;
        }
        if (lane < 0 || reg < 0) break;
        memcpy(b.basis[LAYOUT_LANE][lane], b.basis[LAYOUT_REG][reg], sizeof want);
        memcpy(b.basis[LAYOUT_REG][reg], want, sizeof want);
        changed = true;
    }
    return changed ? layout_build(a, &b, NULL) : l;
}

const Layout *layout_units_first(Arena *a, const Layout *l, int axis, int bits)
{
    LayoutBuild b;
    layout_build_from(&b, l);
    for (int i = 0; i < bits; i++) {
        int32_t want[LAYOUT_MAX_RANK] = { 0 }, other[LAYOUT_MAX_RANK];
        int at = 0;
        want[axis] = 1 << i;
        while (at < b.nbit[LAYOUT_REG] && memcmp(b.basis[LAYOUT_REG][at], want, sizeof want)) at++;
        if (at == b.nbit[LAYOUT_REG]) return l;
        memcpy(other, b.basis[LAYOUT_REG][i], sizeof other);
        memcpy(b.basis[LAYOUT_REG][i], want, sizeof want);
        memcpy(b.basis[LAYOUT_REG][at], other, sizeof other);
    }
    return layout_build(a, &b, NULL);
}

const Layout *layout_concat(Arena *a, const Layout *l, int axis, int n)
{
    LayoutBuild b;
    if (axis < 0 || axis >= l->rank || n < 1 || l->cover[axis] != l->tile[axis]) return NULL;
    if ((int64_t)l->tile[axis] * n > LAYOUT_MAX_EXTENT) return NULL;
    layout_build_from(&b, l);
    b.tile[axis] *= n;
    layout_build_digit(&b, LAYOUT_REG, axis, n, l->tile[axis]);
    return layout_build(a, &b, NULL);
}

/* The blocks are the lowest bits of the warps. */
static const Layout *split_low(Arena *a, const Layout *l, int blocks)
{
    LayoutBuild b, r;
    layout_build_from(&b, l);
    layout_build_init(&r, l->rank, l->tile);
    if (blocks & (blocks - 1) || 1 << b.nbit[LAYOUT_WARP] < blocks) return NULL;
    for (int in = 0; in < LAYOUT_INPUTS; in++)
        for (int i = 0; i < b.nbit[in]; i++)
            layout_build_bit(
                &r, in == LAYOUT_WARP && 1 << i < blocks ? LAYOUT_BLOCK : (LayoutInput)in, b.basis[in][i]);
    for (int i = 0; i < b.ndigit; i++)
        layout_build_digit(&r, b.digit[i].in, b.digit[i].axis, b.digit[i].size, b.digit[i].stride);
    return layout_build(a, &r, NULL);
}

/* The blocks are the highest part of the warps; NULL: their number does not divide so. */
static const Layout *split_high(Arena *a, const Layout *l, int blocks)
{
    LayoutBuild b, r;
    int32_t keep = (int32_t)layout_warps(l) / blocks;
    layout_build_from(&b, l);
    layout_build_init(&r, l->rank, l->tile);
    for (int in = 0; in < LAYOUT_INPUTS; in++) {
        for (int i = 0; i < b.nbit[in]; i++) {
            bool stays = in != LAYOUT_WARP || keep > 1;
            if (in == LAYOUT_WARP && keep % 2 && keep > 1) return NULL;
            if (in == LAYOUT_WARP && keep > 1) keep /= 2;
            layout_build_bit(&r, stays ? (LayoutInput)in : LAYOUT_BLOCK, b.basis[in][i]);
        }
    }
    for (int i = 0; i < b.ndigit; i++) {
        LayoutDigit d = b.digit[i];
        if (d.in != LAYOUT_WARP) {
            layout_build_digit(&r, d.in, d.axis, d.size, d.stride);
            continue;
        }
        int32_t here = d.size <= keep ? d.size : keep;
        if (keep % here || d.size % here) return NULL;
        if (here > 1) layout_build_digit(&r, LAYOUT_WARP, d.axis, here, d.stride);
        if (d.size > here) layout_build_digit(&r, LAYOUT_BLOCK, d.axis, d.size / here, d.stride * here);
        keep /= here;
    }
    return layout_build(a, &r, NULL);
}

const Layout *layout_split_blocks(Arena *a, const Layout *l, int blocks)
{
    if (blocks < 1 || layout_blocks(l) != 1 || layout_warps(l) % (uint32_t)blocks) return NULL;
    const Layout *high = split_high(a, l, blocks);
    return high ? high : split_low(a, l, blocks);
}

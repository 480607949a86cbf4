// Tiles in shared memory: offsets, swizzles, bank conflicts counted exactly, and the search for a layout without any.
#include "ir/layout_priv.h"

#include <string.h>

enum { BANKS = 32, BANK_BYTES = 4 };

const LayoutShared *layout_shared_make(Arena *a, int rank, const int32_t *tile, const int32_t *order, int elem_bytes, int panel,
                                       int pitch, int xor_base, int nxor, const uint32_t *xor_) {
  LayoutShared s = {.rank = (uint8_t)rank, .elem_bytes = (uint8_t)elem_bytes, .nxor = (uint8_t)nxor, .xor_base = (uint8_t)xor_base};
  unsigned seen = 0;
  if (rank < 1 || rank > LAYOUT_MAX_RANK || elem_bytes < 1 || elem_bytes > 16 || panel < 1 || pitch < 1 || nxor < 0 || nxor > 8) return NULL;
  if (xor_base < 0 || xor_base > 24) return NULL;
  for (int d = 0; d < rank; d++) {
    if (tile[d] < 1 || tile[d] > LAYOUT_MAX_EXTENT || order[d] < 0 || order[d] >= rank) return NULL;
    s.tile[d] = tile[d];
    s.order[d] = order[d];
    seen |= 1u << order[d];
  }
  if (seen != (1u << rank) - 1 || (int64_t)panel * elem_bytes > pitch) return NULL;
  int64_t rows = 1, npanel = (tile[order[0]] + (int64_t)panel - 1) / panel;
  for (int k = 1; k < rank; k++) {
    rows *= tile[order[k]];
    if (rows > LAYOUT_MAX_EXTENT) return NULL;
  }
  // Masks read bits above all swizzled ones, so the swizzle is its own inverse; it permutes aligned blocks of `period` bytes.
  uint32_t high = 0, target = ((1u << nxor) - 1) << xor_base;
  for (int i = 0; i < nxor; i++) {
    if (xor_[i] & (target | ((1u << xor_base) - 1)) || xor_[i] >> 28) return NULL;
    s.xor_[i] = xor_[i];
    high |= xor_[i];
  }
  int64_t period = high ? 1ll << (layout_log2(target) + 1) : elem_bytes, align = high ? 1ll << (layout_log2(high) + 1) : 16;
  int64_t panel_bytes = rows * pitch;
  if (npanel > 1 && high) panel_bytes = (panel_bytes + align - 1) / align * align;
  int64_t bytes = (panel_bytes * npanel + period - 1) / period * period;
  if (bytes > 1 << 28) return NULL;
  s.panel = panel;
  s.pitch = pitch;
  s.panel_bytes = (int32_t)panel_bytes;
  s.bytes = (uint32_t)bytes;
  s.align = (uint32_t)(align > 1024 ? 1024 : align < 16 ? 16 : align);
  LayoutShared *out = arena_alloc(a, sizeof *out);
  *out = s;
  return out;
}

const LayoutShared *layout_shared_rows(Arena *a, int rank, const int32_t *tile, const int32_t *order, int elem_bytes, int pad) {
  if (rank < 1 || rank > LAYOUT_MAX_RANK || order[0] < 0 || order[0] >= rank || pad < 0) return NULL;
  int64_t pitch = (int64_t)tile[order[0]] * elem_bytes + pad;
  if (pitch > LAYOUT_MAX_EXTENT) return NULL;
  return layout_shared_make(a, rank, tile, order, elem_bytes, tile[order[0]], (int)pitch, 0, 0, NULL);
}

const LayoutShared *layout_shared_swizzled(Arena *a, int rank, const int32_t *tile, const int32_t *order, int elem_bytes, int span) {
  static const uint32_t masks[3] = {1u << 7, 1u << 8, 1u << 9};
  if (rank < 1 || rank > LAYOUT_MAX_RANK || order[0] < 0 || order[0] >= rank || elem_bytes < 1) return NULL;
  if ((span != 16 && span != 32 && span != 64 && span != 128) || (int64_t)tile[order[0]] * elem_bytes % span || span % elem_bytes) return NULL;
  return layout_shared_make(a, rank, tile, order, elem_bytes, span / elem_bytes, span, 4, layout_log2((uint32_t)span / 16), masks);
}

static uint32_t swizzle(const LayoutShared *s, uint32_t offset) {
  uint32_t x = 0;
  for (int i = 0; i < s->nxor; i++) x |= (uint32_t)(__builtin_popcount(offset & s->xor_[i]) & 1) << (s->xor_base + i);
  return offset ^ x;
}

uint32_t layout_shared_offset(const LayoutShared *s, const int32_t *coord) {
  int32_t inner = coord[s->order[0]];
  int64_t row = 0;
  for (int k = s->rank - 1; k > 0; k--) row = row * s->tile[s->order[k]] + coord[s->order[k]];
  return swizzle(s, (uint32_t)(inner / s->panel * (int64_t)s->panel_bytes + row * s->pitch + inner % s->panel * s->elem_bytes));
}

bool layout_shared_swizzle(const LayoutShared *s, int *bits, int *base, int *shift) {
  *bits = s->nxor;
  *base = s->xor_base;
  *shift = 0;
  if (!s->nxor) {
    *base = 0;
    return true;
  }
  if (!s->xor_[0]) return false;
  *shift = __builtin_ctz(s->xor_[0]) - s->xor_base;
  for (int i = 0; i < s->nxor; i++) {
    if (s->xor_[i] != 1u << (*base + *shift + i)) return false;
  }
  return true;
}

bool layout_shared_equal(const LayoutShared *a, const LayoutShared *b) {
  return a->rank == b->rank && a->elem_bytes == b->elem_bytes && a->nxor == b->nxor && (!a->nxor || a->xor_base == b->xor_base) &&
         !memcmp(a->tile, b->tile, sizeof a->tile) && !memcmp(a->order, b->order, sizeof a->order) && a->panel == b->panel &&
         a->pitch == b->pitch && !memcmp(a->xor_, b->xor_, sizeof a->xor_);
}

uint64_t layout_shared_hash(const LayoutShared *s) {
  uint64_t h = layout_mix(s->rank, s->elem_bytes);
  for (int d = 0; d < s->rank; d++) h = layout_mix(h, (uint64_t)s->tile[d] << 8 | (uint64_t)s->order[d]);
  h = layout_mix(h, (uint64_t)s->panel << 32 | (uint64_t)s->pitch);
  for (int i = 0; i < s->nxor; i++) h = layout_mix(h, (uint64_t)s->xor_base << 32 | s->xor_[i]);
  return h;
}

void layout_shared_vector(const Layout *l, const LayoutShared *s, uint32_t max_bytes, LayoutVector *out) {
  // A run of n elements stays contiguous if it neither crosses a panel nor is cut by the swizzle, and all rows keep its alignment.
  uint32_t align = 16, all = (uint32_t)s->pitch;
  if (s->panel != s->tile[s->order[0]]) all |= (uint32_t)s->panel * s->elem_bytes | (uint32_t)s->panel_bytes;
  while (align > 1 && (all & (align - 1) || (s->nxor && align > 1u << s->xor_base))) align /= 2;
  layout_vector(l, s->order[0], s->elem_bytes, align, max_bytes, out);
}

// --- banks -----------------------------------------------------------------------------------------------------------------

uint32_t layout_wavefronts(const uint32_t *addr, uint32_t nlanes, uint32_t width) {
  uint32_t group = width <= 4 ? 32 : 128 / width, words = width <= 4 ? 1 : width / 4, total = 0;
  for (uint32_t first = 0; first < nlanes; first += group) {
    uint32_t word[BANKS * 4], depth[BANKS] = {0}, n = 0, worst = 0;
    for (uint32_t i = first; i < first + group && i < nlanes; i++) {
      if (addr[i] == UINT32_MAX) continue;
      for (uint32_t k = 0; k < words; k++) {
        uint32_t w = addr[i] / BANK_BYTES + k, j = 0;
        while (j < n && word[j] != w) j++;  // lanes that touch the same word share it
        if (j < n) continue;
        word[n++] = w;
        uint32_t d = ++depth[w % BANKS];
        if (d > worst) worst = d;
      }
    }
    total += worst;
  }
  return total;
}

// The fewest wavefronts that the distinct words of each group allow.
static uint32_t least_wavefronts(uint32_t nlanes, uint32_t width) {
  uint32_t group = width <= 4 ? 32 : 128 / width;
  return (nlanes + group - 1) / group;
}

static uint32_t vector_conflicts(const Layout *l, const LayoutShared *s, const LayoutVector *v, uint32_t warp, uint32_t limit) {
  uint32_t extra = 0, addr[LAYOUT_MAX_LANES], nlanes = layout_lanes(l), width = v->n * s->elem_bytes;
  for (uint32_t r = 0; r < layout_regs(l) && extra <= limit; r++) {
    if (!layout_vector_base(v, r)) continue;
    bool any = false;
    for (uint32_t lane = 0; lane < nlanes; lane++) {
      int32_t c[LAYOUT_MAX_RANK];
      layout_element(l, r, lane, warp, 0, c);
      bool in = layout_in_tile(l, c);
      addr[lane] = in ? layout_shared_offset(s, c) : UINT32_MAX;
      any |= in;
    }
    uint32_t n = layout_wavefronts(addr, nlanes, width), least = any ? least_wavefronts(nlanes, width) : 0;
    extra += n > least ? n - least : 0;
  }
  return extra;
}

uint32_t layout_bank_conflicts(const Layout *l, const LayoutShared *s, const LayoutVector *v, uint32_t warp) {
  return vector_conflicts(l, s, v, warp, UINT32_MAX - 1);
}

// ldmatrix and stmatrix read eight rows of 16 bytes a phase.
static uint32_t matrix_conflicts(const Layout *l, const LayoutShared *s, const LayoutMatrix *m, uint32_t warp, uint32_t limit) {
  uint32_t extra = 0, addr[32];
  for (uint32_t r = 0; r < layout_regs(l) && extra <= limit; r++) {
    if (!layout_matrix_base(m, r)) continue;
    for (uint32_t lane = 0; lane < 8u * m->count; lane++) {
      int32_t c[LAYOUT_MAX_RANK];
      layout_matrix_row(l, m, r, lane, warp, c);
      addr[lane] = layout_in_tile(l, c) ? layout_shared_offset(s, c) : UINT32_MAX;
    }
    uint32_t n = layout_wavefronts(addr, 8u * m->count, 16);
    extra += n > m->count ? n - m->count : 0;
  }
  return extra;
}

static uint32_t access_conflicts(const LayoutAccess *x, const LayoutShared *s, uint32_t limit) {
  uint32_t extra = 0;
  if (!x || !x->layout) return 0;
  LayoutMatrix m;
  LayoutVector v;
  bool matrix = x->matrix && layout_matrix(x->layout, s, true, &m);
  layout_shared_vector(x->layout, s, x->max_bytes, &v);
  for (uint32_t warp = 0; warp < layout_warps(x->layout) && extra <= limit; warp++) {
    extra += matrix ? matrix_conflicts(x->layout, s, &m, warp, limit) : vector_conflicts(x->layout, s, &v, warp, limit);
    // Narrower accesses than the layout allows cost their number too.
    if (x->matrix && !matrix) extra += layout_regs(x->layout);
  }
  return extra;
}

// --- search ------------------------------------------------------------------------------------------------------------------

typedef struct {
  Arena *a;
  int rank, elem_bytes, max_bytes_log2;
  const int32_t *tile, *order;
  const LayoutAccess *writer, *reader;
  const LayoutShared *best;
  uint32_t conflicts;
} Search;

static bool consider(Search *q, const LayoutShared *s) {
  if (!s) return false;
  uint32_t limit = q->best ? q->conflicts : UINT32_MAX - 1;
  uint32_t n = access_conflicts(q->writer, s, limit);
  if (n <= limit) n += access_conflicts(q->reader, s, limit - n);
  if (!q->best || n < q->conflicts) q->best = s, q->conflicts = n;
  return q->conflicts == 0;
}

static uint32_t access_bytes(const LayoutAccess *x, const LayoutShared *s) {
  if (!x || !x->layout) return 1;
  if (x->matrix) return 16;
  LayoutVector v;
  layout_shared_vector(x->layout, s, x->max_bytes, &v);
  return v.bytes;
}

// Swizzles of the form bits [base, base+bits) ^= bits [base+shift, ...), then any parities: columns of the matrix from higher bits to
// bank bits drawn in a fixed pseudo-random order (a random choice is free of conflicts with probability above 1/13 where rows are powers of two).
static bool search_swizzles(Search *q, const LayoutShared *plain, int base) {
  int top = layout_ceil_log2(plain->bytes), bank_top = 7;
  uint32_t masks[8];
  for (int bits = 1; bits <= bank_top - base; bits++) {
    for (int shift = bits; base + shift + bits <= top; shift++) {
      for (int i = 0; i < bits; i++) masks[i] = 1u << (base + shift + i);
      if (consider(q, layout_shared_make(q->a, q->rank, q->tile, q->order, q->elem_bytes, plain->panel, plain->pitch, base, bits, masks))) return true;
    }
  }
  uint64_t seed = 0x5DEECE66Du;
  for (int round = 0; round < 64 && top > bank_top; round++) {
    int bits = bank_top - base;
    for (int i = 0; i < bits; i++) {
      seed = layout_mix(seed, (uint64_t)round);
      masks[i] = (uint32_t)(seed >> 20) & ((1u << top) - 1) & ~((1u << bank_top) - 1);
    }
    if (consider(q, layout_shared_make(q->a, q->rank, q->tile, q->order, q->elem_bytes, plain->panel, plain->pitch, base, bits, masks))) return true;
  }
  return false;
}

const LayoutShared *layout_shared_choose(Arena *a, int rank, const int32_t *tile, const int32_t *order, int elem_bytes,
                                         const LayoutAccess *writer, const LayoutAccess *reader, int max_pad, uint32_t *conflicts) {
  const LayoutShared *plain = layout_shared_rows(a, rank, tile, order, elem_bytes, 0);
  if (!plain) return NULL;
  Search q = {.a = a, .rank = rank, .elem_bytes = elem_bytes, .tile = tile, .order = order, .writer = writer, .reader = reader};
  uint32_t wide = access_bytes(writer, plain), other = access_bytes(reader, plain);
  if (other > wide) wide = other;
  if (!consider(&q, plain)) {
    int base = layout_log2(wide < 4 ? 4 : wide);
    bool done = (1u << base) < 128 && search_swizzles(&q, plain, base);
    int step = wide < 4 ? 4 : (int)wide;
    for (int pad = step; !done && pad <= max_pad; pad += step) done = consider(&q, layout_shared_rows(a, rank, tile, order, elem_bytes, pad));
  }
  if (conflicts) *conflicts = q.conflicts;
  return q.best;
}

/* layout_hopper.h: tiles in shared memory as sm_90a's TMA and wgmma read them. layout.h includes it. */
#pragma once

/* --- TMA --------------------------------------------------------------------------------------------- */

/* One cp.async.bulk.tensor a panel fills s: box extents fastest axis first (s->order), panel p starts
 * panel_bytes after p-1 and box[0] elements further. swizzle is CUtensorMapSwizzle: 0 none, 1 32 B, 2 64 B, 3
 * 128 B. */
typedef struct {
    int rank, swizzle;
    int32_t box[LAYOUT_MAX_RANK], panels, panel_bytes;
} LayoutTma;
/* False: rank above 5, an extent above 256, rows padded or not of multiples of 16 bytes, a swizzle that is
 * not TMA's, last panel ragged. */
bool layout_tma(const LayoutShared *s, LayoutTma *out);

/* --- wgmma operands in shared memory ----------------------------------------------------------------- */

/* PTX ISA 9.7.15.5.1.2. hi is the upper word (SBO and swizzle mode), the lower word is (address & 0x3FFFF) >>
 * 4 | lo_or. K-step k (one instruction's K) starts at byte k % steps_per_panel * step + k / steps_per_panel *
 * panel_step (layout_wgmma_offset); rows MN from m on (a multiple of mn_unit) at m / mn_unit * mn_step. The
 * base offset field is 0: the tile is 1024-byte aligned. */
typedef struct {
    const LayoutShared *shared;
    int span, mode; /* bytes of a panel row: 128 64 32 16; descriptor's swizzle field: 1 2 3 0 */
    bool mn_major;  /* imm-trans bit of the instruction */
    uint32_t lbo, sbo, lo_or, hi; /* bytes, bytes, ready-made words */
    int32_t kinst, ksteps, steps_per_panel, step, panel_step;
    int32_t panels, panel_elems, panel_bytes;
    int32_t box[2];           /* TMA box of one panel, elements, fastest axis first */
    int32_t mn_unit, mn_step; /* elements, bytes */
} LayoutWgmma;
/* Operand of MN x K elements (A: M x K, B: N x K), stored K-major or MN-major with panels of `span` bytes (0:
 * the widest that divides if that is 64 or more, else of 64 and 128 what pads least). False if the extents do
 * not fit (MN and K in multiples of 8 and of the instruction's K; a K-major K may be any, then what pads the
 * last panel must be zero), or MN-major and not 16 bit. */
bool layout_wgmma_operand(
    Arena *a, int32_t mn, int32_t k, int elem_bytes, bool mn_major, int span, LayoutWgmma *out);
/* The same of a tile that exists: rank 2, axis k_axis is K (A [M,K]: 1, B [K,N]: 0). False if no descriptor
 * can describe it. */
bool layout_wgmma_view(const LayoutShared *s, int k_axis, LayoutWgmma *out);
/* A shared layout for such a tile with axis `fast` contiguous and panels of `span` bytes (0: as above); NULL
 * as above. */
const LayoutShared *layout_wgmma_shared(
    Arena *a, const int32_t tile[2], int k_axis, int fast, int elem_bytes, int span);
/* Bytes from the tile's start to the operand of k-step `kstep` whose first row (column) is mn. */
static inline int32_t layout_wgmma_offset(const LayoutWgmma *w, int32_t mn, int32_t kstep)
{
    return mn / w->mn_unit * w->mn_step + kstep % w->steps_per_panel * w->step +
           kstep / w->steps_per_panel * w->panel_step;
}

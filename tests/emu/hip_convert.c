/* hip_convert: random chains of layout conversions, emitted and executed: a tile is loaded, converted from
 * layout to layout and stored after each; every copy must be the tile.
 *
 *     hip_convert emu_gfx942 [first [count [--show]]]      seeds; --show: prints the emissions too
 *     hip_convert emu_gfx942 all                           into and out of every fragment of the chip's
 *         instructions, A, B and C
 *
 * Layouts: blocked ones and every fragment of the target's matrix instructions, of ragged tiles too. */
#include "tests/emu/exec_emu.h"
#include "ir/ir.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { STEPS = 6 };

typedef struct Trial {
    uint64_t random;
    Session *s;
    const Target *target;
    int32_t tile[2];
    int warps;
    DType dtype;
    const Layout *layouts[STEPS + 1];
    bool show;
} Trial;

static uint32_t rnd(Trial *t, uint32_t n)
{
    t->random ^= t->random << 13;
    t->random ^= t->random >> 7;
    t->random ^= t->random << 17;
    return (uint32_t)(t->random >> 33) % n;
}

static bool of_target(const Target *t, LayoutMma k)
{
    const char *name = layout_mma_info(k)->name;
    if (target_has(t, TF_WMMA)) return !strncmp(name, "wmma", 4);
    if (target_has(t, TF_MFMA)) return !strncmp(name, "mfma", 4);
    return layout_mma_info(k)->warps == 1 && *name == 'm' && name[1] != 'f';
}

static const Layout *random_layout(Trial *t)
{
    for (int attempt = 0; attempt < 200; attempt++) {
        int32_t order[2] = { 1, 0 }, per[2] = { 1, 1 }, lanes[2], w[2] = { 1, 1 };
        const Layout *l = NULL;
        w[rnd(t, 2)] = t->warps;
        if (t->warps == 4 && !rnd(t, 3)) w[0] = w[1] = 2;
        if (rnd(t, 2)) {
            order[0] = 0;
            order[1] = 1;
        }
        if (rnd(t, 2)) {
            per[rnd(t, 2)] = 1 << rnd(t, 4);
            lanes[0] = 1 << rnd(t, t->target->wave == 64 ? 7 : 6);
            lanes[1] = t->target->wave / lanes[0];
            l = layout_blocked(&t->s->arena, 2, t->tile, per, lanes, w, order);
        } else {
            LayoutMma k = (LayoutMma)rnd(t, LAYOUT_MMA_COUNT);
            if (!of_target(t->target, k)) continue;
            l = layout_mma(&t->s->arena, k, (LayoutRole)rnd(t, 4), 2, t->tile, w);
        }
        if (l && layout_warps(l) == (uint32_t)t->warps && layout_lanes(l) == (uint32_t)t->target->wave &&
            layout_regs(l) <= 128)
            return l;
    }
    return NULL;
}

/* Fragment n of the target's; NULL behind the last. */
static const Layout *nth_fragment(Trial *t, int n)
{
    for (int k = 0; k < LAYOUT_MMA_COUNT; k++)
        for (int role = 0; role < 4 && of_target(t->target, (LayoutMma)k); role++) {
            const Layout *l = layout_mma(&t->s->arena, (LayoutMma)k, (LayoutRole)role, 2, t->tile,
                role == LAYOUT_HALVES ? (int32_t[]){ t->warps / 2, 2 } : (int32_t[]){ t->warps, 1 });
            if (l && layout_lanes(l) == (uint32_t)t->target->wave && layout_warps(l) == (uint32_t)t->warps &&
                layout_regs(l) <= 128 && !n--)
                return l;
        }
    return NULL;
}

static Func *build(Trial *t)
{
    Text o;
    const char *d = dtype_name(t->dtype);
    text_init(&o, &t->s->arena);
    text_printf(&o,
        "kernel @convert {\n  fits32\n  dim M = %d at 0:0\n  dim N = %d at 0:1\n  in %%X.0: tensor<%s, 2>[M, "
        "N] "
        "align 16 stride [?, 1]\n",
        t->tile[0], t->tile[1], d);
    for (int k = 0; k <= STEPS; k++)
        text_printf(&o, "  out %%Y%d.%d: tensor<%s, 2>[M, N] align 16 stride [?, 1]\n", k, k + 1, d);
    text_puts(&o, "  grid (");
    for (int k = 0; k <= STEPS + 1; k++) text_printf(&o, "%s%%%d: tensor<%s, 2>", k ? ", " : "", 10 + k, d);
    text_puts(&o, ") {\n    %19 = const 1 : index\n    yield %19\n  }\n  body {\n    %20 = const 0 : i32\n");
    for (int k = 0; k <= STEPS; k++) {
        const char *type = arena_printf(&t->s->arena, "%s[%d, %d]@%s", d, t->tile[0], t->tile[1],
            layout_text(&t->s->arena, t->layouts[k]));
        if (k) text_printf(&o, "    %%%d = convert %%%d : %s\n", 30 + k, 29 + k, type);
        else
            text_printf(&o, "    %%30 = load %%X.0[%%20, %%20] {extents = [%d, %d], masked = 0} : %s\n",
                t->tile[0], t->tile[1], type);
        text_printf(&o,
            "    %%%d = token {param = %d} : token\n    %%%d = store %%Y%d.%d[%%20, %%20] = %%%d token %%%d "
            "{extents = [%d, %d], masked = 0} : token\n",
            50 + k, k + 1, 70 + k, k, k + 1, 30 + k, 50 + k, t->tile[0], t->tile[1]);
    }
    text_puts(&o, "    return\n  }\n}\n");
    Module *m = ir_parse(t->s, diag_add_source(t->s, "convert.ir", NULL, o.data, o.len));
    return m && ir_verify(m) ? m->funcs : NULL;
}

static bool run(Trial *t, void *emu, uint64_t seed, char *why, size_t why_size)
{
    Func *f = build(t);
    KernelPlan plan = { .target = t->target, .layouts = { .session = t->s }, .warps = t->warps };
    GpuCode code;
    if (!f) {
        snprintf(why, why_size, "the IR is refused: %s", t->s->last_diag ? t->s->last_diag->message : "?");
        return false;
    }
    gpu_emit(t->s, f, &plan, &code);
    if (t->show) puts(code.text);
    if (code.shared_bytes > t->target->shared_bytes) return true;
    EmuLaunchFn *fn = exec_emu_build(emu, &code, why, why_size);
    if (!fn) return false;
    size_t n = (size_t)t->tile[0] * (size_t)t->tile[1], bytes = n * (size_t)dtype_bytes(t->dtype);
    uint8_t *data = aligned_alloc(16, (STEPS + 2) * ((bytes + 15) / 16 * 16));
    uint64_t words[64] = { 0 };
    size_t step = (bytes + 15) / 16 * 16;
    memset(data, 0xee, (STEPS + 2) * step);
    for (size_t i = 0; i < bytes; i++) { /* no NaN: its payload need not stay */
        bool top = dtype_is_float(t->dtype) &&
                   i % (size_t)dtype_bytes(t->dtype) == (size_t)dtype_bytes(t->dtype) - 1;
        data[i] = (uint8_t)(top ? 0x30 + rnd(t, 12) : rnd(t, 256));
    }
    for (int i = 0; i < code.n_slots; i++) {
        const Slot *x = &code.slots[i];
        if (x->kind == SLOT_DATA) words[i] = (uint64_t)(uintptr_t)(data + (size_t)x->param * step);
        else if (x->kind == SLOT_EXTENT || x->kind == SLOT_STRIDE)
            words[i] = (uint64_t)(x->kind == SLOT_STRIDE && x->index == 1 ? 1 : t->tile[1]);
    }
    const char *err = fn(words, 1, code.threads, (int)(seed & 1), (int)(seed >> 1 & 1));
    bool ok = !err;
    if (err) snprintf(why, why_size, "%s", err);
    for (int k = 1; k <= STEPS + 1 && ok; k++)
        for (size_t i = 0; i < n && ok; i++)
            if (memcmp(data + i * (size_t)dtype_bytes(t->dtype),
                    data + (size_t)k * step + i * (size_t)dtype_bytes(t->dtype),
                    (size_t)dtype_bytes(t->dtype))) {
                snprintf(why, why_size, "%s: element [%zu, %zu] is wrong after step %d: %s -> %s",
                    dtype_name(t->dtype), i / (size_t)t->tile[1], i % (size_t)t->tile[1], k - 1,
                    k > 1 ? layout_text(&t->s->arena, t->layouts[k - 2]) : "memory",
                    layout_text(&t->s->arena, t->layouts[k - 1]));
                ok = false;
            }
    free(data);
    return ok;
}

/* all: fragments from number seed * STEPS on, in one warp. *more: there were some. */
static bool try(void *emu, const Target *target, uint64_t seed, bool show, bool all_of_them, bool *more)
{
    static const int32_t tiles[][2] = { { 64, 64 }, { 32, 64 }, { 64, 32 }, { 128, 32 }, { 96, 48 },
        { 80, 64 }, { 33, 65 }, { 16, 16 }, { 24, 40 } };
    static const DType dtypes[] = { DT_F32, DT_F16, DT_BF16, DT_I8, DT_F64, DT_I32, DT_F32, DT_F16 };
    Session s;
    char why[900] = "";
    volatile bool ok = false;
    session_init(&s, allocator_libc);
    if (!setjmp(s.oom)) {
        Trial t = {
            .random = seed * 0x9e3779b97f4a7c15u + 0x1234567, .s = &s, .target = target, .show = show
        };
        for (int k = 0; k < 8; k++) rnd(&t, 2);
        const int32_t *tile = tiles[rnd(&t, sizeof tiles / sizeof *tiles)];
        t.tile[0] = tile[0];
        t.tile[1] = tile[1];
        t.warps = 1 << rnd(&t, 3);
        t.dtype = dtypes[rnd(&t, sizeof dtypes / sizeof *dtypes)];
        bool all = true;
        if (all_of_them) {
            t.tile[0] = t.tile[1] = target->wave;
            t.warps = 1;
            t.dtype = dtypes[seed % 5];
        }
        for (int k = 0; k <= STEPS; k++) {
            t.layouts[k] = all_of_them && k ? nth_fragment(&t, (int)seed * STEPS + k - 1) : NULL;
            if (all_of_them && k && t.layouts[k]) *more = true;
            all &= t.layouts[k] || (t.layouts[k] = random_layout(&t)) != NULL;
        }
        ok = !all || run(&t, emu, seed, why, sizeof why);
    } else snprintf(why, sizeof why, "left early: %s", s.last_diag ? s.last_diag->message : "");
    if (!ok) printf("seed %llu: %s\n", (unsigned long long)seed, why);
    session_free(&s);
    return ok;
}

int main(int argc, char **argv)
{
    const char *name = argc > 1 ? argv[1] : "emu_gfx942";
    uint64_t first = argc > 2 ? strtoull(argv[2], NULL, 10) : 0,
             count = argc > 3 ? strtoull(argv[3], NULL, 10) : 1;
    char why[200], full[40];
    snprintf(full, sizeof full, "%s:%s", strncmp(name + 4, "gfx", 3) ? "cuda" : "hip", name + 4);
    const Target *target = target_find(full);
    void *emu = target ? exec_emu_open_once(name, why, sizeof why) : NULL;
    int bad = 0;
    if (!emu) {
        printf("SKIP: %s\n", target ? why : "no such target");
        return 77;
    }
    bool all = argc > 2 && !strcmp(argv[2], "all"), more = true;
    for (uint64_t seed = first; !all && seed < first + count; seed++)
        bad += !try(emu, target, seed, argc > 4, false, &more);
    if (all) count = 0;
    for (; all && more; count += more) {
        more = false;
        bad += !try(emu, target, count, false, true, &more);
    }
    if (all && count < 2) {
        printf("FAIL: %s has more fragments\n", name);
        bad++;
    }
    exec_emu_close(emu);
    printf("%s: %llu chains of %d conversions, %d wrong\n", name, (unsigned long long)count, STEPS, bad);
    return bad != 0;
}

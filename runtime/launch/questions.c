/* questions.c: what a launch with these arguments would do, without doing it: its variant compiled, its
 * workspace, a description of both. */
#define _GNU_SOURCE
#include "runtime/launch/pitch.h"
#include <stdio.h>

typedef struct Answer {
    Variant *v;
    LaunchSize size;
} Answer; /* v NULL: there is nothing to compute */

static tile_status answer(tile_kernel *k, const LaunchArgs *a, Answer *out)
{
    tile_status st = launch_variant(k, a, &out->v);
    if (st || !out->v) return st;
    int64_t extents[out->v->compiled.n_dims + 1];
    EvalEnv env;
    int64_t programs;
    if ((st = launch_grid(k, out->v, a, extents, &env, &programs))) return st;
    out->size = launch_size(k->context, &out->v->compiled, &env, programs);
    return TILE_OK;
}

/* What a launch on the tensors as they are wants of the workspace, too: one that cannot copy now goes that
 * way. Where this cannot be known, as in a sealed context, such a launch has no code either. */
static void add_plain(tile_kernel *k, const LaunchArgs *a, Answer *out)
{
    Answer plain = { 0 };
    if (!answer(k, a, &plain) && plain.v && plain.size.workspace > out->size.workspace)
        out->size.workspace = plain.size.workspace;
}

/* Where a launch copies tensors first, the answer is the one for the copies, if they can be made. both: the
 * workspace suffices for a launch without copies, too. */
static tile_status ask(tile_kernel *k, const tile_arg *args, size_t n_args, bool both, Answer *out)
{
    LAUNCH_ARGS(a, k);
    LAUNCH_ARGS(copied, k);
    Pitch p;
    *out = (Answer){ 0 };
    tile_status st = kernel_bind(k, args, n_args, &a);
    if (st || !pitch_wanted(k, args, n_args, &a, &p)) return st ? st : answer(k, &a, out);
    st = pitch_compile(k, &a, &p);
    if (!st) st = kernel_bind(p.kernel, p.args, n_args, &copied);
    if (!st) st = answer(p.kernel, &copied, out);
    if (!st && both) add_plain(k, &a, out);
    return pitch_gives_up(&p, st) ? answer(k, &a, out) : st;
}

tile_status tile_kernel_compile(tile_kernel *k, const tile_arg *args, size_t n_args)
{
    FLOAT_STATE_DEFAULT();
    Answer a;
    return k ? ask(k, args, n_args, false, &a) : TILE_ERROR_INVALID_ARGUMENT;
}

tile_status tile_kernel_workspace(tile_kernel *k, const tile_arg *args, size_t n_args, size_t *bytes)
{
    FLOAT_STATE_DEFAULT();
    if (!k) return TILE_ERROR_INVALID_ARGUMENT;
    if (!bytes) return launch_bad(k, TILE_ERROR_INVALID_ARGUMENT, -1, "tile_kernel_workspace: bytes is NULL");
    Answer a;
    *bytes = 0;
    tile_status st = ask(k, args, n_args, true, &a);
    if (!st && a.v) *bytes = a.size.workspace;
    return st;
}

size_t launch_promises(const tile_kernel *k, const uint64_t *key, char *out, size_t room)
{
    ParamFacts facts[k->n_params + 1];
    bool dim16[k->n_dims + 1];
    int64_t most[k->n_dims + 1];
    LaunchFacts all;
    size_t n = 0;
    kernel_facts(k, key, facts, dim16, most, &all);
    if (room) *out = 0;
#define ADD(...) \
    do { \
        if (n < room) n += (size_t)format_text(out + n, room - n, __VA_ARGS__); \
    } while (0)
    for (int d = 0; d < k->n_dims; d++)
        if (dim16[d]) ADD("; %s%%16=0", k->dims[d].name);
    for (int d = 0; d < k->n_dims; d++)
        if (most[d]) ADD("; %s<=%d", k->dims[d].name, (int)most[d]);
    for (int i = 0; i < k->n_params; i++) {
        bool left_out = k->params[i].optional && !kernel_key_gives(k, key, i);
        if (k->params[i].kind == PARAM_SCALAR || left_out) continue;
        ADD("; %s:%s", k->params[i].name, facts[i].align ? " aligned 16" : " unaligned");
        if (facts[i].grain) ADD(", rows of whole %d bytes", facts[i].grain);
        if (facts[i].gaps) ADD(", rows with gaps");
        if (facts[i].dense) ADD(", axes without gaps");
        if (facts[i].unit_axis >= 0) ADD(", unit stride on axis %d", facts[i].unit_axis);
    }
    for (int p = 0; p < k->n_pairs; p++)
        if (key[0] >> (KEY_COLLAPSED + p) & 1)
            ADD("; %s, %s as one axis", k->dims[k->pairs[p].outer].name, k->dims[k->pairs[p].inner].name);
    if (!all.fits32) ADD("; 64-bit offsets");
    if (!all.extents31) ADD("; extents of 2^31 and more");
#undef ADD
    return n;
}

/* "D=64; Q: aligned 16, unit stride on axis 3; ..." */
static void describe(tile_kernel *k, const Variant *v, char *out, size_t room)
{
    size_t n = (size_t)format_text(out, room, "%s", v->compiled.spec);
    char promises[512];
    launch_promises(k, v->key, promises, sizeof promises);
    if (n < room) format_text(out + n, room - n, "%s", n || !*promises ? promises : promises + 2);
}

tile_status tile_kernel_variant(tile_kernel *k, const tile_arg *args, size_t n_args, tile_variant_info *info)
{
    FLOAT_STATE_DEFAULT();
    if (!k) return TILE_ERROR_INVALID_ARGUMENT;
    if (!info || info->struct_size < sizeof(size_t))
        return launch_bad(k, TILE_ERROR_INVALID_ARGUMENT, -1, "tile_kernel_variant: struct_size is not set");
    Answer a;
    tile_status st = ask(k, args, n_args, false, &a);
    if (st) return st;
    if (!a.v) {
        tile_variant_info none = { .struct_size = info->struct_size,
            .registers = -1,
            .spill_bytes = -1,
            .stack_bytes = -1,
            .specialization = "no elements: nothing to compute" };
        memcpy(info, &none, info->struct_size < sizeof none ? info->struct_size : sizeof none);
        return TILE_OK;
    }
    const Artifact *f = &a.v->compiled.artifact;
    tile_variant_info d = { .struct_size = info->struct_size,
        .threads = f->shape.threads,
        .registers = f->registers,
        .spill_bytes = f->spill_bytes,
        .stack_bytes = f->stack_bytes,
        .programs = a.size.programs,
        .from_cache = a.v->from_cache,
        .compile_ms = a.v->ms };
    d.shared_bytes =
        (uint64_t)(f->shape.shared_bytes + (f->static_shared_bytes > 0 ? f->static_shared_bytes : 0));
    describe(k, a.v, d.specialization, sizeof d.specialization);
    memcpy(info, &d, info->struct_size < sizeof d ? info->struct_size : sizeof d);
    return TILE_OK;
}

tile_status kernel_code_digest(tile_kernel *k, const tile_arg *args, size_t n, uint8_t digest[32])
{
    FLOAT_STATE_DEFAULT();
    Answer a;
    tile_status st = ask(k, args, n, false, &a);
    memset(digest, 0, 32);
    if (!st && a.v) artifact_digest(&a.v->compiled, digest);
    return st;
}

tile_status tile_context_progress(tile_context *c, int64_t *done, int64_t *total)
{
    if (!c || !done || !total) return TILE_ERROR_INVALID_ARGUMENT;
    *done = *total = 0;
    if (c->driver->ops->progress) c->driver->ops->progress(c->driver, done, total);
    return TILE_OK;
}

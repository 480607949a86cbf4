/* exec_reference.c: no kernel runs; the wanted values are written into the outputs. This tests the tests: the
 * table's sizes fit, correctly rounded results pass, and results with one planted fault (a wrong element, one
 * not written, a byte beside the tensor, a changed input) do not. */
#include "exec_reference.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef enum Fault { FAULT_NONE, FAULT_WRONG, FAULT_UNWRITTEN, FAULT_STRAY, FAULT_INPUT } Fault;
typedef struct State {
    Fault fault;
} State;

void *exec_reference_open(const char *name, char *why, size_t why_size)
{
    static const char *const names[] = { "reference", "wrong", "unwritten", "stray", "input" };
    State *s = calloc(1, sizeof *s);
    while (s && s->fault < FAULT_INPUT && strcmp(names[s->fault], name)) s->fault++;
    return s;
}

void exec_reference_close(void *state) { free(state); }

static int64_t offset_of(const Tensor *t, int64_t linear)
{
    int64_t at = 0;
    for (int a = t->rank - 1; a >= 0; a--) at += linear % t->shape[a] * t->stride[a], linear /= t->shape[a];
    return at;
}

/* Of the elements that do not look as if nobody had written them, the last: -1 is what poison reads as. */
static unsigned char *last_written(const Tensor *t, unsigned char *data)
{
    size_t size = ref_type_size(t->type);
    unsigned char poison[16], *at = data;
    memset(poison, 0xff, sizeof poison);
    for (int64_t e = t->count - 1; e >= 0; e--)
        if (memcmp(at = data + offset_of(t, e) * (int64_t)size, poison, size)) break;
    return at;
}

bool exec_reference_run(void *state, const Run *run, char *why, size_t why_size)
{
    const State *s = state;
    const Problem *p = run->problem;
    for (int i = 0; i < p->n_tensors; i++) {
        const Tensor *t = &p->tensors[i];
        unsigned char *data = t->base + t->offset;
        if (t->role == ROLE_IN && s->fault == FAULT_INPUT && t->count) data[0] ^= 1;
        if (t->role != ROLE_OUT && t->role != ROLE_INOUT) continue;
        for (int64_t e = 0; e < t->count; e++) ref_put(t->type, data, offset_of(t, e), t->want[e]);
        if (!t->count) continue;
        int64_t last = offset_of(t, t->count - 1);
        if (s->fault == FAULT_WRONG)
            ref_put(
                t->type, data, last, isfinite(t->want[t->count - 1]) ? t->want[t->count - 1] * 1.125 + 8 : 0);
        if (s->fault == FAULT_UNWRITTEN) memset(last_written(t, data), 0xff, ref_type_size(t->type));
        if (s->fault == FAULT_STRAY) data[(last + 1) * (int64_t)ref_type_size(t->type)] = 0;
    }
    return true;
}

/* example_case.c: see example_case.h. */
#include "example_case.h"
#include "frontend/frontend.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#define ATT "B=1,H=4,HK=2,M=37,N=53,D=16"
const Case example_cases[] = {
    { "attention", "attention", "TM=16,TN=16", ATT, "scale=0.25", 4e-3 },
    { "attention", "attention", "TM=16,TN=16,CAUSAL=false", ATT, "scale=0.25", 4e-3 },
    { "attention", "attention", "TM=16,TN=8,T=f32", "B=2,H=2,HK=1,M=32,N=32,D=8", "scale=0.25", 1e-5 },
    { "attention_alibi", "attention_alibi", "TM=16,TN=16", ATT, "scale=0.25", 4e-3 },
    { "attention_bias", "attention_bias", "TM=16,TN=16", ATT, "scale=0.25", 4e-3 },
    { "attention_cross", "attention_cross", "TM=16,TN=16", ATT, "scale=0.25", 4e-3 },
    { "attention_sink", "attention_sink", "TM=16,TN=16", ATT, "scale=0.25", 4e-3 },
    { "attention_softcap", "attention_softcap", "TM=16,TN=16", ATT, "scale=0.25,cap=5", 4e-3 },
    { "attention_window", "attention_window", "TM=16,TN=16,WINDOW=9", ATT, "scale=0.25", 4e-3 },
    { "attention_decode", "attention_decode_split", "G=2,TN=16", "B=1,H=4,HK=2,N=53,D=16,S=3", "scale=0.25",
        1e-4 },
    { "attention_decode", "attention_decode_join", "", "B=1,H=4,D=16,S=3", "", 4e-3 },
    { "blur", "blur", "TY=4,TX=16", "H=13,W=37", "", 1e-5 },
    { "blur", "blur", "R=3,TY=4,TX=16", "H=13,W=37", "", 1e-5 },
    { "conv2d", "conv2d_nchw", "TF=16,TP=2,TQ=4,TC=4", "B=2,C=5,H=7,W=6,F=9,R=3,S=3,P=7,Q=6", "", 4e-3 },
    { "conv2d", "conv2d_nhwc", "TF=16,TP=2,TQ=4,TC=4", "B=2,C=5,H=7,W=6,F=9,R=3,S=3,P=7,Q=6", "", 4e-3 },
    { "conv2d", "channels_last", "TC=4,TN=8", "B=2,C=5,N=13", "", 0 },
    { "conv2d", "conv2d_rows", "TF=16,TP=2,TC=4", "B=2,C=5,H=7,W=6,F=9,R=3,S=3,N=42", "", 4e-3 },
    { "conv2d", "conv2d_planes", "TF=16,TP=2,TC=4", "B=2,C=5,H=7,W=6,F=9,R=3,S=3,N=42", "", 4e-3 },
    { "copy_first_column", "copy_first_column", "TM=16", "M=37,N=5", "", 0 },
    { "cumsum", "cumsum_rows", "TN=16", "M=3,N=53", "", 1e-5 },
    { "dropout", "dropout", "BLOCK=32", "N=70", "p=0.3,seed=77", 0 },
    { "embedding", "embedding", "TT=4,TD=16", "N=9,V=7,D=20", "", 0 },
    { "gemm", "gemm", "TM=16,TN=16,TK=16", "M=37,N=21,K=53", "", 2e-3 },
    { "gemm", "gemm", "TM=16,TN=16,TK=16,T=f32,TO=f32", "M=32,N=48,K=64", "", 1e-5 },
    { "gemm", "gemm", "TM=16,TN=16,TK=16", "M=37,N=21,K=1200", "", 4e-3 },
    { "gemm_bias_gelu", "gemm_bias_gelu", "TM=16,TN=16,TK=16", "M=37,N=21,K=53", "", 4e-3 },
    { "gemm_gated", "gemm_gated", "TM=16,TN=16,TK=16", "M=37,N=21,K=53", "", 4e-3 },
    { "gemm_residual", "gemm_residual", "TM=16,TN=16,TK=16", "M=37,N=21,K=53", "", 4e-3 },
    { "group_norm", "group_norm", "", "N=2,G=3,C=5,S=13", "eps=1e-5", 4e-3 },
    { "histogram", "histogram", "BLOCK=64", "N=225,BINS=5", "", 0 },
    { "layer_norm", "layer_norm", "", "M=3,N=53", "eps=1e-5", 4e-3 },
    { "layer_norm", "layer_norm_long", "TN=16", "M=3,N=53", "eps=1e-5", 4e-3 },
    { "max_pool", "max_pool", "TP=2,TQ=8", "B=2,C=3,H=9,W=13,P=5,Q=7", "", 0 },
    { "reduction", "sum_rows", "TM=2,TN=16", "M=5,N=53", "", 1e-5 },
    { "reduction", "sum_columns", "TM=8,TN=16", "M=37,N=19", "", 1e-5 },
    { "reduction", "argmax_rows", "", "M=3,N=19", "", 0 },
    { "reduction", "max_magnitude_rows", "", "M=3,N=19", "", 0 },
    { "reduction", "sum_all", "BLOCK=16", "N=225,P=3", "", 1e-5 },
    { "rms_norm_matrix", "rms_norm_matrix", "", "M=3,N=53", "eps=1e-5", 4e-3 },
    { "rms_norm_vector", "rms_norm_vector_sum", "BLOCK=16", "N=225,P=3", "", 1e-5 },
    { "rms_norm_vector", "rms_norm_vector_scale", "BLOCK=16", "N=225,P=3", "eps=1e-5", 1e-5 },
    { "rope", "rope_table", "TS=4", "S=9,D2=8", "base=10000", 1e-4 },
    { "rope", "rope", "TS=4", "B=1,H=2,S=9,D=16,D2=8", "", 4e-3 },
    { "silu", "silu", "TM=2,TN=16", "M=5,N=53", "", 4e-3 },
    { "softmax", "softmax", "", "M=3,N=53", "", 4e-3 },
    { "swiglu", "swiglu", "TM=2,TN=16", "M=5,N=21,N2=42", "", 4e-3 },
    { "topk", "topk_rows", "", "M=3,N=19,K=4", "", 0 },
    { "transpose", "transpose", "TM=16,TN=8", "M=37,N=21", "", 0 },
    { "vector_add", "vector_add", "BLOCK=32", "N=225", "", 0 },
    /* integers are drawn from 0 to 6 */
    { "attention_backward", "attention_delta", "TM=16", "B=1,H=2,M=37,D=16", "", 4e-3 },
    { "attention_backward", "attention_dkdv", "TM=16,TN=16", "B=1,H=2,M=37,N=53,D=16", "scale=0.05", 8e-3 },
    { "attention_backward", "attention_dq", "TM=16,TN=16", "B=1,H=2,M=37,N=53,D=16", "scale=0.05", 8e-3 },
    { "attention_gradients", "attention_forward", "TM=16,TN=16", "B=1,H=2,HK=1,M=37,N=53,D=16",
        "scale=0.25,cap=2", 8e-3 },
    { "attention_gradients", "attention_gradients_sink", "TM=16", "B=2,H=2,M=37", "", 1e-4 },
    { "attention_gradients", "attention_gradients_begin", "TM=16", "B=1,H=2,M=37,D=16", "", 4e-3 },
    { "attention_gradients", "attention_gradients", "TM=16,TN=16,ORDER=false", "B=1,H=2,HK=1,M=37,N=53,D=16",
        "scale=0.05,cap=2", 8e-3 },
    { "attention_gradients", "attention_gradients_end", "TM=16", "B=1,H=2,M=37,D=16", "scale=0.05", 4e-3 },
    { "attention_differential", "attention_differential", "TM=16,TN=16", "B=1,H=2,M=37,N=53,D=16,DV=24",
        "scale=0.25,lambda=0.5", 8e-3 },
    { "attention_mla", "attention_mla", "TM=16,TN=16", "B=1,H=2,M=37,N=53,D=16,R=8,DV=24", "scale=0.25",
        8e-3 },
    { "attention_paged", "attention_paged_split", "G=2,TN=16", "B=2,H=4,HK=2,D=16,P=7,PAGE=8,MOST=3,S=2",
        "scale=0.25", 1e-4 },
    { "attention_paged", "attention_paged_prefill", "TM=16,TN=16",
        "R=37,B=2,B1=3,H=4,HK=2,D=16,P=7,PAGE=8,MOST=3", "scale=0.25,most=20", 8e-3 },
    { "attention_append", "attention_append", "TM=8,TN=16,G=2", "B=2,M=11,N=37,H=2,HK=1,D=16", "scale=0.25",
        8e-3 },
    { "attention_packed", "attention_packed", "TM=16,TN=16", "R=37,S=53,B1=6,H=2,HK=1,D=16", "scale=0.25",
        8e-3 },
    { "attention_backward_packed", "attention_backward_packed_begin", "TM=16", "R=37,B1=6,P=640,H=2,D=16", "",
        4e-3 },
    { "attention_backward_packed", "attention_backward_packed", "TM=16,TN=16",
        "R=37,S=53,B1=6,P=640,H=2,HK=1,D=16", "scale=0.05", 8e-3 },
    { "attention_backward_packed", "attention_backward_packed_end", "TM=16", "R=37,B1=6,P=640,H=2,D=16",
        "scale=0.05", 4e-3 },
    { "attention_paged", "attention_paged_join", "", "B=1,H=4,D=16,S=3", "", 4e-3 },
    { "chunk_scan", "chunk_scan", "TC=16", "BATCH=1,L=37,H=2,P=16,N=8", "", 8e-3 },
    { "moe", "moe_route", "TT=4", "M=9,TOP=2,E1=8,SLOTS=18", "", 0 },
    { "moe", "moe_gate", "TM=16,TN=16,TK=16", "M=7,N=21,K=53,E=7,TILES=4,SLOTS=37", "", 8e-3 },
    { "moe", "moe_plan", "TM=4", "E1=6,TILES=5", "", 0 },
    { "moe", "moe_down", "TM=16,TN=16,TK=16", "N=37,K=21,E=7,TILES=4,SLOTS=37", "", 4e-3 },
    { "moe", "moe_combine", "TT=4,TD=16", "M=9,TOP=2,SLOTS=18,K=20", "", 4e-3 },
    { "gemm_grouped", "gemm_grouped_plan", "TM=4", "E1=6,TILES=5", "", 0 },
    { "gemm_grouped", "gemm_grouped", "TM=16,TN=16,TK=16", "M=37,N=21,K=53,E=7,TILES=4", "", 4e-3 },
    { "gemm_int4", "gemm_int4", "TM=16,TN=16,TK=32", "M=17,N=21,K=64,KHALF=32,GROUPS=2", "", 8e-3 },
    { "gemm_w4a8", "gemm_w4a8", "TM=16,TN=16,TK=32", "M=17,N=21,K=64,KHALF=32,GROUPS=2", "", 8e-3 },
    { "gemm_w4a8", "quantize_groups", "TK=32", "M=17,K=64,GROUPS=2", "", 1e-5 },
    { "gemm_int4", "gemm_w8", "TM=16,TN=16,TK=32", "M=17,N=21,K=53", "", 8e-3 },
    { "spmv", "spmv_ell", "TM=16", "M=37,W=5,N=9", "", 1e-5 },
    { "spmv", "spmv_csr", "T=16", "M=9,M1=10,NNZ=11,N=9", "", 1e-5 },
};
const int n_example_cases = sizeof example_cases / sizeof *example_cases;

char *case_read(const char *directory, const char *name, size_t *len)
{
    char path[512];
    snprintf(path, sizeof path, "%s/%s.tile", directory, name);
    FILE *f = fopen(path, "rb");
    if (!f) return NULL;
    char *text = malloc(1 << 16);
    *len = text ? fread(text, 1, 1 << 16, f) : 0;
    fclose(f);
    return text;
}

/* --- modules and arguments --------------------------------------------------------------------------- */

static bool lookup(const char *list, const char *name, double *out)
{
    size_t len = strlen(name);
    for (const char *p = list; p && *p; p = strchr(p, ',') ? strchr(p, ',') + 1 : NULL)
        if (!strncmp(p, name, len) && p[len] == '=') {
            *out = atof(p + len + 1);
            return true;
        }
    return false;
}

bool case_lower(Problem *p, const Case *c, const char *text, size_t len)
{
    FrontBinding binds[MAX_BINDS];
    size_t n = 0;
    char all[256], *save = NULL;
    Ast *ast = frontend_parse(&p->s, diag_add_source(&p->s, c->file, NULL, text, len), NULL, NULL);
    if (!ast || !frontend_check(ast)) return false;
    const FrontKernel *k = frontend_kernel_find(ast, c->kernel);
    if (!k) return false;
    snprintf(all, sizeof all, "%s", c->consts);
    for (char *w = strtok_r(all, ",", &save); w; w = strtok_r(NULL, ",", &save)) {
        const char *why;
        *strchr(w, '=') = 0;
        binds[n].name = session_intern(&p->s, w, strlen(w));
        if (!frontend_parse_value(&p->s, k, w, w + strlen(w) + 1, &binds[n++].value, &why)) return false;
    }
    for (int x = 0; x < k->n_keys; x++) {
        double v;
        if (!lookup(c->dims, k->keys[x], &v)) continue;
        binds[n].name = k->keys[x];
        binds[n++].value = (FrontValue){ FRONT_INT, { .i = (int64_t)v } };
    }
    p->module = frontend_lower(ast, c->kernel, binds, n, NULL);
    if (!p->module) return false;
    p->func = ir_func_find(p->module, c->kernel);
    return p->func != NULL;
}

static uint64_t random_next(uint64_t *s)
{
    *s += 0x9E3779B97F4A7C15ull;
    uint64_t z = *s;
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9ull;
    z = (z ^ z >> 27) * 0x94D049BB133111EBull;
    return z ^ z >> 31;
}

static Scalar random_scalar(DType d, uint64_t *seed)
{
    uint64_t r = random_next(seed);
    if (dtype_is_float(d)) return scalar_float(scalar_round(d, (double)(int64_t)(r >> 11) * 0x1p-52 - 1));
    return scalar_int(scalar_wrap(d, (int64_t)(r % 7)));
}

static int64_t extent(const Problem *p, const Case *c, int dim)
{
    double v = -1;
    const Dim *d = &p->func->dims[dim];
    if (d->extent >= 0) return d->extent;
    return d->name && lookup(c->dims, d->name, &v) ? (int64_t)v : -1;
}

bool case_args(Problem *p, const Case *c)
{
    uint64_t seed = 42;
    if (p->func->n_params > MAX_ARGS) {
        fprintf(stderr, "%s: %d arguments, of which a case has at most %d\n", c->kernel, p->func->n_params,
            MAX_ARGS);
        return false;
    }
    for (int k = 0; k < p->func->n_params; k++) {
        const Param *q = &p->func->params[k];
        DType d = q->type->dtype;
        double v = 1;
        if (q->kind == PARAM_SCALAR) {
            if (!lookup(c->scalars, q->name, &v)) return false;
            p->args[k].scalar = dtype_is_float(d) ? scalar_float(scalar_round(d, v)) : scalar_int((int64_t)v);
            continue;
        }
        int64_t n = 1;
        for (int a = q->type->rank - 1; a >= 0; a--) {
            int64_t e = extent(p, c, q->dims[a]);
            if (e < 0) {
                fprintf(stderr, "%s: extent of axis %d of %s unknown\n", c->kernel, a, q->name);
                return false;
            }
            p->args[k].shape[a] = e;
            p->args[k].stride[a] = n;
            n *= e;
        }
        p->bytes[k] = (size_t)n * (size_t)dtype_bytes(d);
        p->data[k] = p->args[k].data = aligned_alloc(64, (p->bytes[k] + 64) & ~(size_t)63);
        if (!p->data[k]) return false;
        for (int64_t i = 0; i < n; i++)
            scalar_store(d, random_scalar(d, &seed), (char *)p->data[k] + i * dtype_bytes(d));
    }
    return true;
}

/* The facts that the launch with these arguments could promise. */
void case_facts(Problem *p, const Case *c)
{
    Func *f = p->func;
    f->fits32 = true;
    for (int d = 0; d < f->n_dims; d++)
        if (f->dims[d].extent < 0) {
            int64_t e = extent(p, c, d), div = 1;
            while (e > 0 && div < 16 && e % (2 * div) == 0) div *= 2;
            f->dims[d].div = div;
        }
    for (int k = 0; k < f->n_params; k++) {
        Param *q = &f->params[k];
        if (q->kind == PARAM_SCALAR && dtype_is_float(q->type->dtype) && p->args[k].scalar.f > 0)
            q->lo = 0x1p-100;
        if (q->kind == PARAM_SCALAR || q->type->rank == 0) continue;
        q->align = 64;
        q->stride[q->type->rank - 1] = 1;
    }
}

void case_free(Problem *p)
{
    for (int k = 0; k < MAX_ARGS; k++) free(p->data[k]);
    session_free(&p->s);
}

void case_diags(Problem *p)
{
    Text t;
    text_init(&t, &p->s.arena);
    diag_render_all(&p->s, &t);
    fputs(t.data, stderr);
}

/* --- comparing --------------------------------------------------------------------------------------- */

static bool near_enough(double a, double b, double bound)
{
    if (isnan(a) || isnan(b)) return isnan(a) && isnan(b);
    return a == b || fabs(a - b) <= bound * (1 + fabs(b));
}

bool case_same(const Problem *p, const Problem *q, const Case *c, const char *what)
{
    for (int k = 0; k < p->func->n_params; k++) {
        const Param *par = &p->func->params[k];
        if (par->kind != PARAM_OUT && par->kind != PARAM_INOUT) continue;
        DType d = par->type->dtype;
        size_t size = (size_t)dtype_bytes(d);
        for (size_t i = 0; i < p->bytes[k]; i += size) {
            Scalar a = scalar_load(d, (char *)p->data[k] + i), b = scalar_load(d, (char *)q->data[k] + i);
            double x = dtype_is_float(d) ? a.f : (double)a.i, y = dtype_is_float(d) ? b.f : (double)b.i;
            if (near_enough(x, y, c->bound)) continue;
            fprintf(stderr, "%s (%s; %s), %s: %s[%zu] is %.9g, want %.9g\n", c->kernel, c->consts, c->dims,
                what, par->name, i / size, x, y);
            return false;
        }
    }
    return true;
}

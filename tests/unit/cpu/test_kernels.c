/* test_kernels.c: every example kernel at ragged sizes, compiled by the CPU backend and run, against the interpreter: without
 * passes and launch facts, with all passes and facts, and for processors with and without AVX-512 and AVX2.
 *
 * test_kernels EXAMPLES-DIRECTORY [kernel] */
#include "cpu_case.h"
#include "passes/passes.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>


#define ATT "B=1,H=4,HK=2,M=37,N=53,D=16"
static const Case cases[] = {
    { "attention", "attention", "TM=16,TN=16", ATT, "scale=0.25", 4e-3 },
    { "attention", "attention", "TM=16,TN=16,CAUSAL=false", ATT, "scale=0.25", 4e-3 },
    { "attention", "attention", "TM=16,TN=8,T=f32", "B=2,H=2,HK=1,M=32,N=32,D=8", "scale=0.25", 1e-5 },
    { "attention_alibi", "attention_alibi", "TM=16,TN=16", ATT, "scale=0.25", 4e-3 },
    { "attention_bias", "attention_bias", "TM=16,TN=16", ATT, "scale=0.25", 4e-3 },
    { "attention_cross", "attention_cross", "TM=16,TN=16", ATT, "scale=0.25", 4e-3 },
    { "attention_sink", "attention_sink", "TM=16,TN=16", ATT, "scale=0.25", 4e-3 },
    { "attention_softcap", "attention_softcap", "TM=16,TN=16", ATT, "scale=0.25,cap=5", 4e-3 },
    { "attention_window", "attention_window", "TM=16,TN=16,WINDOW=9", ATT, "scale=0.25", 4e-3 },
    { "attention_decode", "attention_decode_split", "G=2,TN=16", "B=1,H=4,HK=2,N=53,D=16,S=3", "scale=0.25", 1e-4 },
    { "attention_decode", "attention_decode_join", "", "B=1,H=4,D=16,S=3", "", 4e-3 },
    { "blur", "blur", "TY=4,TX=16", "H=13,W=37", "", 1e-5 },
    { "conv2d", "conv2d_nchw", "TF=16,TP=2,TQ=4,TC=4", "B=2,C=5,H=7,W=6,F=9,R=3,S=3,P=7,Q=6", "", 4e-3 },
    { "conv2d", "conv2d_nhwc", "TF=16,TP=2,TQ=4,TC=4", "B=2,C=5,H=7,W=6,F=9,R=3,S=3,P=7,Q=6", "", 4e-3 },
    { "copy_first_column", "copy_first_column", "TM=16", "M=37,N=5", "", 0 },
    { "cumsum", "cumsum_rows", "TN=16", "M=3,N=53", "", 1e-5 },
    { "dropout", "dropout", "BLOCK=32", "N=70", "p=0.3,seed=77", 0 },
    { "embedding", "embedding", "TT=4,TD=16", "N=9,V=7,D=20", "", 0 },
    { "gemm", "gemm", "TM=16,TN=16,TK=16", "M=37,N=21,K=53", "", 2e-3 },
    { "gemm", "gemm", "TM=16,TN=16,TK=16,T=f32,TO=f32", "M=32,N=48,K=64", "", 1e-5 },
    { "gemm_bias_gelu", "gemm_bias_gelu", "TM=16,TN=16,TK=16", "M=37,N=21,K=53", "", 4e-3 },
    { "gemm_gated", "gemm_gated", "TM=16,TN=16,TK=16", "M=37,N=21,K=53", "", 4e-3 },
    { "gemm_residual", "gemm_residual", "TM=16,TN=16,TK=16", "M=37,N=21,K=53", "", 4e-3 },
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
    { "rms_norm_matrix", "rms_norm_long", "TN=16", "M=3,N=53", "eps=1e-5", 4e-3 },
    { "rms_norm_vector", "rms_norm_vector_sum", "BLOCK=16", "N=225,P=3", "", 1e-5 },
    { "rms_norm_vector", "rms_norm_vector_scale", "BLOCK=16", "N=225,P=3", "eps=1e-5", 1e-5 },
    { "rope", "rope_table", "TS=4", "S=9,D2=8", "base=10000", 1e-4 },
    { "rope", "rope", "TS=4", "B=1,H=2,S=9,D=16,D2=8", "", 4e-3 },
    { "silu", "silu", "TM=2,TN=16", "M=5,N=53", "", 4e-3 },
    { "softmax", "softmax", "", "M=3,N=53", "", 4e-3 },
    { "softmax", "softmax_long", "TN=16", "M=3,N=53", "", 4e-3 },
    { "swiglu", "swiglu", "TM=2,TN=16", "M=5,N=21,N2=42", "", 4e-3 },
    { "topk", "topk_rows", "", "M=3,N=19,K=4", "", 0 },
    { "transpose", "transpose", "TM=16,TN=8", "M=37,N=21", "", 0 },
    { "vector_add", "vector_add", "BLOCK=32", "N=225", "", 0 },
};

static const char *directory;
static int failures;

/* --- comparing ---------------------------------------------------------------------------------------------------------------- */

static bool near_enough(double a, double b, double bound)
{
    if (isnan(a) || isnan(b)) return isnan(a) && isnan(b);
    return a == b || fabs(a - b) <= bound * (1 + fabs(b));
}

static bool same_outputs(const Problem *p, const Problem *q, const Case *c, const char *what)
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
            fprintf(stderr, "%s (%s; %s), %s: %s[%zu] is %.9g, interpreter %.9g\n", c->kernel, c->consts, c->dims, what, par->name, i / size, x, y);
            return false;
        }
    }
    return true;
}

typedef struct Mode { const char *name, *cpu; bool passes, facts, checked, debug; } Mode;
static const Mode modes[] = {
    { "plain", NULL, false, false, false, false }, { "passes", NULL, true, false, false, false }, { "facts", NULL, true, true, false, true },
    { "checked", NULL, true, true, true, false }, { "avx2", "x86-64-v3", true, true, false, false }, { "sse", "x86-64-v2", true, true, false, false },
    { "avx512", "x86-64-v4", true, true, false, false },
};

static bool can_run(const char *cpu)
{
    if (!cpu || !strcmp(cpu, "x86-64-v2")) return true;
    if (!strcmp(cpu, "x86-64-v3")) return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq");
}

/* Lowers and runs the case, by the interpreter (NULL mode) or the backend. False after a message. */
static bool run_case(Problem *p, const Case *c, const char *text, size_t len, const Mode *m)
{
    volatile bool ok = false;
    memset(p, 0, sizeof *p);
    session_init(&p->s, allocator_libc);
    CpuRun r = { 0 };
    if (!setjmp(p->s.oom)) {
        ok = case_lower(p, c, text, len) && case_args(p, c);
        if (ok && m && m->facts) case_facts(p, c);
        PassOptions o = pass_options_default(target_find("cpu"));
        o.opt_level = m && m->passes ? 3 : 0;
        o.check = m && m->checked;
        ok = ok && passes_run(p->module, &o, NULL) && ir_verify(p->module);
        if (ok && !m) ok = interp_run(&p->s, p->func, p->args, p->func->n_params);
        if (ok && m) {
            BackendOptions b = { .opt_level = 2, .cpu = m->cpu, .checked = m->checked, .debug_info = m->debug, .verify_each = true };
            ok = cpu_run_compile(&p->s, p->func, &b, &r) && cpu_run_bind(&p->s, p->func, p->args, &r) && cpu_run_launch(&r) == 0;
        }
    } else ok = false;
    if (!ok) case_diags(p);
    cpu_run_free(&r);
    return ok;
}

static void test_case(const Case *c)
{
    size_t len = 0;
    Problem plain, q;
    char *text = case_read(directory, c->file, &len);
    if (!text || !run_case(&plain, c, text, len, NULL)) {
        fprintf(stderr, "%s: does not run in the interpreter\n", c->kernel);
        failures++;
        if (text) case_free(&plain);
        free(text);
        return;
    }
    for (size_t k = 0; k < sizeof modes / sizeof *modes; k++) {
        if (!can_run(modes[k].cpu)) continue;
        if (!run_case(&q, c, text, len, &modes[k])) {
            fprintf(stderr, "%s (%s; %s), %s: failed\n", c->kernel, c->consts, c->dims, modes[k].name);
            failures++;
        } else if (!same_outputs(&q, &plain, c, modes[k].name)) failures++;
        case_free(&q);
    }
    case_free(&plain);
    free(text);
}

int main(int argc, char **argv)
{
    int ran = 0;
    if (argc < 2) { fprintf(stderr, "test_kernels EXAMPLES-DIRECTORY [kernel]\n"); return 1; }
    directory = argv[1];
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        if (argc > 2 && strcmp(argv[2], cases[k].kernel)) continue;
        test_case(&cases[k]);
        ran++;
    }
    printf("%d cases, %d failures\n", ran, failures);
    return failures || !ran;
}

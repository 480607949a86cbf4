/* references_attention.c: the references of attention in its variants. */
#include "reference_names.h"

static bool has_tensor(const Problem *p, const char *name)
{
    for (int i = 0; i < p->n_tensors; i++)
        if (!strcmp(p->tensors[i].name, name)) return true;
    return false;
}

/* The const CAUSAL of the problem, or `otherwise` when it has none. */
static bool is_causal(const Problem *p, bool otherwise)
{
    const char *causal = problem_const(p, "CAUSAL");
    return causal ? !strcmp(causal, "true") : otherwise;
}

/* One description for all variants: a feature is on when the problem has its tensor, scalar or const. */
static void attention(Problem *p, bool causal, int64_t shift)
{
    IN(Q);
    IN(K);
    IN(V);
    WANT(O);
    SIZE(B);
    SIZE(H);
    SIZE(HK);
    SIZE(M);
    SIZE(N);
    SIZE(D);
    const char *window = problem_const(p, "WINDOW");
    RefAttention a = {
        .b = B,
        .h = H,
        .hk = HK,
        .m = M,
        .n = N,
        .d = D,
        .scale = problem_scalar_value(p, "scale"),
        .causal = causal,
        .shift = shift,
        .window = window ? atoll(window) : 0,
        .cap = problem_scalar(p, "cap") ? problem_scalar_value(p, "cap") : 0,
        .slope = has_tensor(p, "SLOPE") ? problem_tensor(p, "SLOPE")->values : NULL,
        .bias = has_tensor(p, "BIAS") ? problem_tensor(p, "BIAS")->values : NULL,
        .sink = has_tensor(p, "SINK") ? problem_tensor(p, "SINK")->values : NULL,
    };
    ref_attention(Q, K, V, O, &a);
}

void want_attention(Problem *p) { attention(p, problem_const(p, "WINDOW") || is_causal(p, false), 0); }

void want_attention_cross(Problem *p) { attention(p, true, problem_size(p, "N") - problem_size(p, "M")); }

void want_attention_decode(Problem *p)
{
    IN(Q);
    IN(K);
    IN(V);
    WANT(O);
    SIZE(B);
    SIZE(H);
    SIZE(HK);
    SIZE(N);
    SIZE(D);
    RefAttention a = {
        .b = B, .h = H, .hk = HK, .m = 1, .n = N, .d = D, .scale = problem_scalar_value(p, "scale")
    };
    ref_attention(Q, K, V, O, &a);
}

/* A cache of keys and values in pages of `size` keys. of[b * most + k] is page k of sequence b. */
typedef struct Pages {
    const double *of;
    int64_t most, size, heads, d;
} Pages;

/* The element of the cache at which key j of a head begins. */
static int64_t paged_key(const Pages *c, int64_t b, int64_t head, int64_t j)
{ return (((int64_t)c->of[b * c->most + j / c->size] * c->size + j % c->size) * c->heads + head) * c->d; }

void want_attention_paged(Problem *p)
{
    IN(Q);
    IN(K);
    IN(V);
    IN(PAGES_OF);
    IN(LEN);
    WANT(O);
    SIZE(B);
    SIZE(H);
    SIZE(HK);
    SIZE(D);
    SIZE(PAGE);
    SIZE(MOST);
    Pages pages = { PAGES_OF, MOST, PAGE, HK, D };
    double *k = malloc((size_t)(HK * MOST * PAGE * D) * sizeof *k),
           *v = malloc((size_t)(HK * MOST * PAGE * D) * sizeof *v);
    for (int64_t b = 0; b < B; b++) {
        RefAttention a = { .b = 1,
            .h = H,
            .hk = HK,
            .m = 1,
            .n = (int64_t)LEN[b],
            .d = D,
            .scale = problem_scalar_value(p, "scale") };
        for (int64_t h = 0; h < HK; h++)
            for (int64_t j = 0; j < a.n; j++) {
                int64_t from = paged_key(&pages, b, h, j);
                memcpy(k + (h * a.n + j) * D, K + from, (size_t)D * sizeof *k);
                memcpy(v + (h * a.n + j) * D, V + from, (size_t)D * sizeof *v);
            }
        ref_attention(Q + b * H * D, k, v, O + b * H * D, &a);
    }
    free(k);
    free(v);
}

/* Sequence by sequence; a query before the first key sees none. */
void want_attention_paged_prefill(Problem *p)
{
    IN(Q);
    IN(K);
    IN(V);
    IN(PAGES_OF);
    IN(LEN);
    IN(START);
    WANT(O);
    SIZE(B);
    SIZE(H);
    SIZE(HK);
    SIZE(D);
    SIZE(PAGE);
    SIZE(MOST);
    Pages pages = { PAGES_OF, MOST, PAGE, HK, D };
    double *s = malloc((size_t)(MOST * PAGE + 1) * sizeof *s);
    for (int64_t b = 0; b < B; b++)
        for (int64_t r = (int64_t)START[b]; r < (int64_t)START[b + 1]; r++)
            for (int64_t h = 0; h < H; h++) {
                int64_t at = (int64_t)LEN[b] - ((int64_t)START[b + 1] - r);
                double top = -INFINITY, sum = 0, *o = O + (r * H + h) * D;
                for (int64_t d = 0; d < D; d++) o[d] = 0;
                for (int64_t j = 0; j <= at; j++) {
                    int64_t from = paged_key(&pages, b, h * HK / H, j);
                    s[j] = 0;
                    for (int64_t d = 0; d < D; d++) s[j] += Q[(r * H + h) * D + d] * K[from + d];
                    s[j] *= problem_scalar_value(p, "scale");
                    if (s[j] > top) top = s[j];
                }
                for (int64_t j = 0; j <= at; j++) sum += s[j] = exp(s[j] - top);
                for (int64_t j = 0; j <= at; j++) {
                    int64_t from = paged_key(&pages, b, h * HK / H, j);
                    for (int64_t d = 0; d < D; d++) o[d] += s[j] / sum * V[from + d];
                }
            }
    free(s);
}

/* Copies rows of heads, [rows, heads, d], to heads of rows, [heads, rows, d], or back. */
static void exchange_heads(const double *from, double *to, int64_t rows, int64_t heads, int64_t d, bool back)
{
    for (int64_t r = 0; r < rows; r++)
        for (int64_t h = 0; h < heads; h++) {
            int64_t by_row = (r * heads + h) * d, by_head = (h * rows + r) * d;
            memcpy(to + (back ? by_row : by_head), from + (back ? by_head : by_row), (size_t)d * sizeof *to);
        }
}

/* The cache with the new rows behind those that it has; the new queries are the last positions. */
void want_attention_append(Problem *p)
{
    IN(Q);
    IN(KNEW);
    IN(VNEW);
    IN(LEN);
    SIZE(B);
    SIZE(M);
    SIZE(N);
    SIZE(H);
    SIZE(HK);
    SIZE(D);
    WANT(O);
    WANT(K);
    WANT(V);
    int64_t row = HK * D;
    double *q = malloc((size_t)(M * H * D) * sizeof *q), *o = malloc((size_t)(M * H * D) * sizeof *o),
           *k = malloc((size_t)(N * row) * sizeof *k), *v = malloc((size_t)(N * row) * sizeof *v);
    memcpy(K, problem_tensor(p, "K")->values, (size_t)(B * N * row) * sizeof *K);
    memcpy(V, problem_tensor(p, "V")->values, (size_t)(B * N * row) * sizeof *V);
    for (int64_t b = 0; b < B; b++) {
        int64_t had = (int64_t)LEN[b];
        RefAttention a = {
            .b = 1, .h = H, .hk = HK, .m = M, .n = had + M, .d = D, .causal = true, .shift = had
        };
        a.scale = problem_scalar_value(p, "scale");
        memcpy(K + (b * N + had) * row, KNEW + b * M * row, (size_t)(M * row) * sizeof *K);
        memcpy(V + (b * N + had) * row, VNEW + b * M * row, (size_t)(M * row) * sizeof *V);
        exchange_heads(Q + b * M * H * D, q, M, H, D, false);
        exchange_heads(K + b * N * row, k, a.n, HK, D, false);
        exchange_heads(V + b * N * row, v, a.n, HK, D, false);
        ref_attention(q, k, v, o, &a);
        exchange_heads(o, O + b * M * H * D, M, H, D, true);
    }
    free(q);
    free(o);
    free(k);
    free(v);
}

/* DELTA comes from O, which each element of DO meets. */
static double *delta_of(const RefAttention *a, const double *o, const double *g)
{
    double *delta = calloc((size_t)(a->b * a->h * a->m), sizeof *delta);
    for (int64_t i = 0; i < a->b * a->h * a->m; i++)
        for (int64_t e = 0; e < a->d; e++) delta[i] += o[i * a->d + e] * g[i * a->d + e];
    return delta;
}

/* One of packed sequences, its heads apart, causal aligned at the end. */
typedef struct Sequence {
    RefAttention a;
    int64_t first, keys; /* its first rows among the queries, and among the keys */
} Sequence;

static Sequence sequence_of(Problem *p, int64_t b)
{
    IN(QSTART);
    IN(KSTART);
    const char *window = problem_const(p, "WINDOW");
    Sequence s = { .first = (int64_t)QSTART[b], .keys = (int64_t)KSTART[b] };
    s.a = (RefAttention){ .b = 1,
        .h = problem_size(p, "H"),
        .hk = problem_size(p, "HK"),
        .m = (int64_t)QSTART[b + 1] - s.first,
        .n = (int64_t)KSTART[b + 1] - s.keys,
        .d = problem_size(p, "D"),
        .scale = problem_scalar_value(p, "scale"),
        .causal = is_causal(p, true),
        .window = window ? atoll(window) : 0 };
    s.a.shift = s.a.n - s.a.m;
    return s;
}

/* The rows of a sequence in a packed tensor of queries, or of keys, each head's behind those of the one
 * before.
 */
static double *rows_of(const Problem *p, const char *name, const Sequence *s, bool keys)
{
    int64_t heads = keys ? s->a.hk : s->a.h, rows = keys ? s->a.n : s->a.m;
    double *to = malloc((size_t)(rows * heads * s->a.d + 1) * sizeof *to);
    const double *from = problem_tensor((Problem *)p, name)->values;
    exchange_heads(from + (keys ? s->keys : s->first) * heads * s->a.d, to, rows, heads, s->a.d, false);
    return to;
}

/* Puts results into their places, and frees them. */
static void put_rows(Problem *p, const char *name, const Sequence *s, bool keys, double *from)
{
    int64_t heads = keys ? s->a.hk : s->a.h;
    double *to = problem_tensor(p, name)->want + (keys ? s->keys : s->first) * heads * s->a.d;
    exchange_heads(from, to, keys ? s->a.n : s->a.m, heads, s->a.d, true);
    free(from);
}

void want_attention_packed(Problem *p)
{
    SIZE(R);
    SIZE(B1);
    for (int64_t b = 0; b + 1 < B1; b++) {
        Sequence s = sequence_of(p, b);
        double *q = rows_of(p, "Q", &s, false), *k = rows_of(p, "K", &s, true),
               *v = rows_of(p, "V", &s, true), *o = rows_of(p, "Q", &s, false),
               *l = calloc((size_t)(s.a.h * s.a.m + 1), sizeof *l);
        s.a.l = l;
        ref_attention(q, k, v, o, &s.a);
        for (int64_t i = 0; has_tensor(p, "L") && i < s.a.h * s.a.m; i++)
            problem_tensor(p, "L")->want[i / s.a.m * R + s.first + i % s.a.m] = l[i];
        put_rows(p, "O", &s, false, o);
        free(q), free(k), free(v), free(l);
    }
}

void want_attention_backward_packed(Problem *p)
{
    IN(L);
    SIZE(R);
    SIZE(B1);
    for (int64_t b = 0; b + 1 < B1; b++) {
        Sequence s = sequence_of(p, b);
        double *q = rows_of(p, "Q", &s, false), *k = rows_of(p, "K", &s, true),
               *v = rows_of(p, "V", &s, true), *g = rows_of(p, "DO", &s, false),
               *o = rows_of(p, "O", &s, false), *l = calloc((size_t)(s.a.h * s.a.m + 1), sizeof *l),
               *delta = delta_of(&s.a, o, g), *dq = rows_of(p, "Q", &s, false),
               *dk = rows_of(p, "K", &s, true), *dv = rows_of(p, "V", &s, true);
        for (int64_t i = 0; i < s.a.h * s.a.m; i++) l[i] = L[i / s.a.m * R + s.first + i % s.a.m];
        ref_attention_backward(q, k, v, g, l, delta, dq, dk, dv, &s.a);
        put_rows(p, "DQ", &s, false, dq);
        put_rows(p, "DK", &s, true, dk);
        put_rows(p, "DV", &s, true, dv);
        free(q), free(k), free(v), free(g), free(o), free(l), free(delta);
    }
}

void want_attention_delta(Problem *p)
{
    IN(O);
    IN(DO);
    WANT(DELTA);
    SIZE(B);
    SIZE(H);
    SIZE(M);
    SIZE(D);
    for (int64_t i = 0; i < B * H * M; i++) {
        DELTA[i] = 0;
        for (int64_t d = 0; d < D; d++) DELTA[i] += O[i * D + d] * DO[i * D + d];
    }
}

void want_attention_backward(Problem *p)
{
    IN(Q);
    IN(K);
    IN(V);
    IN(DO);
    IN(L);
    IN(DELTA);
    SIZE(B);
    SIZE(H);
    SIZE(M);
    SIZE(N);
    SIZE(D);
    RefAttention a = { .b = B,
        .h = H,
        .hk = H,
        .m = M,
        .n = N,
        .d = D,
        .scale = problem_scalar_value(p, "scale"),
        .causal = is_causal(p, true) };
    bool keys = has_tensor(p, "DK");
    ref_attention_backward(Q, K, V, DO, L, DELTA, keys ? NULL : problem_tensor(p, "DQ")->want,
        keys ? problem_tensor(p, "DK")->want : NULL, keys ? problem_tensor(p, "DV")->want : NULL, &a);
}

/* What the problem's consts and tensors say of the gradients. */
static RefAttention gradients_of(Problem *p)
{
    const char *window = problem_const(p, "WINDOW"), *softcap = problem_const(p, "SOFTCAP");
    return (RefAttention){ .b = problem_size(p, "B"),
        .h = problem_size(p, "H"),
        .hk = problem_size(p, "HK"),
        .m = problem_size(p, "M"),
        .n = problem_size(p, "N"),
        .d = problem_size(p, "D"),
        .scale = problem_scalar_value(p, "scale"),
        .window = window ? atoi(window) : 0,
        .cap = softcap && !strcmp(softcap, "true") ? problem_scalar_value(p, "cap") : 0,
        .bias = has_tensor(p, "BIAS") ? problem_tensor(p, "BIAS")->values : NULL,
        .sink = has_tensor(p, "SINK") ? problem_tensor(p, "SINK")->values : NULL,
        .dbias = has_tensor(p, "DBIAS") ? problem_tensor(p, "DBIAS")->want : NULL,
        .causal = is_causal(p, true) };
}

/* O is an arbitrary number here, as L is. */
void want_attention_gradients(Problem *p)
{
    IN(Q);
    IN(K);
    IN(V);
    IN(O);
    IN(DO);
    IN(L);
    WANT(DQ);
    WANT(DK);
    WANT(DV);
    RefAttention a = gradients_of(p);
    double *delta = delta_of(&a, O, DO);
    ref_attention_backward(Q, K, V, DO, L, delta, DQ, DK, DV, &a);
    free(delta);
    for (int64_t i = 0; has_tensor(p, "ORDER") && i < a.b * a.hk * problem_size(p, "P"); i++)
        problem_tensor(p, "ORDER")->want[i] = 0;
}

void want_attention_forward(Problem *p)
{
    IN(Q);
    IN(K);
    IN(V);
    IN(DO);
    IN(SINK);
    WANT(O);
    WANT(L);
    WANT(DQ);
    WANT(DK);
    WANT(DV);
    WANT(DSINK);
    RefAttention a = gradients_of(p);
    a.l = L;
    ref_attention(Q, K, V, O, &a);
    double *delta = delta_of(&a, O, DO);
    ref_attention_backward(Q, K, V, DO, L, delta, DQ, DK, DV, &a);
    /* The errors of DELTA, which come from rounded tiles, do not cancel each other as its values do. */
    for (int64_t i = 0; i < a.b * a.h * a.m; i++) delta[i] = fabs(delta[i]);
    ref_attention_sink_backward(SINK, L, delta, DSINK, &a);
    problem_tensor(p, "DSINK")->terms = ref_rms(DSINK, a.h);
    free(delta);
    delta = delta_of(&a, O, DO);
    ref_attention_sink_backward(SINK, L, delta, DSINK, &a);
    free(delta);
}

void want_attention_gradients_sink(Problem *p)
{
    IN(SINK);
    IN(L);
    IN(DELTA);
    WANT(DSINK);
    SIZE(B);
    SIZE(H);
    SIZE(M);
    ref_attention_sink_backward(SINK, L, DELTA, DSINK, &(RefAttention){ .b = B, .h = H, .m = M });
}

/* Both parts of queries and keys side by side; all heads share one key part. */
void want_attention_mla(Problem *p)
{
    IN(Q);
    IN(QR);
    IN(K);
    IN(KR);
    IN(V);
    WANT(O);
    SIZE(B);
    SIZE(H);
    SIZE(M);
    SIZE(N);
    SIZE(D);
    SIZE(R);
    SIZE(DV);
    RefAttention a = { .b = B,
        .h = H,
        .hk = H,
        .m = M,
        .n = N,
        .d = D + R,
        .dv = DV,
        .scale = problem_scalar_value(p, "scale"),
        .causal = is_causal(p, true) };
    double *q = malloc((size_t)(B * H * M * a.d) * sizeof *q),
           *k = malloc((size_t)(B * H * N * a.d) * sizeof *k);
    for (int64_t i = 0; i < B * H * M; i++)
        for (int64_t d = 0; d < a.d; d++) q[i * a.d + d] = d < D ? Q[i * D + d] : QR[i * R + d - D];
    for (int64_t i = 0; i < B * H * N; i++)
        for (int64_t d = 0; d < a.d; d++)
            k[i * a.d + d] = d < D ? K[i * D + d] : KR[(i / N / H * N + i % N) * R + d - D];
    ref_attention(q, k, V, O, &a);
    free(q);
    free(k);
}

/* Two attentions; Q and K hold both in axis 2. */
void want_attention_differential(Problem *p)
{
    IN(Q);
    IN(K);
    IN(V);
    WANT(O);
    SIZE(B);
    SIZE(H);
    SIZE(M);
    SIZE(N);
    SIZE(D);
    SIZE(DV);
    RefAttention a = { .b = 1,
        .h = 1,
        .hk = 1,
        .m = M,
        .n = N,
        .d = D,
        .dv = DV,
        .scale = problem_scalar_value(p, "scale"),
        .causal = is_causal(p, true) };
    double *second = malloc((size_t)(M * DV) * sizeof *second), lambda = problem_scalar_value(p, "lambda");
    for (int64_t bh = 0; bh < B * H; bh++) {
        ref_attention(Q + bh * 2 * M * D, K + bh * 2 * N * D, V + bh * N * DV, O + bh * M * DV, &a);
        ref_attention(Q + (bh * 2 + 1) * M * D, K + (bh * 2 + 1) * N * D, V + bh * N * DV, second, &a);
        for (int64_t e = 0; e < M * DV; e++) O[bh * M * DV + e] -= lambda * second[e];
    }
    free(second);
}

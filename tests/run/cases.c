/* cases.c: the table of recipes and cases. See cases.h for the notation.
 *
 * Bounds are in units in the last place of the output type. 0.51 means correctly rounded (0.5, and room for a
 * second rounding of an exact f32 sum). Beyond that a recipe says where its error comes from. Sizes 1, 9,
 * 225, 1009, 1023, 4095 are ragged for every tile; small tiles are asked for where the default tile would
 * swallow the whole problem. */
#include "references.h"
#include <string.h>

#define QKV "in Q[B,H,M,D] T; in K[B,HK,N,D] T; in V[B,HK,N,D] T; "
#define BACKWARD \
    "in Q[B,H,M,D] T; in K[B,H,N,D] T; in V[B,H,N,D] T; in DO[B,H,M,D] T; in L[B,H,M] f32 unit; in " \
    "DELTA[B,H,M] f32; "

const Recipe recipes[] = {
    { "vector_add", "vector_add", "in X[N] T; in Y[N] T; out Z[N] T", NULL, "T=f32", { "vector_add X Y Z" },
        want_vector_add, 0.51, 0.51, 0.51 },
    { "copy_first_column", "copy_first_column", "in X[M,N] T; out Y[M] T", NULL, "T=f32",
        { "copy_first_column X Y" }, want_copy_first_column, 0, 0, 0 },
    /* sigmoid in f32: exp (2 ulp), an addition, a division */
    { "silu", "silu", "in X[M,N] T; out Y[M,N] T", NULL, "T=f16", { "silu X Y" }, want_silu, 0.6, 6, 0 },
    { "swiglu", "swiglu", "in X[M,N2] T; out Y[M,N] T", NULL, "T=f16", { "swiglu X Y" }, want_swiglu, 0.6, 8,
        0 },

    /* rows: a sum of n terms in f32, added by halves, loses a few ulp; rsqrt 2 ulp */
    { "rms_norm_vector", "rms_norm_vector", "in X[N] T; in W[N] T; work PART[P] f32; out Y[N] T",
        "f32 eps=1e-5", "T=f32", { "rms_norm_vector_sum X PART", "rms_norm_vector_scale X W PART Y eps" },
        want_rms_norm, 0.6, 8, 0 },
    { "rms_norm_matrix", "rms_norm_matrix", "in X[M,N] T; in W[N] T; out Y[M,N] T", "f32 eps=1e-5", "T=f16",
        { "rms_norm_matrix X W Y eps" }, want_rms_norm, 0.6, 8, 0 },
    { "layer_norm", "layer_norm", "in X[M,N] T; in W[N] T; in B[N] T; out Y[M,N] T", "f32 eps=1e-5", "T=f16",
        { "layer_norm X W B Y eps" }, want_layer_norm, 0.6, 16, 0, FLOOR_RMS },
    { "layer_norm_long", "layer_norm", "in X[M,N] T; in W[N] T; in B[N] T; out Y[M,N] T", "f32 eps=1e-5",
        "T=f16", { "layer_norm_long X W B Y eps" }, want_layer_norm, 0.6, 16, 0, FLOOR_RMS },
    { "group_norm", "group_norm", "in X[N,G,C,S] T; in W[G,C] T; in B[G,C] T; out Y[N,G,C,S] T",
        "f32 eps=1e-5", "T=f16", { "group_norm X W B Y eps" }, want_group_norm, 1, 16, 0, FLOOR_RMS },
    /* exp of a difference rounded at up to 2^3 costs 8 ulp for the smallest results; exp for 16 bits may err
     * by 0.2 ulp of f16 (language.md) */
    { "softmax", "softmax", "in X[M,N] T; out Y[M,N] T", NULL, "T=f16", { "softmax X Y" }, want_softmax, 0.7,
        24, 0 },
    { "softmax_masked", "softmax", "in X[M,N] T masked-start; out Y[M,N] T", NULL, "T=f16", { "softmax X Y" },
        want_softmax, 0.7, 24, 0 },

    { "sum_rows", "reduction", "in X[M,N] T; out Y[M] f32", NULL, "T=f32", { "sum_rows X Y" }, want_sum_rows,
        0, 32, 0, FLOOR_RMS },
    { "sum_columns", "reduction", "in X[M,N] T; out Y[N] f32", NULL, "T=f32", { "sum_columns X Y" },
        want_sum_columns, 0, 32, 0, FLOOR_RMS },
    { "argmax_rows", "reduction", "in X[M,N] T; out Y[M] T; out INDEX[M] i32", NULL, "T=f32",
        { "argmax_rows X Y INDEX" }, want_argmax_rows, 0, 0, 0 },
    { "max_magnitude", "reduction", "in X[M,N] T; out Y[M] T", NULL, "T=f32", { "max_magnitude_rows X Y" },
        want_max_magnitude, 0, 0, 0 },
    /* Terms have either sign, so partial sums, whose roundings count, are some fifty times the result. */
    { "sum_all", "reduction", "in X[N] T; work PART[1,P] f32; out Y[1] f32", NULL, "T=f32",
        { "sum_all X PART[0] / T", "sum_rows PART Y /" }, want_sum_all, 0, 256, 0, FLOOR_RMS },

    { "transpose", "transpose", "in X[M,N] T; out Y[N,M] T", NULL, "T=f32", { "transpose X Y" },
        want_transpose, 0, 0, 0 },
    { "max_pool", "max_pool", "in X[B,C,H,W] T; out Y[B,C,P,Q] T", NULL, "T=f16", { "max_pool X Y" },
        want_max_pool, 0, 0, 0 },
    { "blur", "blur", "in X[H,W] T; out Y[H,W] T", NULL, "T=f32", { "blur X Y" }, want_blur, 0.6, 16, 0,
        FLOOR_RMS },

    /* products: f32 sums of exact products; the bound for f32 grows with sqrt(K), 64 covers K of a thousand
     */
    { "gemm", "gemm", "in A[M,K] T; in B[K,N] T; out C[M,N] TO", NULL, "T=f16 ACC=f32 TO=f16",
        { "gemm A B C" }, want_gemm, 0.75, 64, 64, FLOOR_RMS },
    /* inputs rounded to 10 bits of mantissa: each term is off by up to 2^-10, a sum by about 2^12 ulp of f32,
     * one in thousands by five times that */
    { "gemm_tf32", "gemm", "in A[M,K] T; in B[K,N] T; out C[M,N] TO", NULL, "T=f32 ACC=f32 TO=f32 TF32=true",
        { "gemm A B C" }, want_gemm, 0, 32768, 0, FLOOR_RMS },
    { "gemm_bias_gelu", "gemm_bias_gelu", "in A[M,K] T; in B[K,N] T; in BIAS[N] T; out C[M,N] T", NULL,
        "T=f16", { "gemm_bias_gelu A B BIAS C" }, want_gemm_bias_gelu, 0.75, 64, 0, FLOOR_RMS },
    { "gemm_residual", "gemm_residual", "in A[M,K] T; in B[K,N] T; in S[M] f32; in R[M,N] T; out C[M,N] T",
        NULL, "T=f16", { "gemm_residual A B S R C" }, want_gemm_residual, 0.75, 64, 0, FLOOR_RMS },
    { "gemm_gated", "gemm_gated", "in A[M,K] T; in G[K,N] T; in U[K,N] T; out C[M,N] T", NULL, "T=f16",
        { "gemm_gated A G U C" }, want_gemm_gated, 0.75, 64, 0, FLOOR_RMS },
    { "gemm_grouped", "gemm_grouped",
        "in A[M,K] T; in W[E,K,N] T; in START[E1] i32 offsets:M; work GROUP[TILES] i32; work FIRST[TILES] "
        "i32; work LAST[TILES] i32; out C[M,N] T",
        NULL, "T=f16 TM=128",
        { "gemm_grouped_plan START GROUP FIRST LAST / TM", "gemm_grouped A W GROUP FIRST LAST C" },
        want_gemm_grouped, 0.75, 64, 0, FLOOR_RMS },
    /* H and Y are rounded to T on the way */
    { "moe", "moe",
        "in X[M,K] T; in EXPERT[M,TOP] i32 index:E; in WEIGHT[M,TOP] f32 unit; in WG[E,K,N] T; in WU[E,K,N] "
        "T; in WD[E,N,K] T; work START[E1] i32; work ROW[SLOTS] i32; work PLACE[M,TOP] i32; "
        "work GROUP[TILES] i32; work FIRST[TILES] i32; work LAST[TILES] i32; work H[SLOTS,N] T; work "
        "Y[SLOTS,K] T; out O[M,K] T",
        NULL, "T=f16 TM=128",
        { "moe_route EXPERT START ROW PLACE / TT", "moe_plan START GROUP FIRST LAST / TM",
            "moe_gate X ROW WG WU GROUP FIRST LAST H / T TM TN TK",
            "moe_down H WD GROUP FIRST LAST Y / T TM TN TK", "moe_combine Y PLACE WEIGHT O / T" },
        want_moe, 16, 64, 0, FLOOR_RMS, 3 },
    /* weights are rounded to T after each of two operations */
    { "gemm_int4", "gemm_int4",
        "in A[M,K] T; in W[N,KHALF] u8 index:BYTE; in SCALE[N,GROUPS] T unit; in ZERO[N,GROUPS] T int:SEVEN; "
        "out C[M,N] T",
        NULL, "T=f16 TK=128", { "gemm_int4 A W SCALE ZERO C" }, want_gemm_int4, 8, 64, 0, FLOOR_RMS, 2 },
    { "gemm_w4a8", "gemm_w4a8",
        "in A[M,K] i8; in SA[M,GROUPS] f32 unit; in SUM[M,GROUPS] f32; in W[N,KHALF] u8 index:BYTE; "
        "in SW[GROUPS,N] T unit; in ZERO[GROUPS,N] T int:SEVEN; out C[M,N] T",
        NULL, "T=f16 TK=128", { "gemm_w4a8 A SA SUM W SW ZERO C" }, want_gemm_w4a8, 8, 64, 0, FLOOR_RMS },
    { "quantize_groups", "gemm_w4a8",
        "in X[M,K] T; out A[M,K] i8; out SA[M,GROUPS] f32; out SUM[M,GROUPS] f32", NULL, "T=f16 TK=128",
        { "quantize_groups X A SA SUM / T TK" }, want_quantize_groups, 4, 4, 0 },
    { "gemm_w8", "gemm_int4", "in A[M,K] T; in W[N,K] Q; in SCALE[N] f32; out C[M,N] T", NULL, "T=f16 Q=i8",
        { "gemm_w8 A W SCALE C" }, want_gemm_w8, 0.75, 64, 0, FLOOR_RMS },
    { "conv2d_nchw", "conv2d", "in X[B,C,H,W] T; in WT[F,C,R,S] T; out Y[B,F,P,Q] T", NULL, "T=f16",
        { "conv2d_nchw X WT Y" }, want_conv2d_nchw, 0.75, 64, 0, FLOOR_RMS },
    { "conv2d_nhwc", "conv2d", "in X[B,H,W,C] T; in WT[F,R,S,C] T; out Y[B,P,Q,F] T", NULL, "T=f16",
        { "conv2d_nhwc X WT Y" }, want_conv2d_nhwc, 0.75, 64, 0, FLOOR_RMS },
    { "conv2d_rows", "conv2d", "in X[B,H,W,C] T; in WT[F,R,S,C] T; out Y[B,F,N] T", NULL, "T=f16",
        { "conv2d_rows X WT Y" }, want_conv2d_rows, 0.75, 64, 0, FLOOR_RMS },
    { "conv2d_planes", "conv2d", "in X[B,C,H,W] T; in WT[F,R,S,C] T; out Y[B,F,N] T", NULL, "T=f16",
        { "conv2d_planes X WT Y" }, want_conv2d_planes, 0.75, 64, 0, FLOOR_RMS },
    { "channels_last", "conv2d", "in X[B,C,N] T; out Y[B,N,C] T", NULL, "T=f16", { "channels_last X Y" },
        want_channels_last, 0, 0, 0 },

    /* attention rounds its probabilities to T before the second product: half an ulp of a value of V, which
     * is as large as 4 where the typical output is 0.2; over all elements it averages out */
    { "attention", "attention", QKV "out O[B,H,M,D] T", "f32 scale=0.125", "T=f16 CAUSAL=true",
        { "attention Q K V O scale" }, want_attention, 8, 64, 0, FLOOR_RMS, 1 },
    { "attention_window", "attention_window", QKV "out O[B,H,M,D] T", "f32 scale=0.125", "T=f16 WINDOW=50",
        { "attention_window Q K V O scale" }, want_attention, 8, 64, 0, FLOOR_RMS, 1 },
    { "attention_softcap", "attention_softcap", QKV "out O[B,H,M,D] T", "f32 scale=0.5; f32 cap=5",
        "T=f16 CAUSAL=true", { "attention_softcap Q K V O scale cap" }, want_attention, 8, 64, 0, FLOOR_RMS,
        1 },
    { "attention_alibi", "attention_alibi", QKV "in SLOPE[H] f32 unit; out O[B,H,M,D] T", "f32 scale=0.125",
        "T=f16 CAUSAL=true", { "attention_alibi Q K V SLOPE O scale" }, want_attention, 8, 64, 0, FLOOR_RMS,
        1 },
    { "attention_bias", "attention_bias", QKV "in BIAS[B,H,M,N] T mask; out O[B,H,M,D] T", "f32 scale=0.125",
        "T=f16 CAUSAL=false", { "attention_bias Q K V BIAS O scale" }, want_attention, 8, 64, 0, FLOOR_RMS,
        1 },
    { "attention_sink", "attention_sink", QKV "in SINK[H] f32; out O[B,H,M,D] T", "f32 scale=0.125",
        "T=f16 CAUSAL=true", { "attention_sink Q K V SINK O scale" }, want_attention, 8, 64, 0, FLOOR_RMS,
        1 },
    { "attention_cross", "attention_cross", QKV "out O[B,H,M,D] T", "f32 scale=0.125", "T=f16",
        { "attention_cross Q K V O scale" }, want_attention_cross, 8, 64, 0, FLOOR_RMS, 1 },
    { "attention_decode", "attention_decode",
        "in Q[B,H,D] T; in K[B,HK,N,D] T; in V[B,HK,N,D] T; work PM[B,H,S] f32; work PL[B,H,S] f32; work "
        "PO[B,H,S,D] f32; out O[B,H,D] T",
        "f32 scale=0.125", "T=f16 G=4 TN=32",
        { "attention_decode_split Q K V PM PL PO scale / T G TN", "attention_decode_join PM PL PO O / T" },
        want_attention_decode, 8, 64, 0, FLOOR_RMS, 1 },
    /* P and dS are rounded to T before their products. L and DELTA are arbitrary numbers on which the
       gradients depend. */
    { "attention_delta", "attention_backward", "in O[B,H,M,D] T; in DO[B,H,M,D] T; out DELTA[B,H,M] f32",
        NULL, "T=f16", { "attention_delta O DO DELTA" }, want_attention_delta, 0, 32, 0, FLOOR_RMS },
    { "attention_dkdv", "attention_backward", BACKWARD "out DK[B,H,N,D] T; out DV[B,H,N,D] T",
        "f32 scale=0.05", "T=f16 CAUSAL=true", { "attention_dkdv Q K V DO L DELTA DK DV scale" },
        want_attention_backward, 16, 64, 0, FLOOR_RMS, 2 },
    { "attention_dq", "attention_backward", BACKWARD "out DQ[B,H,M,D] T", "f32 scale=0.05",
        "T=f16 CAUSAL=true", { "attention_dq Q K V DO L DELTA DQ scale" }, want_attention_backward, 16, 64, 0,
        FLOOR_RMS, 2 },
#include "gradients_recipes.def"
    { "attention_mla", "attention_mla",
        "in Q[B,H,M,D] T; in QR[B,H,M,R] T; in K[B,H,N,D] T; in KR[B,N,R] T; in V[B,H,N,DV] T; out "
        "O[B,H,M,DV] T",
        "f32 scale=0.1", "T=f16 CAUSAL=true", { "attention_mla Q QR K KR V O scale" }, want_attention_mla, 8,
        64, 0, FLOOR_RMS, 1 },
    { "attention_differential", "attention_differential",
        "in Q[B,H,TWO,M,D] T; in K[B,H,TWO,N,D] T; in V[B,H,N,DV] T; out O[B,H,M,DV] T",
        "f32 scale=0.125; f32 lambda=0.5", "T=f16 CAUSAL=true",
        { "attention_differential Q K V O scale lambda" }, want_attention_differential, 8, 64, 0, FLOOR_RMS,
        1.5 },
    { "attention_paged", "attention_paged",
        "in Q[B,H,D] T; in K[P,PAGE,HK,D] T; in V[P,PAGE,HK,D] T; in PAGES_OF[B,MOST] i32 index:P; in LEN[B] "
        "i32 index:KEYS; work PM[B,H,S] f32; work PL[B,H,S] f32; work PO[B,H,S,D] f32; out O[B,H,D] T",
        "f32 scale=0.125", "T=f16 G=4 TN=64",
        { "attention_paged_split Q K V PAGES_OF LEN PM PL PO scale / T G TN",
            "attention_paged_join PM PL PO O / T" },
        want_attention_paged, 8, 64, 0, FLOOR_RMS, 1 },
    { "attention_paged_prefill", "attention_paged",
        "in Q[R,H,D] T; in K[P,PAGE,HK,D] T; in V[P,PAGE,HK,D] T; in PAGES_OF[B,MOST] i32 index:P; in LEN[B] "
        "i32 index:KEYS; in START[B1] i32 offsets:R; out O[R,H,D] T",
        "f32 scale=0.125; i32 most=150", "T=f16",
        { "attention_paged_prefill Q K V PAGES_OF LEN START O scale most" }, want_attention_paged_prefill, 8,
        64, 0, FLOOR_RMS, 1 },
#include "packed_recipes.def"
    /* The state is rounded to T once for each chunk, and so are its inputs. */
    { "chunk_scan", "chunk_scan",
        "in X[BATCH,L,H,P] T; in A[BATCH,L,H] f32 unit; in B[BATCH,L,N] T; in C[BATCH,L,N] T; out "
        "Y[BATCH,L,H,P] T",
        NULL, "T=f16 TC=64", { "chunk_scan X A B C Y" }, want_chunk_scan, 16, 64, 0, FLOOR_RMS, 2 },

    /* the angle of position s carries s times the error of exp2, for which the language promises 2 ulp: 1023
     * * 2 (778 seen on an H100, below 512 on a CPU) */
    { "rope_table", "rope", "out COS[S,D2] f32; out SIN[S,D2] f32", "f32 base=10000", "",
        { "rope_table COS SIN base" }, want_rope_table, 0, 2048, 0, FLOOR_ONE },
    { "rope", "rope", "in X[B,H,S,D] T; in COS[S,D2] f32 unit; in SIN[S,D2] f32 unit; out Y[B,H,S,D] T", NULL,
        "T=f16", { "rope X COS SIN Y" }, want_rope, 0.6, 4, 0, FLOOR_RMS },
    { "embedding", "embedding", "in ID[N] i32 index:V; in TABLE[V,D] T; out Y[N,D] T", NULL, "T=f16",
        { "embedding ID TABLE Y" }, want_embedding, 0, 0, 0 },
    /* Row numbers out of range, on both sides, give zeros. */
    { "embedding_range", "embedding", "in ID[N] i32 int:V; in TABLE[V,D] T; out Y[N,D] T", NULL, "T=f16",
        { "embedding ID TABLE Y" }, want_embedding, 0, 0, 0 },
    /* the f64 reference rounds as often as the kernel does: 4095 additions each, in other orders (67 ulp
     * seen) */
    { "cumsum", "cumsum", "in X[M,N] T; out Y[M,N] T", NULL, "T=f32 ACC=f32", { "cumsum_rows X Y" },
        want_cumsum, 0.75, 64, 256, FLOOR_RMS },
    { "topk", "topk", "in X[M,N] T; out VALUE[M,K] T; out INDEX[M,K] i32", NULL, "T=f32",
        { "topk_rows X VALUE INDEX" }, want_topk, 0, 0, 0 },
    { "topk_ties", "topk", "in X[M,N] T int:3; out VALUE[M,K] T; out INDEX[M,K] i32", NULL, "T=f32",
        { "topk_rows X VALUE INDEX" }, want_topk, 0, 0, 0 },
    { "dropout", "dropout", "in X[N] T; out Y[N] T", "f32 p=0.3; u64 seed=1234567890123", "T=f16",
        { "dropout X Y p seed" }, want_dropout, 0.6, 2, 0 },
    { "spmv_ell", "spmv", "in VALUE[M,W] f32; in COLUMN[M,W] i32 int:N; in X[N] f32; out Y[M] f32", NULL, "",
        { "spmv_ell VALUE COLUMN X Y" }, want_spmv_ell, 0, 64, 0, FLOOR_RMS },
    { "spmv_csr", "spmv",
        "in VALUE[NNZ] f32; in COLUMN[NNZ] i32 index:N; in START[M1] i32 offsets:NNZ; in X[N] f32; out Y[M] "
        "f32",
        NULL, "", { "spmv_csr VALUE COLUMN START X Y" }, want_spmv_csr, 0, 64, 0, FLOOR_RMS },
    { "histogram", "histogram", "in X[N] T index:256; inout COUNT[BINS] i32", NULL, "T=u8",
        { "histogram X COUNT" }, want_histogram, 0, 0, 0 },
};

#define VECTOR "N=1 | N=9 | N=225 | N=1009 | N=1023 | N=4095"
#define MATRIX "M=1 N=1 | M=9 N=225 | M=3 N=1009 | M=5 N=1023 | M=2 N=4095"
#define FLOATS "T=f16 | T=bf16 | T=f32"
#define SMALL_TILES "TM=32 TN=32 TK=16"

const Case cases[] = {
    { "vector_add", "N=0 | " VECTOR, "T=f32 | T=f16" },
    { "vector_add", "N=1009",
        "T=bf16 | T=f64 | T=i8 | T=i16 | T=i32 | T=i64 | T=u8 | T=u16 | T=u32 | T=u64" },
    { "vector_add", "N=1009", "T=f32 | T=f16", "X:x Y:s Z:s" },
    { "vector_add", "N=1009", "T=f32 | T=f16", "X:r Y:r" },
    { "vector_add", "N=225", "T=f32 | T=f16 | T=bf16", "Z:x", "X" },
    { "copy_first_column", "M=0 N=3 | M=1 N=1 | M=9 N=1 | M=225 N=7 | M=1009 N=3", FLOATS " | T=i64" },
    { "copy_first_column", "M=225 N=7", NULL, "X:t" },
    { "copy_first_column", "M=225 N=7", "T=f16", "X:s Y:x", "X" },
    { "silu", MATRIX, FLOATS },
    { "silu", "M=9 N=225", "T=f16 | T=f32", "X:t Y:s" },
    { "silu", "M=9 N=225", "T=f16", "X:x Y:t" },
    { "silu", "M=9 N=225", FLOATS, NULL, "X" },
    { "swiglu", "M=1 N=1 N2=2 | M=9 N=225 N2=450 | M=3 N=1009 N2=2018", FLOATS },
    { "swiglu", "M=9 N=225 N2=450", NULL, "X:t Y:t" },

    { "rms_norm_vector", "M=1 N=1 P=1 | M=1 N=9 P=4 | M=1 N=4095 P=4 | M=1 N=20000 P=3", "T=f32 | T=f16" },
    { "rms_norm_vector", "M=1 N=1009 P=4", "T=f32 BLOCK=128", "X:x W:s Y:s" },
    { "rms_norm_matrix", MATRIX, FLOATS },
    { "rms_norm_matrix", "M=9 N=225", NULL, "X:t W:x Y:s", "X" },
    { "rms_norm_matrix", "M=3 N=1009", "T=f16 | T=bf16", "X:s Y:t" },
    { "layer_norm", MATRIX, FLOATS },
    { "layer_norm", "M=9 N=225", NULL, "X:t W:x B:s Y:s", "X" },
    { "layer_norm", "M=3 N=1023", "T=bf16", "X:b W:s B:s Y:b" },
    { "layer_norm", "M=5 N=20000", "T=f16" }, /* a cluster */
    { "layer_norm", "M=4 N=17001", "T=f16 | T=f32", "X:s Y:s", "X" },
    { "layer_norm_long", MATRIX, "T=f16 TN=512 | T=f32 TN=512" },
    { "layer_norm_long", "M=3 N=1009", "T=bf16 TN=256", "X:s Y:t", "X" },
    { "group_norm", "N=2 G=3 C=1 S=1 | N=2 G=3 C=5 S=77 | N=1 G=2 C=8 S=256 | N=1 G=1 C=3 S=1009", FLOATS },
    { "group_norm", "N=2 G=2 C=8 S=49", NULL, "X:p Y:s", "X" },
    { "softmax", MATRIX, FLOATS },
    { "softmax", "M=9 N=225", "T=f16 | T=f32", "X:t Y:s" },
    { "softmax", "M=9 N=225", FLOATS, NULL, "X" },
    { "softmax", "M=3 N=1009", "T=f16", "X:s Y:s" },
    { "softmax", "M=9 N=225", "T=bf16", "X:s Y:t", "X" },
    { "softmax_masked", "M=3 N=1009", "T=f16 | T=f32" },

    { "sum_rows", "M=1 N=1 | M=9 N=225 | M=5 N=1023 | M=2 N=4095", "T=f32 | T=f16" },
    { "sum_rows", "M=9 N=225", "T=f32 TM=4 TN=64", "X:t Y:x", "X" },
    { "sum_columns", "M=1 N=1 | M=225 N=9 | M=1023 N=5 | M=9 N=1009", "T=f32 | T=bf16" },
    { "sum_columns", "M=225 N=9", "T=f32 TM=8 TN=4", "X:t Y:x", "X" },
    { "argmax_rows", MATRIX, "T=f32 | T=f16 | T=i32" },
    { "argmax_rows", "M=9 N=225", "T=f32 | T=bf16", "X:s", "X" },
    { "max_magnitude", MATRIX, "T=f32 | T=f16 | T=i32" },
    { "max_magnitude", "M=9 N=225", "T=f32 | T=bf16", "X:t" },
    { "sum_all", "N=1 P=1 | N=4095 P=3 | N=20000 P=5", "T=f32 | T=f16" },

    { "transpose", "M=1 N=1 | M=9 N=225 | M=65 N=1009 | M=225 N=129", "T=f32 | T=f16 | T=i8 | T=f64" },
    { "transpose", "M=9 N=225", "TM=1 TN=1024 | TM=1024 TN=1 | TM=32 TN=32 | TM=48 TN=96" },
    { "transpose", "M=65 N=33", "T=f16 | T=f32", "X:s Y:x" },
    { "transpose", "M=65 N=33", NULL, "X:t Y:t", "X" },
    { "transpose", "M=65 N=33", NULL, "X:r Y:r" },

    { "max_pool", "B=1 C=1 H=1 W=1 P=1 Q=1 | B=2 C=3 H=9 W=15 P=5 Q=8 | B=1 C=2 H=14 W=225 P=7 Q=113",
        FLOATS },
    { "max_pool", "B=2 C=3 H=9 W=15 P=5 Q=8", "T=f16 | T=f32", "X:p Y:s", "X" },
    { "blur", "H=1 W=1 | H=9 W=225 | H=33 W=65", "T=f32 | T=f16" },
    { "blur", "H=9 W=225", "T=f32 R=1 | T=f32 R=3 TY=5 TX=48", "X:t Y:s" },

    /* every type, over edges in all three directions; then the textbook variants; then views */
    { "gemm", "M=1 N=1 K=1 | M=33 N=65 K=17 | M=9 N=129 K=225",
        "T=f16 TO=f16 " SMALL_TILES " | T=f32 TO=f32 " SMALL_TILES },
    { "gemm", "M=33 N=65 K=49",
        "T=bf16 TO=bf16 " SMALL_TILES " | T=f16 TO=f32 " SMALL_TILES " | T=f64 ACC=f64 TO=f64 " SMALL_TILES
        " | T=i8 ACC=i32 TO=i32 " SMALL_TILES " | T=u8 ACC=i32 TO=i32 " SMALL_TILES
        " | T=f8e4m3 TO=f16 TM=32 TN=32 TK=32 | T=f8e5m2 TO=f32 TM=32 TN=32 TK=32" },
    { "gemm", "M=70 N=40 K=200",
        "T=i8 ACC=i32 TO=i32 TM=32 TN=32 TK=64 STAGES=3 | T=f16 TM=32 TN=32 TK=64 STAGES=3",
        "A:t" }, /* fragments a step ahead */
    { "gemm", "M=130 N=70 K=100",
        "TM=16 TN=16 TK=16 STAGES=1 GROUP=1 | TM=64 TN=64 TK=32 STAGES=1 GROUP=1 | TM=128 TN=128 TK=32 "
        "STAGES=3 GROUP=1"
        " | TM=96 TN=80 TK=48 STAGES=2 GROUP=2" },
    { "gemm", "M=170 N=136 K=104",
        "TM=96 TN=64 TK=64 STAGES=3 GROUP=1 TURN=true | TM=16 TN=128 TK=64 STAGES=2 GROUP=1 TURN=true | "
        "T=bf16 TO=bf16 TM=160 TN=64 TK=32 STAGES=2 GROUP=1 TURN=true | T=bf16 TO=f32 TM=40 TN=64 TK=64 "
        "STAGES=2 TURN=true" }, /* transposed */
    { "gemm", "M=35 N=70 K=50",
        "TM=32 TN=32 TK=32 STAGES=2 TURN=true | T=f32 TO=f32 TM=32 TN=32 TK=32 TURN=true", "A:t" },
    { "gemm", "M=96 N=96 K=80", "T=f32 TO=f32 TM=64 TN=64 TK=16 | T=f64 ACC=f64 TO=f64 TM=32 TN=64 TK=16",
        "A:t B:t" }, /* without a matrix unit, operands along their own axes and along K */
    { "gemm", "M=96 N=96 K=80", "T=f32 TO=f32 TM=64 TN=64 TK=32", "B:t" },
    { "gemm", "M=225 N=225 K=225", "T=f16 | T=f32 TO=f32", .heavy = true },
    { "gemm", "M=1 N=1023 K=1009", "T=f16 TM=16 TN=64", .heavy = true },
    { "gemm", "M=33 N=65 K=49",
        "T=f16 " SMALL_TILES " | T=f32 TO=f32 " SMALL_TILES " | T=i8 ACC=i32 TO=i32 " SMALL_TILES, "A:t" },
    { "gemm", "M=33 N=65 K=49",
        "T=f16 " SMALL_TILES " | T=bf16 TO=bf16 " SMALL_TILES " | T=f8e4m3 TO=f16 TM=32 TN=32 TK=32", "B:t" },
    { "gemm", "M=64 N=64 K=64", "T=f16 " SMALL_TILES, "A:t B:t" },
    { "gemm", "M=33 N=64 K=72", "T=f16 " SMALL_TILES, "A:b B:b" },
    { "gemm", "M=33 N=65 K=49", "T=f16 " SMALL_TILES, "A:s B:x C:t" },
    { "gemm", "M=33 N=65 K=49", "T=f16 " SMALL_TILES " | T=f32 TO=f32 " SMALL_TILES, NULL, "A" },
    { "gemm_tf32", "M=33 N=65 K=49", SMALL_TILES },
    { "gemm_bias_gelu", "M=33 N=65 K=49 | M=9 N=129 K=225",
        "T=f16 " SMALL_TILES " | T=bf16 " SMALL_TILES " | T=f32 " SMALL_TILES },
    { "gemm_bias_gelu", "M=33 N=65 K=49", NULL, "B:t BIAS:x" },
    { "gemm_residual", "M=33 N=65 K=49 | M=9 N=129 K=225", "T=f16 " SMALL_TILES " | T=bf16 " SMALL_TILES },
    { "gemm_residual", "M=33 N=65 K=49", NULL, "R:t S:x C:s" },
    { "gemm_gated", "M=33 N=65 K=49 | M=9 N=129 K=225", "T=f16 " SMALL_TILES " | T=bf16 " SMALL_TILES },
    { "gemm_gated", "M=33 N=65 K=49", NULL, "A:t U:t" },
    { "moe",
        "M=65 TOP=2 SLOTS=130 E=3 E1=4 TILES=6 K=64 N=72 | M=33 TOP=3 SLOTS=99 E=8 E1=9 TILES=16 K=96 N=40",
        "TM=64 TN=64 TK=32 TT=64 | TM=64 TN=32 TK=32 TT=16 T=bf16" },
    { "gemm_grouped", "M=130 N=65 K=49 E=4 E1=5 TILES=9 | M=225 N=33 K=64 E=7 E1=8 TILES=15",
        "TM=32 TN=32 TK=32 | TM=64 TN=64 TK=32 T=bf16" },
    { "gemm_int4",
        "M=33 N=65 K=256 KHALF=128 GROUPS=2 BYTE=256 SEVEN=7 | M=1 N=129 K=384 KHALF=192 GROUPS=3 BYTE=256 "
        "SEVEN=7",
        "TM=16 TN=64 | T=bf16 TM=32 TN=32" },
    { "gemm_w4a8",
        "M=33 N=65 K=256 KHALF=128 GROUPS=2 BYTE=256 SEVEN=7 | M=1 N=129 K=384 KHALF=192 GROUPS=3 BYTE=256 "
        "SEVEN=7 | M=4 N=72 K=1152 KHALF=576 GROUPS=9 BYTE=256 SEVEN=7",
        "TM=16 TN=64 | T=f32 TM=32 TN=32" },
    { "quantize_groups", "M=33 K=256 GROUPS=2 | M=1 K=1152 GROUPS=9", "T=f16 | T=bf16 | T=f32" },
    { "gemm_w8", "M=33 N=65 K=49 | M=40 N=72 K=256",
        "TM=16 TN=64 TK=128 | T=bf16 TM=32 TN=32 TK=64 | Q=f8e4m3 TM=16 TN=64 TK=64" },
    { "gemm_w8", "M=24 N=200 K=320",
        "Q=f8e5m2 TM=16 TN=128 TK=128 | T=bf16 Q=f8e4m3 TM=16 TN=64 TK=128 | T=bf16 Q=u8 TM=24 TN=64 TK=64 "
        "split_k=2",
        NULL },

    { "conv2d_nchw", "B=1 C=1 H=1 W=1 F=1 R=3 S=3 P=1 Q=1 | B=2 C=5 H=9 W=15 F=9 R=3 S=3 P=9 Q=15",
        "T=f16 TF=16 TP=2 TQ=8 TC=16 | T=f32 TF=16 TP=2 TQ=8 TC=16" },
    { "conv2d_nchw", "B=1 C=20 H=15 W=9 F=17 R=3 S=3 P=8 Q=5", "T=f16 STRIDE=2 TF=16 TP=4 TQ=8 TC=16" },
    { "conv2d_nchw", "B=1 C=4 H=9 W=9 F=8 R=5 S=1 P=5 Q=9", "T=f32 PAD=0 TF=16 TP=4 TQ=8 TC=16" },
    { "conv2d_nchw", "B=2 C=32 H=32 W=32 F=64 R=3 S=3 P=32 Q=32", "T=f16", .heavy = true },
    { "conv2d_nchw", "B=2 C=5 H=9 W=15 F=9 R=3 S=3 P=9 Q=15", "T=f16 TF=16 TP=2 TQ=8 TC=16", "X:p WT:p Y:p" },
    { "conv2d_nhwc", "B=1 C=1 H=1 W=1 F=1 R=3 S=3 P=1 Q=1 | B=2 C=5 H=9 W=15 F=9 R=3 S=3 P=9 Q=15",
        "T=f16 TF=16 TP=2 TQ=8 TC=16 | T=f32 TF=16 TP=2 TQ=8 TC=16" },
    { "conv2d_nhwc", "B=1 C=20 H=15 W=9 F=17 R=3 S=3 P=8 Q=5", "T=f16 STRIDE=2 TF=16 TP=4 TQ=8 TC=16" },
    { "conv2d_nhwc", "B=2 C=32 H=32 W=32 F=64 R=3 S=3 P=32 Q=32", "T=f16", .heavy = true },
    { "conv2d_nhwc", "B=1 C=1 H=1 W=1 F=1 R=3 S=3 P=1 Q=1 | B=2 C=5 H=9 W=15 F=9 R=3 S=3 P=9 Q=15",
        "FLAT=true T=f16 TF=16 TP=4 TQ=8 TC=16" },
    { "conv2d_nhwc", "B=3 C=20 H=15 W=9 F=17 R=3 S=3 P=8 Q=5",
        "FLAT=true T=f16 STRIDE=2 TF=16 TP=4 TQ=8 TC=16", "X:p WT:p Y:p" },
    { "conv2d_rows", "B=1 C=1 H=1 W=1 F=1 R=3 S=3 N=1 | B=2 C=5 H=9 W=15 F=9 R=3 S=3 N=135",
        "T=f16 TF=16 TP=2 TC=16 | T=f32 TF=16 TP=2 TC=16" },
    { "conv2d_rows", "B=1 C=20 H=15 W=9 F=17 R=5 S=3 N=77", "T=bf16 PAD=0 TF=16 TP=4 TC=16" },
    { "conv2d_rows", "B=2 C=1 H=1 W=1 F=1 R=3 S=3 N=1 | B=2 C=5 H=9 W=15 F=9 R=3 S=3 N=135",
        "T=f16 TF=16 TP=4 TC=16 HALVES=true | T=f32 TF=16 TP=3 TC=16 HALVES=true" },
    { "conv2d_planes", "B=1 C=1 H=1 W=1 F=1 R=3 S=3 N=1 | B=2 C=5 H=9 W=15 F=9 R=3 S=3 N=135",
        "T=f16 TF=16 TP=2 TC=16 | T=f32 TF=16 TP=2 TC=16" },
    { "channels_last", "B=2 C=5 N=135 | B=1 C=72 N=200", "T=f16 | T=f32 TC=64 TN=64" },

    { "attention", "B=1 H=1 HK=1 M=1 N=1 D=64 | B=2 H=4 HK=2 M=33 N=33 D=64 | B=1 H=2 HK=1 M=65 N=65 D=128",
        "T=f16 CAUSAL=true TM=32 TN=32 | T=f16 CAUSAL=false TM=32 TN=32" },
    { "attention", "B=1 H=2 HK=2 M=225 N=225 D=64",
        "T=f16 CAUSAL=true | T=f16 CAUSAL=false | T=bf16 CAUSAL=true | T=f32 CAUSAL=true" },
    { "attention", "B=1 H=1 HK=1 M=65 N=65 D=96 | B=1 H=1 HK=1 M=65 N=65 D=256",
        "CAUSAL=true TM=64 TN=48 | CAUSAL=false TM=48 TN=80" },
    { "attention", "B=1 H=2 HK=1 M=65 N=65 D=72 | B=1 H=1 HK=1 M=129 N=65 D=80",
        "CAUSAL=true TM=64 TN=64 | CAUSAL=false TM=64 TN=48" },
    { "attention", "B=2 H=1 HK=1 M=65 N=129 D=40 | B=1 H=1 HK=1 M=65 N=65 D=112",
        "CAUSAL=false TM=64 TN=64" },
    { "attention", "B=1 H=3 HK=1 M=9 N=129 D=64 | B=1 H=1 HK=1 M=129 N=9 D=64",
        "CAUSAL=false TM=32 TN=64 | CAUSAL=true TM=32 TN=64" },
    { "attention", "B=1 H=1 HK=1 M=1009 N=1009 D=64", "CAUSAL=true", .heavy = true },
    { "attention", "B=2 H=2 HK=2 M=33 N=33 D=64", "TM=32 TN=32", "Q:t K:t V:t O:t" },
    { "attention", "B=2 H=3 HK=3 M=33 N=33 D=64", "TM=32 TN=32", "Q:s K:s V:s O:s" },
    { "attention", "B=1 H=1 HK=1 M=33 N=33 D=64", "TM=32 TN=32", NULL, "Q" },
    { "attention_window", "B=1 H=2 HK=1 M=225 N=225 D=64", "TM=32 TN=32 | T=bf16 TM=64 TN=48" },
    { "attention_window", "B=1 H=1 HK=1 M=129 N=129 D=128", "WINDOW=1 TM=32 TN=32 | WINDOW=500 TM=32 TN=32" },
    { "attention_softcap", "B=1 H=2 HK=1 M=129 N=129 D=64",
        "TM=32 TN=32 | CAUSAL=false TM=64 TN=48 | T=bf16 TM=32 TN=32" },
    { "attention_alibi", "B=1 H=4 HK=2 M=129 N=129 D=64", "TM=32 TN=32 | CAUSAL=false TM=64 TN=48" },
    { "attention_bias", "B=1 H=2 HK=1 M=65 N=129 D=64 | B=2 H=2 HK=2 M=33 N=1 D=64",
        "TM=32 TN=32 | CAUSAL=true TM=32 TN=48" },
    { "attention_bias", "B=2 H=2 HK=2 M=33 N=65 D=64", "TM=32 TN=32", "BIAS:z" },
    { "attention_sink", "B=1 H=2 HK=1 M=129 N=129 D=64",
        "TM=32 TN=32 | CAUSAL=false TM=64 TN=48 | WINDOW=50 TM=32 TN=32" },
    { "attention_cross",
        "B=1 H=2 HK=1 M=33 N=129 D=64 | B=1 H=2 HK=2 M=65 N=33 D=64 | B=1 H=1 HK=1 M=1 N=225 D=64",
        "TM=32 TN=32 | T=bf16 TM=16 TN=48" },
    { "attention_decode",
        "B=2 H=8 HK=2 N=225 S=4 D=64 | B=1 H=4 HK=1 N=1 S=3 D=64 | B=1 H=8 HK=2 N=1009 S=5 D=128",
        "T=f16 | T=bf16" },
    { "attention_decode", "B=1 H=3 HK=3 N=225 S=2 D=64", "G=1" },
    { "attention_delta", "B=2 H=2 M=97 D=64", "T=f16 | T=bf16" },
    { "attention_dkdv", "B=1 H=2 M=97 N=97 D=64 | B=1 H=1 M=130 N=70 D=32",
        "TM=64 TN=64 | CAUSAL=false TM=32 TN=32 T=bf16" },
    { "attention_dkdv", "B=1 H=1 M=33 N=33 D=64", NULL, "Q:s K:s DK:s" },
    { "attention_dq", "B=1 H=2 M=97 N=97 D=64 | B=1 H=1 M=70 N=130 D=32",
        "TM=64 TN=64 | CAUSAL=false TM=32 TN=32 T=bf16" },
#include "gradients_cases.def"
    { "attention_mla", "B=2 H=2 M=97 N=97 D=64 R=32 DV=64 | B=1 H=1 M=33 N=129 D=32 R=64 DV=48",
        "TM=64 TN=32 | CAUSAL=false TM=32 TN=32 T=bf16" },
    { "attention_differential", "B=2 H=1 TWO=2 M=97 N=97 D=32 DV=64 | B=1 H=1 TWO=2 M=33 N=129 D=64 DV=48",
        "TM=64 TN=32 | CAUSAL=false TM=32 TN=32 T=bf16" },
    { "attention_paged",
        "B=3 H=8 HK=2 D=64 P=7 PAGE=32 MOST=5 KEYS=161 S=2 | B=2 H=4 HK=1 D=128 P=13 PAGE=16 MOST=9 KEYS=145 "
        "S=3",
        "T=f16 | T=bf16" },
    { "attention_paged_prefill", "B=3 B1=4 R=150 H=4 HK=2 D=64 P=9 PAGE=16 MOST=8 KEYS=129",
        "TM=64 TN=64 | TM=64 TN=32 T=bf16" },
    { "attention_paged_prefill", "B=2 B1=3 R=97 H=2 HK=1 D=64 P=5 PAGE=64 MOST=2 KEYS=129", "TM=64 TN=64" },
    { "attention_paged", "B=2 H=4 HK=1 D=64 P=5 PAGE=48 MOST=3 KEYS=145 S=1", "T=f16 TN=96" },
    { "attention_paged", "B=2 H=4 HK=1 D=64 P=3 PAGE=128 MOST=2 KEYS=257 S=1", "T=f16" },
#include "packed_cases.def"
    { "chunk_scan", "BATCH=1 L=97 H=2 P=64 N=32 | BATCH=2 L=33 H=2 P=32 N=48", "TC=32 | TC=64 T=bf16" },

    { "rope_table", "S=1 D2=32 | S=225 D2=64" },
    { "rope", "B=1 H=1 S=1 D=64 D2=32 | B=2 H=3 S=33 D=64 D2=32 | B=1 H=2 S=225 D=128 D2=64", FLOATS },
    { "rope", "B=2 H=3 S=33 D=64 D2=32", NULL, "X:t Y:s" },
    { "embedding", "N=1 V=1 D=1 | N=225 V=9 D=129 | N=9 V=1009 D=64", FLOATS " | T=i8" },
    { "embedding", "N=33 V=9 D=65", NULL, "ID:x TABLE:t Y:s" },
    { "embedding_range", "N=225 V=9 D=129" },
    { "cumsum", MATRIX, "T=f32 TN=256 | T=f16 TN=1024 | T=i32 ACC=i32 TN=256 | T=f64 ACC=f64 TN=512" },
    { "cumsum", "M=9 N=225", "T=f32 TN=64", "X:t Y:s", "X" },
    { "topk", "M=1 N=1 K=1 | M=9 N=225 K=8 | M=3 N=1009 K=32 | M=2 N=33 K=33", "T=f32 | T=f16" },
    { "topk", "M=9 N=225 K=5", "T=i32 | T=bf16", "X:s INDEX:s" },
    { "topk", "M=3 N=225 K=9", "T=f32", NULL, "X" },
    { "topk_ties", "M=9 N=225 K=30", "T=f32 | T=i32" },
    { "dropout", VECTOR, FLOATS },
    { "dropout", "N=1009", NULL, "X:x Y:s" },
    { "spmv_ell", "M=225 W=7 N=9 | M=9 W=33 N=225" },
    { "spmv_csr", "M=225 M1=226 NNZ=1009 N=100 | M=9 M1=10 NNZ=1023 N=33" },
    { "histogram", "N=1 BINS=256 | N=4095 BINS=256 | N=1009 BINS=100", "T=u8 | T=i32" },
    { "histogram", "N=1009 BINS=256", NULL, "X:x COUNT:s" },
/* so that every example meets every one of the ragged sizes */
#define RAGGED_HEADS \
    "B=1 H=1 HK=1 M=9 N=225 D=64 | B=1 H=1 HK=1 M=1009 N=9 D=64 | B=1 H=1 HK=1 M=1 N=1023 D=64 | B=1 H=1 " \
    "HK=1 M=9 N=4095 D=64"
    { "copy_first_column", "M=1023 N=3 | M=4095 N=9", "T=f16", .heavy = true },
    { "swiglu", "M=2 N=1023 N2=2046 | M=1 N=4095 N2=8190", "T=f16", .heavy = true },
    { "rms_norm_vector", "M=1 N=225 P=2 | M=1 N=1023 P=3", "T=f32", .heavy = true },
    { "sum_rows", "M=1009 N=9", "T=f32", .heavy = true },
    { "sum_columns", "M=4095 N=9", "T=f32", .heavy = true },
    { "sum_all", "N=9 P=1 | N=225 P=2 | N=1009 P=3 | N=1023 P=5", "T=f32", .heavy = true },
    { "transpose", "M=1023 N=9 | M=9 N=4095", "T=f16", .heavy = true },
    { "max_pool",
        "B=1 C=1 H=9 W=1009 P=5 Q=505 | B=1 C=1 H=1023 W=1 P=512 Q=1 | B=1 C=1 H=4095 W=2 P=2048 Q=1",
        "T=f16", .heavy = true },
    { "blur", "H=3 W=1009 | H=1023 W=2 | H=4095 W=1", "T=f32", .heavy = true },
    { "gemm", "M=9 N=1 K=4095", "T=f16 TM=16 TN=16", .heavy = true },
    { "gemm_bias_gelu", "M=1 N=1023 K=1009 | M=9 N=1 K=4095", "TM=16 TN=64", .heavy = true },
    { "gemm_residual", "M=1 N=1023 K=1009 | M=9 N=1 K=4095", "TM=16 TN=64", .heavy = true },
    { "gemm_gated", "M=1 N=1023 K=1009 | M=9 N=1 K=4095", "TM=16 TN=64", .heavy = true },
    { "conv2d_nchw",
        "B=1 C=3 H=2 W=225 F=4 R=3 S=3 P=2 Q=225 | B=1 C=3 H=2 W=1009 F=4 R=3 S=3 P=2 Q=1009 | B=1 C=3 "
        "H=1023 W=2 F=4 R=3 S=3 P=1023 Q=2 | B=1 C=3 H=4095 W=1 F=4 R=3 S=3 P=4095 Q=1",
        "T=f16 TF=16 TP=2 TQ=8 TC=16", .heavy = true },
    { "conv2d_nhwc",
        "B=1 C=3 H=2 W=225 F=4 R=3 S=3 P=2 Q=225 | B=1 C=3 H=2 W=1009 F=4 R=3 S=3 P=2 Q=1009 | B=1 C=3 "
        "H=1023 W=2 F=4 R=3 S=3 P=1023 Q=2 | B=1 C=3 H=4095 W=1 F=4 R=3 S=3 P=4095 Q=1",
        "T=f16 TF=16 TP=2 TQ=8 TC=16", .heavy = true },
    { "attention", "B=1 H=1 HK=1 M=1023 N=9 D=64 | B=1 H=1 HK=1 M=9 N=4095 D=64", "CAUSAL=false TM=32 TN=64",
        .heavy = true },
    { "attention_alibi", RAGGED_HEADS, "CAUSAL=false TM=32 TN=64", .heavy = true },
    { "attention_bias", RAGGED_HEADS, "CAUSAL=false TM=32 TN=64", .heavy = true },
    { "attention_sink", RAGGED_HEADS, "CAUSAL=false TM=32 TN=64", .heavy = true },
    { "attention_softcap", RAGGED_HEADS, "CAUSAL=false TM=32 TN=64", .heavy = true },
    { "attention_cross", RAGGED_HEADS, "TM=32 TN=64", .heavy = true },
    { "attention_window",
        "B=1 H=1 HK=1 M=9 N=9 D=64 | B=1 H=1 HK=1 M=1009 N=1009 D=64 | B=1 H=1 HK=1 M=9 N=1023 D=64 | B=1 "
        "H=1 HK=1 M=9 N=4095 D=64",
        "TM=32 TN=64", .heavy = true },
    { "attention_decode",
        "B=1 H=2 HK=1 N=9 S=2 D=64 | B=1 H=2 HK=1 N=1023 S=3 D=64 | B=1 H=2 HK=1 N=4095 S=4 D=64", "G=2",
        .heavy = true },
    { "rope_table", "S=9 D2=32 | S=1009 D2=32 | S=1023 D2=64", .heavy = true },
    { "rope",
        "B=1 H=2 S=9 D=64 D2=32 | B=1 H=1 S=1009 D=64 D2=32 | B=1 H=1 S=1023 D=64 D2=32 | B=1 H=1 S=4095 "
        "D=64 D2=32",
        "T=f16", .heavy = true },
    { "embedding", "N=1023 V=9 D=33 | N=4095 V=3 D=5", "T=f16", .heavy = true },
    { "topk", "M=2 N=1023 K=9 | M=1 N=4095 K=5", "T=f32", .heavy = true },
    { "histogram", "N=9 BINS=16 | N=225 BINS=256 | N=1023 BINS=33", "T=u8", .heavy = true },
};

const int n_recipes = sizeof recipes / sizeof *recipes;
const int n_cases = sizeof cases / sizeof *cases;

const Recipe *recipe_find(const char *name)
{
    for (int i = 0; i < n_recipes; i++)
        if (!strcmp(recipes[i].name, name)) return &recipes[i];
    return NULL;
}

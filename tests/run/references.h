/* references.h: the references of tests/ref applied to a problem: they read inputs and sizes by name and
 * leave the wanted values. */
#pragma once
#include "problem.h"

void want_vector_add(Problem *);
void want_copy_first_column(Problem *);
void want_silu(Problem *);
void want_swiglu(Problem *);
void want_rms_norm(Problem *);
void want_layer_norm(Problem *);
void want_group_norm(Problem *);
void want_softmax(Problem *);
void want_sum_rows(Problem *);
void want_sum_columns(Problem *);
void want_argmax_rows(Problem *);
void want_max_magnitude(Problem *);
void want_sum_all(Problem *);
void want_transpose(Problem *);
void want_max_pool(Problem *);
void want_blur(Problem *);
void want_gemm(Problem *);
void want_gemm_bias_gelu(Problem *);
void want_gemm_residual(Problem *);
void want_gemm_gated(Problem *);
void want_conv2d_nchw(Problem *);
void want_conv2d_nhwc(Problem *);
void want_conv2d_rows(Problem *);
void want_conv2d_planes(Problem *);
void want_channels_last(Problem *);
void want_attention(Problem *);
void want_attention_cross(Problem *);
void want_attention_decode(Problem *);
void want_rope_table(Problem *);
void want_rope(Problem *);
void want_embedding(Problem *);
void want_cumsum(Problem *);
void want_topk(Problem *);
void want_dropout(Problem *);
void want_histogram(Problem *);
void want_attention_delta(Problem *);
void want_attention_backward(Problem *);
void want_attention_forward(Problem *);
void want_attention_gradients(Problem *);
void want_attention_gradients_sink(Problem *);
void want_attention_mla(Problem *);
void want_attention_paged(Problem *);
void want_chunk_scan(Problem *);
void want_gemm_grouped(Problem *);
void want_moe(Problem *);
void want_attention_paged_prefill(Problem *);
void want_attention_packed(Problem *);
void want_attention_append(Problem *);
void want_gemm_int4(Problem *);
void want_gemm_w8(Problem *);
void want_spmv_ell(Problem *);
void want_spmv_csr(Problem *);
void want_attention_differential(Problem *);

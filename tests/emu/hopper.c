/* hopper.c: tile_emu_hopper: kernels that become rings, TMA and wgmma on sm_90a, at ragged sizes, each under
 * several orders of warps and moments of completion; and with faults planted in the emitted text, of which
 * none may go unnoticed.
 *
 *     tile_emu_hopper [--only=ROW] [--draws=N]     results against the references. ROW: a number, or a part
 *         of the row's constants
 *     tile_emu_hopper --random=COUNT [--first=SEED] [--draws=N]    random tiles, extents, types, views and
 *         options of the lowering
 *     tile_emu_hopper --faults[=ROW] [--fault=N]   one call left out or changed at a time
 *     --quick                                      kernels are compiled by TinyCC (quick.h)
 *
 * Exit status 0, 1 after a failure, 77 where there is no host compiler. */
#include "tests/emu/hopper.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SMALL "M=200 N=136 K=328"
#define HEADS "B=1 H=4 HK=2 "
static const Row rows[] = {
    { "gemm", SMALL, "TM=128 TN=128 TK=64", NULL },
    { "gemm", "M=136 N=264 K=520 | M=136 N=264 K=24", "TM=64 TN=64 TK=32 STAGES=2", "A:t", .faults = true },
    { "gemm", SMALL, "T=bf16 TO=bf16 TM=128 TN=256 TK=64", "B:t" },
    { "gemm", "M=264 N=72 K=136", "TM=256 TN=64 TK=64", "A:t B:t" },
    { "gemm", "M=72 N=232 K=72", "TM=64 TN=224 TK=32", "B:t" },
    { "gemm", "M=184 N=72 K=72", "TM=176 TN=64 TK=32 TURN=true", NULL },
    /* sizes between those that the block lists (`fit`) */
    { "gemm", "M=264 N=224 K=136", "TM=256 TN=112 TK=64", "B:t" },
    /* CTAs of one program, which store through the stages that they have read */
    { "gemm", "M=136 N=264 K=520 | M=136 N=264 K=24", "TM=128 TN=128 TK=64 persistent=0", NULL,
        .faults = true, .calls = { "bar_sync(", "fence_proxy_async(", "mbar_wait(" } },
    { "gemm", "M=264 N=224 K=328", "TM=256 TN=112 TK=64 STAGES=4 persistent=0", "B:t" },
    { "gemm", "M=136 N=264 K=520", "TM=128 TN=128 TK=64 persistent=0 split_k=2", NULL },
    { "gemm", "M=136 N=264 K=776", "T=bf16 TO=bf16 TM=128 TN=256 TK=64 persistent=0 split_k=4", "A:t" },
    { "gemm", "M=136 N=168 K=520", "TM=64 TN=160 TK=64 persistent=0 split_k=3", NULL },
    { "gemm", "M=150 N=72 K=520", "TM=136 TN=64 TK=64 TURN=true persistent=0 split_k=3", NULL },
    { "gemm", "M=220 N=136 K=520", "TM=208 TN=64 TK=64 TURN=true persistent=0 split_k=5", "B:t" },
    { "gemm", "M=150 N=136 K=520", "TM=72 TN=128 TK=64 TURN=true persistent=0 split_k=4", "A:t" },
    { "gemm", "M=200 N=176 K=200", "TO=f32 TM=192 TN=176 TK=32 STAGES=3 persistent=0", "A:t" },
    { "gemm", "M=200 N=170 K=136", "T=bf16 TO=bf16 TM=192 TN=168 TK=32 cluster=2", "A:t B:t" },
    { "gemm", "M=136 N=208 K=200", "TM=128 TN=104 TK=64 split_k=2", NULL },
    { "gemm", "M=216 N=136 K=72", "TM=72 TN=128 TK=64 TURN=true", "B:t" },
    { "gemm", "M=250 N=136 K=90", "TM=248 TN=128 TK=32 TURN=true persistent=1 cluster=2", NULL },
    { "gemm", "M=150 N=72 K=136", "TM=120 TN=64 TK=64 TURN=true stream_k=3 persistent=1", "A:t" },
    { "gemm", "M=40 N=70 K=72 | M=24 N=71 K=72", "TM=96 TN=64 TK=32 TURN=true", "B:t" }, /* odd rows of C */
    /* transposed results of warps that stand in rows and columns, by four matrices at a time and by two */
    { "gemm", "M=264 N=136 K=90", "TM=224 TN=128 TK=32 TURN=true", "A:t B:t" },
    { "gemm", "M=90 N=72 K=75", "T=bf16 TO=bf16 TM=24 TN=64 TK=32 TURN=true", NULL },
    /* rows of C and B at multiples of 4 and 8 bytes */
    { "gemm", "M=140 N=202 K=90 | M=140 N=196 K=64", "TM=128 TN=192 TK=32", NULL },
    { "gemm", "M=200 N=104 K=96", "TO=f32 TM=192 TN=96 TK=32 STAGES=4", NULL },
    { "gemm", "M=96 N=80 K=272", "T=f8e4m3 TO=f16 TM=64 TN=64 TK=64", "B:t" },
    { "gemm", "M=96 N=80 K=272", "T=f8e5m2 TO=f16 TM=128 TN=32 TK=128", "B:t" },
    { "gemm", "M=144 N=80 K=272", "T=i8 ACC=i32 TO=i32 TM=64 TN=128 TK=64", "B:t" },
    { "gemm_tf32", "M=72 N=100 K=84", "TM=64 TN=64 TK=32", "B:t" },
    { "gemm_tf32", "M=104 N=136 K=84", "TM=96 TN=128 TK=32 TURN=true STAGES=4",
        NULL }, /* contiguous in M: through registers */
    { "gemm_tf32", "M=136 N=72 K=292 | M=136 N=72 K=100", "TM=128 TN=64 TK=64", "A:t B:t", .faults = true },
    { "gemm_tf32", "M=24 N=56 K=180", "TM=256 TN=208 TK=64", "B:t" }, /* rings of one stage */
    /* rings that cp.async producers fill: rows of B, of A and of both begin at arbitrary addresses; along M;
       transposed operands; few steps, and none in a loop; one consumer, and three */
    { "gemm", "M=136 N=259 K=520 | M=136 N=137 K=24", "TM=64 TN=64 TK=32 STAGES=2", NULL, .faults = true },
    /* the last window of a program in the next one: short programs, some without a step, in clusters, in
       shares; rows that several classes of lines cover */
    { "gemm", "M=520 N=259 K=40 | M=392 N=137 K=104", "TM=64 TN=64 TK=32 STAGES=2 persistent=1", NULL,
        .faults = true },
    { "gemm", "M=520 N=137 K=71", "T=bf16 TO=bf16 TM=128 TN=64 TK=64 persistent=1 cp_async_producer=1",
        "B:t" },
    { "gemm", "M=264 N=203 K=72", "TM=64 TN=64 TK=32 STAGES=2 persistent=1 cluster=2", NULL },
    { "gemm", "M=264 N=203 K=200", "TM=64 TN=64 TK=32 STAGES=2 persistent=1 stream_k=4", NULL },
    { "products_of_some", "M=264 N=259 K=520 | M=264 N=391 K=24", "persistent=1", NULL, .faults = true,
        .calls = { "cp_async_wait(", "mbar_arrive(" } },
    { "conv2d_nhwc", "B=20 C=19 H=8 W=8 F=52 R=1 S=1 P=8 Q=8",
        "T=bf16 PAD=0 TF=64 TB=8 TP=4 TQ=4 persistent=1", NULL },
    { "gemm", "M=200 N=136 K=325", "TM=128 TN=128 TK=64", NULL },
    { "gemm", "M=77 N=131 K=203", "T=bf16 TO=bf16 TM=128 TN=256 TK=64 cp_async_producer=1", NULL },
    { "gemm", "M=201 N=133 K=101", "TM=192 TN=96 TK=32 cp_async_producer=1", "A:t" },
    { "gemm", "M=131 N=77 K=67 | M=67 N=300 K=16", "TO=f32 TM=128 TN=64 TK=64 cp_async_producer=1", "B:t" },
    { "gemm", "M=96 N=80 K=272", "T=f8e4m3 TO=f16 TM=64 TN=64 TK=64 cp_async_producer=1", NULL },
    { "gemm", "M=97 N=81 K=271", "T=i8 ACC=i32 TO=i32 TM=64 TN=128 TK=64 cp_async_producer=1", "A:t" },
    { "gemm_tf32", "M=72 N=101 K=84", "TM=64 TN=64 TK=32 cp_async_producer=1", NULL },
    { "gemm_bias_gelu", "M=136 N=135 K=200", "TM=128 TN=128 TK=64", NULL },
    { "conv2d_planes", "B=2 C=40 H=7 W=24 F=72 R=3 S=3 N=168", "TF=64 TP=4 TC=32",
        NULL }, /* windows that begin before a row */
    { "conv2d_planes", "B=1 C=24 H=9 W=28 F=136 R=3 S=3 N=252", "T=bf16 TF=128 TP=4 TC=16", NULL },
    { "conv2d_planes", "B=1 C=21 H=9 W=14 F=136 R=5 S=3 N=60", "PAD=0 TF=64 TP=4 TC=16 cp_async_producer=1",
        NULL },
    /* neighbouring programs as clusters that load together: along M and N, in halves of rows and in panels,
       with programs beyond the end of the grid */
    { "gemm", "M=264 N=136 K=520 | M=136 N=264 K=24", "TM=64 TN=64 TK=32 STAGES=2 cluster=2", "A:t",
        .faults = true },
    { "gemm", "M=200 N=264 K=328", "TM=128 TN=128 TK=64 cluster=2 cluster_axis=1", NULL },
    { "gemm", "M=520 N=136 K=200", "TM=128 TN=256 TK=64 cluster=4", NULL },
    { "gemm_gated", "M=264 N=136 K=200", "TM=128 TN=64 TK=64 cluster=2", NULL },
    /* many short tiles: programs are handed over as fast as the rings let them */
    { "gemm", "M=520 N=392 K=104 | M=392 N=520 K=40", "TM=64 TN=64 TK=64 STAGES=8 persistent=1 cluster=2",
        "B:t" },
    { "gemm", "M=392 N=648 K=72", "T=bf16 TM=64 TN=64 TK=32 persistent=1 cluster=4 cluster_axis=1", NULL },
    { "conv2d_nhwc", "B=12 C=104 H=9 W=8 F=136 R=1 S=1 P=9 Q=8",
        "FLAT=true T=bf16 PAD=0 TF=128 TP=8 TQ=16 TC=64 STAGES=8 H=9 W=8 R=1 S=1 P=9 Q=8 persistent=1 "
        "cluster=2 cluster_axis=1",
        NULL },
    { "gemm_bias_gelu", "M=136 N=392 K=136", "TM=128 TN=128 TK=64 cluster=2 cluster_axis=1", NULL },
    /* tiles behind the sums through stages of the ring that the cluster does not share */
    { "gemm_residual", "M=264 N=136 K=200 | M=136 N=264 K=24", "TM=64 TN=64 TK=64 STAGES=4 cluster=2", NULL,
        .faults = true, .calls = { "mbar_wait(", "mbar_expect(", "mbar_arrive(", "tma_load_2d(" } },
    { "attention", HEADS "M=330 N=200 D=64 | " HEADS "M=136 N=40 D=64", "CAUSAL=false TM=64 TN=64 cluster=2",
        NULL, .faults = true },
    { "attention", "B=1 H=2 HK=1 M=129 N=300 D=128", "CAUSAL=false TM=128 TN=96 cluster=2", NULL },
    { "attention_cross", "B=2 H=2 HK=2 M=166 N=46 D=96", "T=bf16 TM=64 TN=80 cluster=2", NULL },
    { "gemm_bias_gelu", SMALL, "TM=128 TN=128 TK=64", NULL },
    /* The residual through free stages: one stage of the ring of B, twice; four stages, of rows of 64 bytes;
       not used, because it lies along M and is read by ordinary loads. */
    { "gemm_residual", SMALL, "T=bf16 TM=64 TN=128 TK=64", NULL },
    { "gemm_residual", "M=136 N=264 K=712 | M=136 N=264 K=24", "TM=64 TN=64 TK=64 STAGES=4", NULL,
        .faults = true },
    { "gemm_residual", "M=136 N=264 K=200", "TM=128 TN=128 TK=32 STAGES=4", NULL },
    { "gemm_residual", "M=136 N=264 K=72", "TM=128 TN=128 TK=64", "R:t" },
    { "gemm_gated", "M=136 N=136 K=776 | M=136 N=264 K=56", "TM=128 TN=64 TK=64", NULL, .faults = true },
    { "attention", HEADS "M=200 N=200 D=64", "CAUSAL=true TM=128 TN=64", NULL },
    { "attention", HEADS "M=136 N=600 D=64 | " HEADS "M=136 N=40 D=64", "CAUSAL=false TM=64 TN=64", NULL,
        .faults = true },
    { "attention", "B=1 H=2 HK=1 M=129 N=300 D=128", "T=bf16 CAUSAL=false TM=128 TN=96", NULL },
    { "attention", "B=2 H=1 HK=1 M=300 N=300 D=64 | B=5 H=2 HK=2 M=200 N=72 D=64", "CAUSAL=true TM=192 TN=80",
        NULL, .faults = true },
    { "attention", "B=1 H=1 HK=1 M=130 N=130 D=96", "CAUSAL=true TM=64 TN=48", NULL },
    { "attention", "B=1 H=1 HK=1 M=100 N=170 D=256", "CAUSAL=false TM=64 TN=80", NULL },
    { "attention_window", "B=1 H=2 HK=1 M=225 N=225 D=64", "TM=64 TN=64", NULL },
    { "attention_softcap", "B=1 H=2 HK=1 M=129 N=129 D=64", "TM=128 TN=64", NULL },
    { "attention_alibi", "B=1 H=2 HK=1 M=129 N=129 D=64", "CAUSAL=false TM=64 TN=96", NULL },
    { "attention_bias", "B=1 H=2 HK=1 M=136 N=600 D=64 | B=5 H=2 HK=2 M=200 N=72 D=64", "TM=64 TN=64", NULL,
        .faults = true },
    { "attention_mla", "B=1 H=2 M=200 N=200 D=64 R=32 DV=128", "TM=128 TN=64",
        NULL }, /* two products of one sum, then a late one */
    { "attention_dkdv", "B=1 H=1 M=200 N=136 D=64", "TM=64 TN=128", NULL }, /* two early, two late */
    { "attention_dq", "B=1 H=1 M=136 N=200 D=128", "CAUSAL=false TM=128 TN=64",
        NULL }, /* two early, one late */
    { "attention_differential", "B=1 H=1 TWO=2 M=136 N=200 D=64 DV=64", "TM=64 TN=64",
        NULL }, /* a stage that two late products read */
    { "gemm_int4", "M=40 N=136 K=512 KHALF=256 GROUPS=4 BYTE=256 SEVEN=7", "TM=16 TN=64",
        NULL }, /* left operands from registers, with two stages of a ring */
    { "gemm_int4", "M=136 N=264 K=640 KHALF=320 GROUPS=5 BYTE=256 SEVEN=7", "TM=64 TN=64", NULL,
        .faults = true },
    { "gemm_int4", "M=40 N=136 K=128 KHALF=64 GROUPS=1 BYTE=256 SEVEN=7", "TM=64 TN=128", NULL },
    { "gemm_w8", "M=136 N=264 K=400", "TM=64 TN=128 TK=128", NULL }, /* one product a step, in halves */
    { "gemm_w8", "M=72 N=136 K=272", "T=bf16 Q=f8e4m3 TM=72 TN=64 TK=64", NULL },
    { "gemm_grouped", "M=264 N=136 K=136 E=3 E1=4 TILES=6", "TM=128 TN=128 TK=64", NULL },
    { "conv2d_nhwc", "B=3 C=296 H=7 W=9 F=72 R=1 S=1 P=7 Q=9 | B=5 C=24 H=7 W=9 F=136 R=1 S=1 P=7 Q=9",
        "PAD=0 TF=64 TB=2 TP=4 TQ=8 TC=32", NULL, .faults = true },
    { "conv2d_nhwc", "B=3 C=24 H=9 W=10 F=72 R=3 S=3 P=9 Q=10", "TF=64 TB=2 TP=4 TQ=8 TC=32", NULL },
    { "conv2d_nhwc", "B=1 C=40 H=7 W=19 F=136 R=3 S=3 P=7 Q=19", "T=bf16 TF=128 TB=1 TP=8 TQ=16 TC=64",
        NULL },
    { "conv2d_nhwc", "B=17 C=24 H=5 W=6 F=75 R=3 S=3 P=5 Q=6", "T=bf16 TF=128 TB=16 TP=4 TQ=4 TC=32",
        NULL }, /* stores element by element behind an exchange through shared memory */
    { "conv2d_nhwc", "B=3 C=24 H=17 W=20 F=72 R=3 S=3 P=9 Q=10", "STRIDE=2 TF=64 TB=2 TP=4 TQ=8 TC=32",
        NULL }, /* windows with steps */
    { "conv2d_nhwc", "B=3 C=40 H=13 W=15 F=72 R=1 S=1 P=7 Q=8 | B=5 C=24 H=13 W=15 F=136 R=1 S=1 P=7 Q=8",
        "STRIDE=2 PAD=0 TF=64 TB=1 TP=8 TQ=8 TC=32", NULL, .faults = true },
    /* a column of taps a step: their windows as one */
    { "conv2d_nhwc", "B=2 C=40 H=13 W=19 F=24 R=3 S=3 P=13 Q=19 | B=1 C=24 H=4 W=33 F=40 R=3 S=3 P=4 Q=33",
        "COLUMN=true R=3 TF=32 TP=12 TQ=16 TC=32", NULL },
    { "conv2d_nhwc", "B=1 C=72 H=6 W=37 F=72 R=5 S=5 P=6 Q=37",
        "COLUMN=true T=bf16 PAD=2 R=5 TF=64 TP=2 TQ=32 TC=64 STAGES=8 cluster=2 cluster_axis=1", NULL },
    { "conv2d_nhwc", "B=2 C=24 H=17 W=20 F=24 R=5 S=5 P=9 Q=10",
        "COLUMN=true STRIDE=2 PAD=2 R=5 TF=32 TP=8 TQ=16 TC=32", NULL },
    { "conv2d_nhwc", "B=1 C=72 H=9 W=18 F=40 R=3 S=3 P=9 Q=18",
        "COLUMN=true R=3 TF=32 TP=8 TQ=8 TC=32 split_k=4", NULL },
    { "conv2d_nhwc", "B=3 C=24 H=9 W=11 F=72 R=3 S=3 P=9 Q=11 | B=2 C=40 H=3 W=5 F=8 R=3 S=3 P=3 Q=5",
        "FLAT=true TF=96 TP=8 TQ=16 TC=32", NULL },
    { "conv2d_nhwc", "B=3 C=24 H=17 W=20 F=72 R=5 S=3 P=8 Q=10",
        "FLAT=true T=bf16 STRIDE=2 TF=32 TP=8 TQ=8 TC=64 persistent=1", NULL },
    /* known extents: pixels by TMA's im2col mode, runs over the ends of rows and images, stored as they lie
     */
    { "conv2d_nhwc", "B=3 C=24 H=9 W=11 F=72 R=3 S=3 P=9 Q=11",
        "FLAT=true TF=96 TP=8 TQ=16 TC=32 H=9 W=11 R=3 S=3 P=9 Q=11", NULL },
    { "conv2d_nhwc", "B=5 C=72 H=17 W=20 F=72 R=5 S=3 P=8 Q=10",
        "FLAT=true T=bf16 STRIDE=2 TF=32 TP=8 TQ=8 TC=64 H=17 W=20 R=5 S=3 P=8 Q=10 persistent=1", NULL },
    { "conv2d_nhwc", "B=7 C=136 H=7 W=7 F=136 R=3 S=3 P=7 Q=7",
        "FLAT=true TF=128 TP=8 TQ=32 TC=128 H=7 W=7 R=3 S=3 P=7 Q=7 cluster=2 cluster_axis=1", NULL },
    { "conv2d_nhwc", "B=2 C=40 H=5 W=5 F=72 R=5 S=5 P=5 Q=5",
        "FLAT=true TF=64 PAD=2 TP=8 TQ=8 TC=64 H=5 W=5 R=5 S=5 P=5 Q=5 split_k=4", NULL },
    { "conv2d_nhwc", "B=3 C=24 H=9 W=11 F=70 R=3 S=3 P=9 Q=11",
        "FLAT=true TF=64 TP=8 TQ=16 TC=32 H=9 W=11 R=3 S=3 P=9 Q=11",
        NULL }, /* rows of Y that end within 16 bytes */
    /* pixels at the edges: one tap; steps of 3 and 25 taps; images of a pixel and of a row; taps and corners
       as far as the instruction's bits reach, and one further */
    { "conv2d_nhwc", "B=3 C=24 H=7 W=9 F=72 R=1 S=1 P=7 Q=9",
        "FLAT=true PAD=0 TF=64 TP=8 TQ=16 TC=32 H=7 W=9 R=1 S=1 P=7 Q=9", NULL },
    { "conv2d_nhwc", "B=1 C=16 H=16 W=13 F=72 R=5 S=5 P=6 Q=5",
        "FLAT=true STRIDE=3 PAD=2 TF=64 TP=8 TQ=8 TC=16 H=16 W=13 R=5 S=5 P=6 Q=5", "X:w WT:w Y:w" },
    { "conv2d_nhwc", "B=70 C=24 H=1 W=1 F=72 R=3 S=3 P=1 Q=1",
        "FLAT=true TF=64 TP=8 TQ=8 TC=16 H=1 W=1 R=3 S=3 P=1 Q=1", NULL },
    { "conv2d_nhwc", "B=9 C=24 H=1 W=9 F=72 R=3 S=3 P=1 Q=9",
        "FLAT=true TF=64 TP=8 TQ=16 TC=16 H=1 W=9 R=3 S=3 P=1 Q=9", NULL },
    { "conv2d_nhwc", "B=2 C=8 H=1 W=17 F=8 R=2 S=256 P=32 Q=3",
        "FLAT=true STRIDE=8 PAD=128 TF=64 TP=8 TQ=8 TC=16 H=1 W=17 R=2 S=256 P=32 Q=3", NULL },
    { "conv2d_nhwc", "B=2 C=8 H=1 W=17 F=8 R=2 S=257 P=32 Q=3",
        "FLAT=true STRIDE=8 PAD=128 TF=64 TP=8 TQ=8 TC=16 H=1 W=17 R=2 S=257 P=32 Q=3", NULL },
    { "conv2d_nhwc", "B=2 C=21 H=7 W=7 F=13 R=3 S=3 P=7 Q=7", "FLAT=true TF=64 TP=8 TQ=8 TC=16", "X:w WT:w" },
    { "conv2d_nhwc", "B=3 C=72 H=9 W=11 F=40 R=3 S=3 P=9 Q=11 | B=1 C=16 H=9 W=9 F=40 R=3 S=3 P=9 Q=9",
        "FLAT=true TF=64 TP=8 TQ=8 TC=32 STAGES=8", NULL }, /* five stages of rows in flight */
    { "conv2d_rows", "B=2 C=40 H=7 W=24 F=72 R=3 S=3 N=168", "TF=64 TP=4 TC=32", NULL },
    { "conv2d_rows", "B=1 C=24 H=9 W=28 F=136 R=3 S=3 N=252", "T=bf16 TF=128 TP=4 TC=16", NULL },
    { "conv2d_rows", "B=2 C=72 H=9 W=20 F=72 R=3 S=3 N=180", "TF=64 TP=6 TC=64 TR=3",
        NULL }, /* products that begin inside an atom of the swizzle */
    { "conv2d_rows", "B=2 C=40 H=7 W=24 F=72 R=3 S=3 N=168", "TF=64 TP=4 TC=32 TR=3", NULL },
    { "conv2d_rows", "B=3 C=40 H=7 W=24 F=72 R=3 S=3 N=168", "TF=64 TP=4 TC=32 TR=3 cluster=2 cluster_axis=1",
        NULL }, /* filters that a cluster shares, with merged windows; merged windows that a cluster shares */
    { "conv2d_rows", "B=2 C=40 H=7 W=32 F=136 R=3 S=3 N=224", "TF=64 TP=4 TC=32 TR=3 cluster=2", NULL },
    { "conv2d_rows", "B=2 C=40 H=5 W=56 F=136 R=3 S=3 N=280", "TF=128 TP=4 TC=32 TR=3",
        NULL }, /* stores of seven boxes, a buffer for each */
    { "conv2d_rows", "B=3 C=40 H=6 W=24 F=72 R=3 S=3 N=144", "TF=64 TP=4 TC=32 TR=3 HALVES=true",
        NULL }, /* two loops of products, of which each program runs one */
    { "conv2d_rows", "B=1 C=24 H=9 W=28 F=136 R=3 S=3 N=252", "T=bf16 TF=128 TP=4 TC=16 TR=3 split_k=2",
        NULL },
    { "conv2d_planes", "B=2 C=40 H=8 W=24 F=72 R=3 S=3 N=192", "TF=64 TP=4 TC=32 TR=3", NULL },
    { "conv2d_planes", "B=1 C=72 H=12 W=28 F=136 R=3 S=3 N=336", "T=bf16 TF=128 TP=8 TC=32 TR=3", NULL },
    /* taps of a row as well: each row is fetched once and is three times in the stage */
    { "conv2d_planes", "B=2 C=40 H=8 W=24 F=72 R=3 S=3 N=192", "TF=64 TP=4 TC=16 TR=3 TS=3", NULL },
    { "conv2d_planes", "B=1 C=72 H=12 W=28 F=136 R=3 S=3 N=336", "T=bf16 TF=128 TP=8 TC=16 TR=3 TS=3", NULL },
    { "conv2d_planes", "B=1 C=24 H=9 W=20 F=72 R=3 S=5 N=162", "TF=64 TP=4 TC=16 TR=3 TS=5", NULL },
    { "conv2d_planes", "B=1 C=24 H=9 W=26 F=72 R=3 S=3 N=168", "PAD=0 TF=64 TP=4 TC=16 TR=1 TS=3", NULL },
    { "attention_sink", "B=1 H=2 HK=1 M=129 N=129 D=128", "TM=64 TN=64", NULL },
    { "attention_sink", "B=1 H=2 HK=1 M=225 N=225 D=64", "WINDOW=100 TM=64 TN=64", NULL },
    { "attention_cross", "B=1 H=2 HK=1 M=65 N=200 D=64", "TM=64 TN=64", NULL },
    { "attention_cross", "B=2 H=2 HK=2 M=166 N=46 D=96 | B=2 H=2 HK=2 M=166 N=700 D=96", "T=bf16 TM=64 TN=80",
        NULL, .faults = true }, /* programs without a key, in which only the waits keep the lanes together */
    /* a cache that is read by TMA and written behind its end */
    { "attention_append", "B=3 M=19 N=420 KEYS=400 H=4 HK=2 D=64", "TM=32 TN=64", NULL },
    { "attention_append", "B=2 M=1 N=150 KEYS=149 H=2 HK=2 D=128", "T=bf16 G=1 TM=8 TN=64", NULL },
    /* sequences of unequal length, some empty, found by a search in the starts that each role does */
    { "attention_packed", "B1=6 R=190 S=260 H=2 HK=1 D=64 | B1=9 R=40 S=21 H=2 HK=2 D=64", "TM=64 TN=64",
        NULL },
    { "attention_packed", "B1=4 R=300 S=200 H=1 HK=1 D=128", "CAUSAL=false WINDOW=90 T=bf16 TM=128 TN=96",
        NULL },
    { "softmax", "M=3 N=13009", "T=f32", NULL, .faults = true }, /* rows over clusters */
    { "layer_norm", "M=2 N=16648", "T=bf16", NULL },
    { "layer_norm", "M=2 N=32768", "T=f16", NULL }, /* weights before the reductions, rows held as loaded */
    { "rms_norm_matrix", "M=2 N=20480", "T=f32", "X:s" },
    /* steps that are divided among the CTAs of a cluster: evenly, unevenly, fewer steps than CTAs */
    { "gemm", "M=72 N=136 K=712 | M=72 N=136 K=40", "TM=64 TN=64 TK=32 STAGES=2 split_k=2", NULL,
        .faults = true },
    { "gemm", "M=72 N=136 K=328 | M=72 N=136 K=40", "TM=64 TN=64 TK=32 split_k=4", "A:t" },
    { "gemm", "M=136 N=72 K=1000 | M=8 N=8 K=24", "T=bf16 TO=bf16 TM=128 TN=64 TK=64 split_k=2", "B:t" },
    { "gemm", "M=72 N=136 K=1023 | M=64 N=128 K=192", "TO=f32 TM=64 TN=128 TK=32 split_k=8", NULL },
    { "gemm", "M=24 N=72 K=264", "T=i8 ACC=i32 TO=i32 TM=64 TN=64 TK=64 split_k=4", "B:t" },
    { "gemm", "M=24 N=72 K=1000", "TM=16 TN=64 TK=64 split_k=4", NULL },
    { "gemm_bias_gelu", SMALL, "TM=64 TN=128 TK=32 split_k=4", NULL },
    { "gemm_residual", "M=72 N=72 K=328", "T=bf16 TM=64 TN=64 TK=32 split_k=8", NULL },
    { "gemm_gated", "M=136 N=72 K=392 | M=8 N=8 K=8", "TM=128 TN=64 TK=64 split_k=4", NULL },
    { "conv2d_nhwc", "B=3 C=24 H=9 W=10 F=72 R=3 S=3 P=9 Q=10", "TF=64 TB=2 TP=4 TQ=8 TC=32 split_k=4",
        NULL },
    /* parts that meet in the workspace: of clusters of eight, four and two, of CTAs alone, fewer steps than
     * parts */
    { "gemm", "M=72 N=136 K=712 | M=72 N=136 K=40", "TM=64 TN=64 TK=32 STAGES=2 split_k=16", NULL },
    { "gemm", "M=24 N=72 K=264", "T=i8 ACC=i32 TO=i32 TM=64 TN=64 TK=64 split_k=12", "B:t" },
    { "gemm", "M=40 N=40 K=1023", "TO=f32 TM=64 TN=64 TK=32 split_k=22", NULL },
    { "gemm_residual", "M=72 N=72 K=328", "T=bf16 TM=64 TN=64 TK=32 split_k=11", NULL },
    { "gemm", "M=136 N=136 K=1000 | M=8 N=8 K=24", "TM=128 TN=128 TK=64 split_k=3", "A:t" },
    { "gemm", "M=72 N=264 K=328", "T=bf16 TO=bf16 TM=64 TN=256 TK=32 split_k=6", NULL },
    { "gemm_residual", "M=72 N=72 K=328", "T=bf16 TM=64 TN=64 TK=32 split_k=5", NULL },
    { "conv2d_nhwc", "B=1 C=24 H=9 W=10 F=72 R=3 S=3 P=9 Q=10", "TF=64 TB=2 TP=4 TQ=8 TC=32 split_k=24",
        NULL },
    /* online softmax, each CTA under its own maximum: even, uneven, CTAs without keys, rows without keys,
     * sums that start from a sink */
    { "attention", "B=1 H=2 HK=1 M=72 N=520 D=64 | B=1 H=2 HK=1 M=72 N=40 D=64",
        "CAUSAL=false TM=64 TN=64 split_k=2", NULL },
    { "attention", "B=1 H=2 HK=2 M=200 N=200 D=96 | B=1 H=1 HK=1 M=9 N=9 D=96",
        "T=bf16 TM=128 TN=64 split_k=4", NULL },
    { "attention_cross", "B=1 H=2 HK=1 M=65 N=520 D=64 | B=2 H=2 HK=2 M=166 N=46 D=64",
        "TM=64 TN=64 split_k=4", NULL },
    { "attention_sink", "B=1 H=2 HK=1 M=129 N=129 D=128", "TM=64 TN=32 split_k=8", NULL },
    { "attention", "B=1 H=2 HK=1 M=300 N=300 D=64", "TM=256 TN=64", NULL },
    /* the programs of a last round as shares of all CTAs: of many programs, of fewer than CTAs; few steps, or
       none; an epilogue; integers; programs that load together, with some beyond the end of the grid; tiles
       of C^T; convolutions by windows, by columns of taps with steps, by TMA's im2col mode */
    { "gemm", "M=264 N=200 K=520 | M=136 N=264 K=72", "TM=64 TN=64 TK=32 STAGES=2 stream_k=4", NULL,
        .faults = true },
    { "gemm", "M=136 N=328 K=1000 | M=8 N=8 K=24", "T=bf16 TO=bf16 TM=128 TN=64 TK=64 stream_k=8", "A:t" },
    { "gemm", "M=300 N=136 K=1023", "TO=f32 TM=256 TN=64 TK=32 stream_k=3", "B:t" },
    { "gemm", "M=80 N=208 K=272", "T=i8 ACC=i32 TO=i32 TM=64 TN=64 TK=64 stream_k=4", "B:t" },
    { "gemm", "M=520 N=136 K=200 | M=328 N=72 K=72", "TM=64 TN=64 TK=32 cluster=2 stream_k=2", NULL },
    { "gemm_bias_gelu", "M=72 N=392 K=328", "TM=64 TN=128 TK=32 stream_k=4", NULL },
    { "gemm_residual", "M=200 N=136 K=328", "T=bf16 TM=64 TN=64 TK=32 stream_k=4", NULL },
    { "conv2d_nhwc", "B=3 C=24 H=9 W=10 F=72 R=3 S=3 P=9 Q=10", "TF=64 TB=2 TP=4 TQ=8 TC=32 stream_k=4",
        NULL },
    { "gemm", "M=184 N=200 K=200", "TM=96 TN=64 TK=32 TURN=true stream_k=4", NULL },
    { "conv2d_nhwc", "B=2 C=24 H=17 W=20 F=40 R=5 S=5 P=9 Q=10",
        "COLUMN=true STRIDE=2 PAD=2 R=5 TF=32 TP=8 TQ=16 TC=32 stream_k=4", NULL },
    { "conv2d_nhwc", "B=3 C=72 H=9 W=11 F=136 R=3 S=3 P=9 Q=11 | B=2 C=40 H=9 W=11 F=70 R=3 S=3 P=9 Q=11",
        "FLAT=true T=bf16 TF=64 TP=8 TQ=16 TC=64 H=9 W=11 R=3 S=3 P=9 Q=11 stream_k=3", NULL },
    { "conv2d_nhwc", "B=3 C=24 H=17 W=20 F=72 R=5 S=3 P=8 Q=10",
        "FLAT=true T=bf16 STRIDE=2 TF=32 TP=8 TQ=8 TC=64 persistent=1 stream_k=4", NULL },
    { "attention", "B=1 H=1 HK=1 M=300 N=500 D=64", "CAUSAL=false TM=256 TN=64 split_k=2", NULL },
    { "attention_window", "B=1 H=1 HK=1 M=300 N=300 D=64", "WINDOW=100 TM=64 TN=32 split_k=2", NULL },
    { "conv2d_rows", "B=1 C=24 H=9 W=28 F=136 R=3 S=3 N=252", "T=bf16 TF=128 TP=4 TC=16 split_k=2", NULL },
    { "gemm", "M=136 N=264 K=520 | M=136 N=264 K=24", "TM=64 TN=64 TK=32 STAGES=2", NULL, .faults = true,
        .early = true },
    { "gemm", "M=136 N=136 K=24", "TM=64 TN=64 TK=32 STAGES=2 cluster=2", NULL, .early = true },
    { "softmax", "M=3 N=13009", "T=f32", NULL, .early = true },
    { "layer_norm", "M=2 N=16648", "T=bf16", NULL, .early = true },
    /* what a cluster reads before another CTA of it writes: rows replaced in place, a cache written and read;
     * additions in a fixed order by a writer warp */
    { "cluster_in_place", "M=2 N=6001", "", NULL, .faults = true,
        .calls = { "mbar_wait_acquire(", "fence_cluster(" } },
    { "attention_append", "B=3 M=19 N=120 KEYS=100 H=2 HK=1 D=64", "TM=32 TN=32 split_k=2", "K:x V:x",
        .faults = true, .calls = { "mbar_wait_acquire(", "fence_cluster(" } },
    { "add_products_in_order", "B=2 P=3 M=256 N=192 D=64", "TN=64", NULL, .faults = true,
        .calls = { "mbar_arrive(" } },
    { "add_products_in_order", "B=2 P=3 M=256 N=384 D=64", "", NULL, .faults = true,
        .calls = { "mbar_arrive(" } },
    { "gemm", "M=130 N=72 K=264", "TM=64 TN=64 TK=32 STAGES=3", NULL, .faults = true, .portable = true },
    { "attention", "B=1 H=1 HK=1 M=65 N=300 D=64", "CAUSAL=true TM=32 TN=32", NULL, .faults = true,
        .portable = true },
};
enum { ROWS = sizeof rows / sizeof *rows };

/* One after the other; the bits above draw (emu.h). */
void draw(void *emu, int k)
{ exec_emu_draw(emu, k % 4 | k % 3 << 2 | (k / 2 % 2) << 4 | k << 5, (k + k / 4) % 4 | k << 2); }

bool prepare(Test *t, const Row *r, char *why, size_t size)
{
    const Recipe *recipe = hopper_recipe(r->recipe);
    char all[300], *next = all;
    snprintf(all, sizeof all, "%s", r->sizes);
    t->row = r;
    while (recipe && next && t->n < SIZES) {
        char *one = next, *bar = strchr(next, '|');
        if (bar) *bar = 0;
        next = bar ? bar + 1 : NULL;
        Problem *p = t->problems[t->n] = problem_make(recipe, one, r->consts, r->views, NULL, 1, why, size);
        if (!p || !run_prepare(&t->runs[t->n], p, TILE_KERNELS, t->path, sizeof t->path, why, size))
            return false;
        t->runs[t->n++].passes = true;
    }
    return t->n > 0;
}

void release(Test *t)
{
    for (int k = 0; k < SIZES; k++) problem_free(t->problems[k]);
}

bool try(void *emu, Test *t, char *why, size_t size)
{
    for (int k = 0; k < t->n; k++) {
        problem_reset(t->problems[k]);
        if (!exec_emu_run(emu, &t->runs[k], why, size)) return false;
        Verdict v = problem_check(t->problems[k]);
        if (!v.ok) {
            snprintf(why, size, "%s", v.text);
            return false;
        }
    }
    return true;
}

static bool run_row(void *emu, const Row *r, int draws)
{
    char why[2000] = "";
    Test t = { 0 };
    bool ok = prepare(&t, r, why, sizeof why);
    exec_emu_options(emu, &(KernelOptions){ .early_start = r->early });
    int first = (int)(r - rows) * 5 % 12, k = first; /* other ones in the next row: all in three rows */
    for (; k < first + draws && ok; k++) {
        draw(emu, k);
        ok = try(emu, &t, why, sizeof why);
        if (ok && !exec_emu_roles(emu)) {
            ok = false;
            snprintf(why, sizeof why, "no TMA and wgmma, and no cluster, here");
        }
    }
    printf("%-4s %2d %s %s %s%s%s\n", ok ? "ok" : "FAIL", (int)(r - rows), r->recipe, r->sizes, r->consts,
        r->views ? " " : "", r->views ? r->views : "");
    if (!ok) printf("     draw %d: %s\n", k - 1, why);
    fflush(stdout);
    release(&t);
    return ok;
}

/* Is row k the one that was asked for: by its number, or by a part of its constants? */
static bool is_named(int k, const char *only)
{
    char *end;
    long number = only ? strtol(only, &end, 10) : 0;
    return !only || (*end ? strstr(rows[k].consts, only) != NULL : number == k);
}

int main(int argc, char **argv)
{
    int draws = 0, fault = -1, ran = 0;
    const char *only = NULL;
    bool faults = false, quick = false, ok = true;
    uint64_t first = 1, count = 0;
    char why[400];
    for (int k = 1; k < argc; k++) {
        if (!strncmp(argv[k], "--only=", 7)) only = argv[k] + 7;
        else if (!strncmp(argv[k], "--draws=", 8)) draws = atoi(argv[k] + 8);
        else if (!strncmp(argv[k], "--fault=", 8)) fault = atoi(argv[k] + 8);
        else if (!strncmp(argv[k], "--random=", 9)) count = strtoull(argv[k] + 9, NULL, 10);
        else if (!strncmp(argv[k], "--first=", 8)) first = strtoull(argv[k] + 8, NULL, 10);
        else if (!strncmp(argv[k], "--faults", 8)) {
            faults = true;
            if (argv[k][8]) only = argv[k] + 9;
        } else if (!strcmp(argv[k], "--quick")) {
            quick = true;
        } else {
            fprintf(stderr, "tile_emu_hopper: what is %s?\n", argv[k]);
            return 2;
        }
    }
    if (!draws) draws = faults || count ? 6 : 4;
    const char *const devices[] = { quick ? "tcc_sm_90a" : "emu_sm_90a", quick ? "tcc_sm_80" : "emu_sm_80" };
    void *emu = exec_emu_open(devices[0], why, sizeof why);
    if (!emu) {
        printf("SKIP: %s\n", why);
        return 77;
    }
    if (count) {
        int roles = 0, bad = 0, refused = 0;
        for (uint64_t seed = first; seed < first + count; seed++)
            bad += !random_one(emu, seed, draws, &roles, &refused);
        printf("%llu random kernels, %d with TMA and wgmma, %d refused, %d failed\n",
            (unsigned long long)count, roles, refused, bad);
        exec_emu_close(emu);
        return bad || (count >= 20 && (roles < (int)count / 3 || refused > (int)count / 8));
    }
    for (int k = 0; k < ROWS; k++) {
        if (!is_named(k, only) || (faults ? !rows[k].faults : rows[k].portable)) continue;
        ran++;
        ok &= faults ? faults_of(&rows[k], k, devices[rows[k].portable], draws, fault)
                     : run_row(emu, &rows[k], draws);
    }
    exec_emu_close(emu);
    if (faults && !only && fault < 0) ok &= faults_all_applied();
    if (!ran) printf("FAIL no row %s%s\n", only, faults ? " with faults" : "");
    return !ok || !ran;
}

/* kernel_file.h: any .tile file as a test problem. Comments at its head say what its text does not; the rest
 * follows from the kernel's parameters or is drawn. What it imports is found from its own folder.
 *
 *     // sizes: M=5 N=3..40 K=8*1..9 P=2*M+1 | M=1 N=1 K=8      alternatives; of a range each draw takes
 *         one; names stand for what is on their left
 *     // consts: T=f16 TM=16 | T=bf16                           alternatives; without: the kernel's defaults
 *     // views: A:r B:s | -                                     alternatives (cases.h); without the line
 *         draws choose, if sizes are drawn
 *     // fill: ID index:V; X int:20                             how inputs are filled (cases.h)
 *     // scalars: f32 s=0.375                                   all of them; without: the defaults, else 3
 *         or 0.375
 *     // special: A                                             gets NaN and infinities: in every other
 *         draw, or always where nothing is drawn
 *     // launch: first X PART; second PART Y                    without: the first kernel with its parameters
 *     // tensors: in A[M,N] f16; out Y[M] f32                   without: the first kernel's
 *     // bounds: 4 8192 1048576                                of results of 8 and 16 bits, of f32, of f64,
 *         in ulp; without: these; 0 0 0 as exact
 *     // exact                                                  results are the oracle's bit for bit
 *     // seed: 7 */
#pragma once
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct KernelFile {
    char text[16384], tensors[1536], scalars[256], launch[4][160], sizes[512], consts[256], defaults[128],
        views[256], special[64], fill[256], bounds[64];
    bool exact,
        drawn; /* drawn: sizes hold ranges. defaults: of const types that the alternatives leave out */
    uint64_t seed;
} KernelFile;

/* False, and the reason. */
bool kernel_file_read(const char *path, KernelFile *, char *why, size_t why_size);

/* The alternative at *s, without blanks around it; what follows, or NULL. */
char *kernel_file_cut(char **s, char *out, size_t size);

/* One draw of an alternative of sizes, and of views for the file's tensors. */
bool kernel_file_sizes(const char *alternative, uint64_t draw, char *out, size_t size);
void kernel_file_views(const KernelFile *, uint64_t draw, char *out, size_t size);

/* ops.h: every operation of the language as rows of a table; ops_main.c makes kernels of them and compares
 * devices with the interpreter. */
#pragma once
#include "cases.h"

/* Types a row is for, one bit a RefType. */
enum {
    T_BOOL = 1,
    T_SIGNED = 2 | 4 | 8 | 16,
    T_UNSIGNED = 32 | 64 | 128 | 256,
    T_FP8 = 512 | 1024,
    T_HALF = 2048 | 4096,
    T_F32 = 8192,
    T_F64 = 16384,
    T_INT = T_SIGNED | T_UNSIGNED,
    T_FLOAT = T_FP8 | T_HALF | T_F32 | T_F64,
    T_NUM = T_INT | T_FLOAT,
    T_ANY = T_NUM | T_BOOL,
    T_WORD = 8 | 16 | 128 | 256, /* integers of 32 and 64 bits */
};

/* What the kernel around a row is. a, b: tiles of T, c: one row of T, x: numbers of places (i32); row, col:
 * indices of the tile's elements. */
typedef enum OpGroup {
    IN_TILES,   /* tiles of 4 x 256 of tensors [M, N] */
    IN_CASTS,   /* the same, at fewer sizes */
    IN_ROWS,    /* tiles of 2 x N */
    IN_COLUMNS, /* tiles of M x 8 */
    IN_MEMORY,  /* gathers, scatters, windows: like IN_TILES, but T is never combined with itself */
    IN_ATOMICS, /* the same; the output is read and written */
    OP_GROUPS
} OpGroup;

typedef struct OpRow {
    OpGroup group;
    /* An expression; or, after '!', statements in which $Y is the output. $T is T, $W the output's window, $U
     * the unsigned type of T's width, $O another type of it, $K the kept extent */
    const char *text;
    unsigned types;
    const char *result; /* type of the output; "T" for T, "U" for $U, "O" for $O */
    /* The shape of the output: ' ' like the tile, '1' with its axis reduced to 1, '2' twice as long, 'k' of
     * length K = min(N, 5). */
    char shape;
    double narrow, f32, f64; /* bounds in ulp of the output's type, above the reference's own rounding */
    Floor floor;
    bool special; /* inputs may hold NaN and infinities */
} OpRow;

extern const OpRow op_rows[];
extern const int n_op_rows;

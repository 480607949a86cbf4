/* thin.h: what thin.c, thin_strips.c, thin_dots.c, thin_words.c, thin_loop.c and thin_blocks.c share: a
 * product of few rows or columns that is being emitted. In a product of few columns, "A" stands for the right
 * operand, "B" for the left one, and "rows" for the columns of the right one.
 */
#pragma once
#include "backends/cpu/memory/memory.h"
#include "backends/cpu/product/mma.h"

enum {
    MOST_AT_ONCE = 4,   /* rows, */
    MOST_OF_TABLES = 8, /* and for which an element is looked up once */
    LEAST_COLUMNS = 4,  /* of dots, */
    MOST_COLUMNS = 8,   /* and the most of them at once */
    MAX_SUMS = 16,      /* vectors of sums at once: see most_sums */
    BYTES_AT_ONCE = 64, /* of memory along a row: a line */
    BYTES_AHEAD = 16384 /* that dots are fetched: bench/notes/cpu_zen4.md, "Few rows: how far ahead, ..." */
};

/* Half of the registers: enough that each multiply-add finds the last one finished. */
static inline int most_sums(const CpuTarget *t)
{ return t->n_vector_regs >= 2 * MAX_SUMS ? MAX_SUMS : MAX_SUMS / 2; }

enum {
    HALVES = 32,       /* bytes of a vector that has two halves of ROWS_OF_BLOCK sums */
    ROWS_OF_BLOCK = 4, /* whose lanes are added together */
    MAX_WINDOWS = 8,
    MOST_LOOKED_UP = 64 /* elements at once: a register of bytes */
};

/* The values of an element by its index: a register, or each byte of them by itself (NULL: it is zero). */
typedef struct Table {
    LLVMValueRef part[4];
} Table;

/* The windows that B is computed from, and how far ahead each is fetched. */
typedef struct Windows {
    Gen *g;
    Window *w[MAX_WINDOWS], saved[MAX_WINDOWS];
    LLVMValueRef ahead[MAX_WINDOWS];
    int n;
    bool too_many;
} Windows;

/* Sums of 16 bits that are still to be added to those of 32, and the largest that they may be; NULL: none. */
typedef struct Waiting {
    LLVMValueRef sums;
    int largest;
} Waiting;

typedef struct Thin {
    Gen *g;
    Step *s;
    Value *b;
    DType from, as;   /* the type of B, and that products run in */
    DType packed;     /* of the other operand, which is packed */
    int lanes, rows;  /* of a vector of sums; of the sums that are computed at once, */
    int64_t m;        /* of all of them, */
    LLVMValueRef row; /* of which this is the first row */
    int64_t n, k;
    LLVMTypeRef vec;
    bool in_order; /* the windows of some iterations follow each other in the order of the product */
    bool whole;    /* all that B is computed from is in range; else short code, as it runs at edges alone */
    bool inverts;  /* the highest bit of each element of B is inverted (add_quads) */
    LLVMValueRef offsets; /* then: a vector for each row, by which its products are too large */
    Windows windows;
    bool fetched;       /* what comes later has been asked for */
    LLVMValueRef stage; /* not NULL: where the vectors of some rows of B are kept (thin_strips.c) */
    Value *index;       /* not NULL: B is a table of this (thin_index), */
    Value *bits;        /* which is bits `shift` and on of this */
    int shift;
    int pairs;             /* of MMA_I8_PAIRS: the largest sum of two products (mma_pairs), */
    bool packed_is_signed; /* and which operand is the unsigned one; */
    Waiting *waiting;      /* for each sum, what will be added to it */
    struct Thin *with;     /* a product that goes on from these sums, which are computed at once; or NULL */
} Thin;

/* acc + a b; with pairs, the elements of a vector of twice as many lanes; with groups of four, of four times.
 */
LLVMValueRef thin_multiply_add(Thin *, LLVMValueRef acc, LLVMValueRef a, LLVMValueRef b);
/* B at (k, column), `width` elements along the axis. */
LLVMValueRef thin_elements(Thin *, LLVMValueRef k, LLVMValueRef column, int axis, int width);
/* The address of the packed operand's elements from k on that belong to row t->row + `row` of the sums; and
 * of a sum. */
LLVMValueRef thin_a_at(Thin *, int row, LLVMValueRef k);
LLVMValueRef thin_sum_at(Thin *, const Buf *, int row, LLVMValueRef column);
/* Whether loads of B fetch what is ahead. */
void thin_fetch(Thin *, bool on);
/* Whether window number i is a matrix as B is, and fetched. */
bool thin_fetches(const Thin *, int i);
/* The address of its element at row k of B and `column`. */
LLVMValueRef thin_place(Thin *, const Window *, LLVMValueRef k, LLVMValueRef column);
/* Its bytes from row to row in memory. */
LLVMValueRef thin_stride(const Window *);
LLVMValueRef thin_invert(const Thin *, LLVMValueRef b);
/* The offset of row t->row + r. */
LLVMValueRef thin_offset_of(Thin *, int r);

/* thin_halves.c: on AVX2, where instructions move elements within the halves of a register alone: of each
 * half of two registers, the elements of `size` bytes of its lower or upper half, in turn. */
LLVMValueRef thin_interleave(Gen *, LLVMValueRef a, LLVMValueRef b, int size, bool upper);
/* How many vectors of a strip's sums are best computed together, with their columns in another order; 1: none
 * are. Their operands; and the sums themselves, from memory and to it. */
int thin_halves(const Thin *);
void thin_vectors_of_halves(Thin *, LLVMValueRef k, LLVMValueRef column, LLVMValueRef *b);
LLVMValueRef thin_load_halves(Thin *, LLVMValueRef ptr, int vectors);
void thin_store_halves(Thin *, LLVMValueRef v, LLVMValueRef ptr, int vectors);

/* thin_pairs.c: finds `pairs`. acc and what waits, which may then wait no more, and the products of a vector
 * of the packed operand and of the other one, which may wait; acc and all that waits. */
void thin_find_pairs(Thin *);
LLVMValueRef thin_add_pairs(Thin *, Waiting *, LLVMValueRef acc, LLVMValueRef a, LLVMValueRef b);
LLVMValueRef thin_add_waiting(Thin *, Waiting *, LLVMValueRef acc);

/* thin_strips.c: the product in strips, and the columns that a window is read by. */
void thin_strips(Thin *);
int64_t thin_span(const Thin *);

/* thin_sums.c: the sums of the lanes of n vectors, a power of two and at most as many as a vector has lanes;
 * a sum; of each block of lanes of a, and of b unless it is NULL, the sums of its two halves. Of four vectors
 * of HALVES bytes, the sums of the lanes of each half; and the rows and columns of each half change places.
 */
LLVMValueRef thin_sums_of_lanes(Thin *, LLVMValueRef *v, int n);
LLVMValueRef thin_add(Thin *, LLVMValueRef a, LLVMValueRef b);
LLVMValueRef thin_add_halves(Thin *, LLVMValueRef a, LLVMValueRef b, int block);
LLVMValueRef thin_sums_within(Thin *, const LLVMValueRef *v);
void thin_transpose_sums(Thin *, LLVMValueRef *v);

/* thin_dots.c: packs the few columns of B as rows; the product in dots. */
void thin_columns_as_rows(Thin *);
void thin_dots(Thin *);
/* Asks for the lines that come BYTES_AHEAD later than `width` elements of some columns: for the part of them
 * of row t->row, where there are several groups of rows. */
void thin_fetch_lines(Thin *, LLVMValueRef k, LLVMValueRef column, int columns, int width);
/* thin_words.c: whether whole columns are multiplied by words; as many columns as a vector has lanes. */
bool thin_by_words(const Thin *);
void thin_words(Thin *, LLVMValueRef column);
/* thin_tables.c: the value of which B is a table; the table of a column; adds the products of as many
 * elements as are looked up at once. */
void thin_index(Thin *);
Table thin_table(Thin *, LLVMValueRef column);
void thin_table_step(
    Thin *, LLVMValueRef k, LLVMValueRef column, int columns, const Table *table, LLVMValueRef *acc);
int thin_looked_up(const Thin *);
/* The registers of a table; 0: B is none. */
int thin_table_parts(const Thin *);
/* These elements become some vectors, in another order: how many; and the element in lane i of vector j. */
int thin_table_vectors(const Thin *);
int thin_table_element(const Thin *, int j, int i);
LLVMValueRef thin_look_up(Thin *, const Table *, LLVMValueRef index);
/* thin.c: a product; the windows that B is computed from, and whether they are whole too (i1; NULL: always),
 * which may be assumed from then on; code that is emitted for windows that are whole and, unless they always
 * are, for others. */
void thin_init(Thin *, Gen *, Step *);
void thin_assume_whole(Thin *);
typedef void ThinCode(Thin *, void *user);
void thin_find_windows(Thin *, LLVMValueRef *whole);
void thin_guard(Thin *, LLVMValueRef whole, ThinCode *, void *user);
/* The columns at once; adds the sums that stay in lanes to those in memory. */
int thin_columns(const Thin *);
void thin_take_lanes(Thin *, LLVMValueRef column, int columns);
/* thin_dots.c: the sums of some columns and of some rows that stay in lanes, acc[column * rows + row]; adds
 * the products of one window to them. */
void thin_load_lanes(Thin *, LLVMValueRef column, int columns, LLVMValueRef *acc);
void thin_store_lanes(Thin *, LLVMValueRef column, int columns, const LLVMValueRef *acc);
void thin_add_dots(Thin *, LLVMValueRef column, int columns, LLVMValueRef *acc);
/* thin_strips.c: takes the offsets from the sums so far. */
void thin_take_offsets(Thin *);
/* Whether the highest bits of B are inverted. */
static inline bool thin_inverts(const Step *s)
{
    return s->mma == MMA_I8_THIN &&
           ir_operand(s->instr, 0)->type->dtype == ir_operand(s->instr, 1)->type->dtype;
}

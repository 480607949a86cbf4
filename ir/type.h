/* type.h: interned types; equal types are equal pointers within a session. */
#pragma once
#include "ir/support/session.h"

enum { TILE_MAX_RANK = 8 };

typedef enum DType {
#define DTYPE(ID, name, bits, kind) DT_##ID,
#include "ir/type.def"
#undef DTYPE
    DT_COUNT
} DType;

typedef enum TypeKind {
    TYPE_SCALAR,  /* f32 */
    TYPE_TILE,    /* f32[128, 64], in kernel IR with a layout: f32[128, 64]@#mma<...> */
    TYPE_TENSOR,  /* tensor<f16, 4>: a kernel argument; extents and strides are dynamic */
    TYPE_TOKEN,   /* memory order */
    TYPE_SHARED,  /* kernel IR: shared<f16[3, 128, 64]@#swizzle<128>>, a shared-memory buffer */
    TYPE_BARRIER, /* kernel IR: barrier<n>, an array of n mbarriers */
    TYPE_ERROR,   /* the error type of the front end; it never occurs in a module that verifies */
} TypeKind;

struct Type {
    TypeKind kind;
    DType dtype;
    int rank;                     /* tile, tensor, shared, barrier (1) */
    int64_t shape[TILE_MAX_RANK]; /* tile, shared, barrier */
    const char *layout;           /* interned text of the layout (ir/layout/layout.h parses it), or NULL */
};

/* A table with the same types, which others do not join. */
TypeTable *type_table_copy(Session *, const TypeTable *);
const Type *type_scalar(Session *, DType);
const Type *type_tile(Session *, DType, int rank, const int64_t *shape);
const Type *type_tensor(Session *, DType, int rank);
const Type *type_token(Session *);
const Type *type_error(Session *);
const Type *type_shared(Session *, DType, int rank, const int64_t *shape, const char *layout);
const Type *type_barrier(Session *, int64_t n);
/* Same shape (or scalar), other dtype; keeps the layout. */
const Type *type_with_dtype(Session *, const Type *, DType);
const Type *type_with_layout(Session *, const Type *, const char *layout);
/* A tile of `shape`, or the scalar for rank 0. */
const Type *type_value(Session *, DType, int rank, const int64_t *shape);

int64_t type_elements(const Type *); /* 1 for a scalar */
bool type_same_shape(const Type *, const Type *);
static inline bool type_is_value(const Type *t) { return t->kind == TYPE_SCALAR || t->kind == TYPE_TILE; }
void type_print(const Type *, Text *);
const char *type_string(Session *, const Type *);
/* The extents of a tile from an axis on, "64 x 128"; 1 if there are none. */
const char *type_extents(Session *, const Type *, int from);

/* What ir/type.def says, inline: every pass asks these of most values. */
typedef struct DTypeInfo {
    const char *name;
    int bits;
    char kind;
} DTypeInfo;
extern const DTypeInfo dtype_info[DT_COUNT];

static inline const char *dtype_name(DType d) { return dtype_info[d].name; }
static inline int dtype_bits(DType d) { return dtype_info[d].bits; }
static inline int dtype_bytes(DType d) { return dtype_bits(d) / 8; }
static inline bool dtype_is_float(DType d) { return dtype_info[d].kind == 'F'; }
static inline bool dtype_is_signed(DType d) { return dtype_info[d].kind == 'S'; }
/* signed, unsigned or index; not bool */
static inline bool dtype_is_int(DType d) { return dtype_info[d].kind == 'S' || dtype_info[d].kind == 'U'; }
bool dtype_parse(const char *, size_t len, DType *);

/* ast.h: the syntax tree. One node type for all: a kind (ast.def), a name, a value and children, so that
 * printing, name resolution and the analyses are plain walks. Built by parser.y, lives in the session's
 * arena, is never changed afterwards, but for hints that are called by a former name (former.c) and the
 * defaults of `auto` constants (auto.c). */
#pragma once
#include "frontend/frontend.h"
#include "frontend/check/names.h"

typedef enum NodeKind {
#define NODE(ID, name, doc) N_##ID,
#include "frontend/parse/ast.def"
    N_COUNT
} NodeKind;

/* The same kinds as separate enums: a switch over one of them has a case for each of its nodes, and ignores
 * nodes of the other kinds. */
#define NODE(...)
#define STATEMENT(...)
#define EXPRESSION(ID, ...) EXPR_##ID = N_##ID,
typedef enum ExpressionKind {
#include "frontend/parse/ast.def"
} ExpressionKind;
#define NODE(...)
#define EXPRESSION(...)
#define STATEMENT(ID, ...) STMT_##ID = N_##ID,
typedef enum StatementKind {
#include "frontend/parse/ast.def"
} StatementKind;

typedef enum Operator {
    OPR_NONE,
    OPR_NEG,
    OPR_PLUS,
    OPR_NOT,
    OPR_BITNOT,
    OPR_ADD,
    OPR_SUB,
    OPR_MUL,
    OPR_DIV,
    OPR_REM,
    OPR_SHL,
    OPR_SHR,
    OPR_AND,
    OPR_OR,
    OPR_XOR,
    OPR_LAND,
    OPR_LOR,
    OPR_EQ,
    OPR_NE,
    OPR_LT,
    OPR_LE,
    OPR_GT,
    OPR_GE,
} Operator;
const char *ast_operator_text(Operator);

enum { IO_IN, IO_OUT, IO_INOUT };

/* Limits of the front end; each has its own message. */
enum {
    LIMIT_SOURCE = 4 << 20, /* bytes of one source */
    LIMIT_NAME = 255,       /* characters */
    LIMIT_NESTING = 400,    /* height of the syntax tree above any leaf */
    LIMIT_BRACKETS = 200,   /* open (, [ and { at one place */
    LIMIT_IMPORTS = 64,     /* files */
    LIMIT_IMPORT_DEPTH = 16,
    LIMIT_BLOCKS = 100,     /* nested loops and ifs, where early returns and called functions count too */
    LIMIT_CARRIED = 1024,   /* variables assigned in one loop */
    LIMIT_CALLS = 32,       /* fn calls inside fn calls */
    LIMIT_UNROLL = 4096,    /* iterations of one `const for` */
    LIMIT_GROWTH = 1024,    /* IR instructions of a `const for` that can be a loop as well */
    LIMIT_ARRAY = 64,       /* elements of an array of variables */
    LIMIT_TABLE = 256,      /* entries of a table of constants */
    LIMIT_INSTRS = 1 << 18, /* IR instructions of one kernel */
    LIMIT_STEPS = 1 << 20,  /* syntax nodes elaborated for one kernel */
    LIMIT_TILE_ELEMENTS = 1 << 20,
    LIMIT_TILE_BYTES = 4 << 20,
    LIMIT_PARAMS = 64,         /* of a fn */
    LIMIT_KERNEL_PARAMS = 256, /* of a kernel, the same as of a launch */
    LIMIT_FUNCTIONS = 4096,    /* specializations of functions in one module; further calls are expanded */
    LIMIT_RECURSION =
        1500, /* levels of expressions, statements and called functions: about a megabyte of stack */
    LIMIT_WALK = 1 << 24, /* nodes walked while looking for the keys of all kernels */
    LIMIT_TUNE_CONFIGS = 1 << 24,
};

typedef struct Node Node;
struct Node {
    uint8_t kind, op;
    uint16_t height; /* 1 for a leaf */
    uint32_t n;
    Loc loc;
    const char *name; /* interned, or NULL */
    Loc name_loc;
    union {
        uint64_t u;
        double f;
        const char *text2;
    };
    Node **kids;
};

static inline ExpressionKind ast_expression(const Node *n) { return (ExpressionKind)n->kind; }
static inline StatementKind ast_statement(const Node *n) { return (StatementKind)n->kind; }

/* A constructor's running list of children. */
typedef struct NodeList {
    Node **data;
    uint32_t len, cap;
} NodeList;

struct Ast {
    Session *session;
    VEC(Node *) files;            /* N_FILE, imports first, the main file last */
    VEC(Node *) items;            /* every item of every file, in that order */
    NameMap fns, kernels, consts; /* the first of each name */
    struct Program *program;      /* program.c; NULL until frontend_check */
};

const char *ast_node_name(NodeKind);

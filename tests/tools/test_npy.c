/* test_npy.c: the .npy reader and writer: every version and order, and each way in which a file can be wrong.
 */
#include "tests/unit/unit.h"
#include "tools/tilec/run/npy.h"
#include <stdlib.h>

typedef struct Bytes {
    char data[4096];
    size_t len;
} Bytes;

/* A file of `version` with this dictionary and `bytes` bytes of elements. */
static Bytes file_of(int version, const char *dict, size_t bytes)
{
    Bytes b = { 0 };
    size_t n = strlen(dict), head = version == 1 ? 10 : 12;
    memcpy(b.data, "\x93NUMPY", 6);
    b.data[6] = (char)version;
    b.data[8] = (char)(n & 255);
    b.data[9] = (char)(n >> 8);
    memcpy(b.data + head, dict, n);
    b.len = head + n + bytes;
    return b;
}

static const char *parse(const Bytes *b, Npy *npy)
{
    static char why[256];
    Arena a;
    jmp_buf oom;
    arena_init(&a, allocator_libc, &oom);
    if (setjmp(oom)) abort();
    /* Allocated with the exact size, so that a sanitizer detects a read beyond it. */
    char *exact = malloc(b->len ? b->len : 1);
    memcpy(exact, b->data, b->len);
    const char *reason = npy_parse(&a, exact, b->len, npy);
    snprintf(why, sizeof why, "%s", reason ? reason : "");
    free(exact);
    arena_free(&a);
    return why;
}

static const char *parse_dict(const char *dict, size_t bytes)
{
    Npy npy;
    Bytes b = file_of(1, dict, bytes);
    return parse(&b, &npy);
}

static void test_versions(void)
{
    for (int v = 1; v <= 3; v++) {
        Bytes b = file_of(v, "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }   \n", 24);
        Npy npy;
        CU_ASSERT_STRING_EQUAL(parse(&b, &npy), "");
        CU_ASSERT(npy.rank == 2 && npy.shape[0] == 2 && npy.shape[1] == 3 && npy.bytes == 24 && !npy.fortran);
        CU_ASSERT(npy.offset + npy.bytes == b.len);
        CU_ASSERT(npy_holds(&npy, DT_F32) && !npy_holds(&npy, DT_I32) && !npy_holds(&npy, DT_F64));
    }
    Bytes b = file_of(4, "{}", 0);
    Npy npy;
    CU_ASSERT_STRING_EQUAL(parse(&b, &npy), "it is of version 4.0 of the format; 1 to 3 are understood");
}

static void test_order(void)
{
    Bytes b = file_of(1, "{'shape': (2, 3, 4), 'fortran_order': True, 'descr': \"<u2\"}", 48);
    Npy npy;
    int64_t s[8];
    CU_ASSERT_STRING_EQUAL(parse(&b, &npy), "");
    npy_strides(&npy, s);
    CU_ASSERT(s[0] == 1 && s[1] == 2 && s[2] == 6);
    npy.fortran = false;
    npy_strides(&npy, s);
    CU_ASSERT(s[0] == 12 && s[1] == 4 && s[2] == 1);
    CU_ASSERT(npy_holds(&npy, DT_BF16) && npy_holds(&npy, DT_U16) && !npy_holds(&npy, DT_F16));
}

static void test_shapes(void)
{
    Npy npy;
    Bytes scalar = file_of(1, "{'descr': '<f8', 'fortran_order': False, 'shape': ()}", 8);
    CU_ASSERT_STRING_EQUAL(parse(&scalar, &npy), "");
    CU_ASSERT(npy.rank == 0 && npy.bytes == 8);
    Bytes empty =
        file_of(1, "{'descr': '<f8', 'fortran_order': False, 'shape': (0, 4611686018427387904, 9)}", 0);
    CU_ASSERT_STRING_EQUAL(parse(&empty, &npy), "");
    int64_t s[8];
    npy_strides(&npy, s);
    CU_ASSERT(npy.bytes == 0);
    Bytes old = file_of(1, "{'descr': '|i1', 'fortran_order': False, 'shape': (3L,)}", 3);
    CU_ASSERT_STRING_EQUAL(parse(&old, &npy), "");
    CU_ASSERT(npy.shape[0] == 3);
}

#define DICT(descr, shape) "{'descr': " descr ", 'fortran_order': False, 'shape': " shape "}"

static void test_faults(void)
{
    CU_ASSERT_STRING_EQUAL(parse_dict(DICT("'<f4'", "(2,)"), 7),
        "it is cut off: its shape wants 8 bytes of elements, 7 are there");
    CU_ASSERT_STRING_EQUAL(parse_dict(DICT("'<f4'", "(2,)"), 10), "2 bytes follow its last element");
    CU_ASSERT_STRING_EQUAL(parse_dict(DICT("'>f4'", "(2,)"), 8),
        "it is big-endian; save it with array.astype(array.dtype.newbyteorder('<'))");
    CU_ASSERT_STRING_EQUAL(
        parse_dict(DICT("'<c8'", "(2,)"), 16), "elements of type `<c8` have no counterpart");
    CU_ASSERT_STRING_EQUAL(parse_dict(DICT("'|O'", "(2,)"), 16), "its element type `|O` is not understood");
    CU_ASSERT_STRING_EQUAL(
        parse_dict(DICT("[('a', '<f4')]", "(2,)"), 8), "its elements are records; save one field");
    CU_ASSERT_STRING_EQUAL(
        parse_dict(DICT("'<f4'", "(-2,)"), 8), "its shape holds something that is no extent");
    CU_ASSERT_STRING_EQUAL(parse_dict(DICT("'<f4'", "(99999999999999999999,)"), 8),
        "its shape holds something that is no extent");
    CU_ASSERT_STRING_EQUAL(parse_dict(DICT("'<f4'", "(4294967296,4294967296)"), 8),
        "its shape has more elements than fit into memory");
    CU_ASSERT_STRING_EQUAL(parse_dict(DICT("'<f4'", "(1,1,1,1,1,1,1,1,1)"), 4), "it has more than 8 axes");
    CU_ASSERT_STRING_EQUAL(parse_dict(DICT("'<f4'", "(1"), 4), "its shape is not closed");
    CU_ASSERT_STRING_EQUAL(parse_dict(DICT("'<f4'", "7"), 28), "its shape is no tuple");
    CU_ASSERT_STRING_EQUAL(parse_dict("{'descr': '<f4', 'shape': (1,)}", 4),
        "its header lacks one of descr, fortran_order, shape");
    CU_ASSERT_STRING_EQUAL(
        parse_dict("{'descr': '<f4', 'descr': '<f4'}", 4), "its header has the key `descr` twice");
    CU_ASSERT_STRING_EQUAL(parse_dict("{'colour': '<f4'}", 4), "its header has an unknown key");
    CU_ASSERT_STRING_EQUAL(parse_dict("[1, 2]", 4), "its header is no dictionary");
    Npy npy;
    Bytes text = { "hello, world", 12 }, empty = { { 0 }, 0 };
    CU_ASSERT_STRING_EQUAL(parse(&text, &npy), "it is no .npy file");
    CU_ASSERT_STRING_EQUAL(parse(&empty, &npy), "it is no .npy file");
}

/* Cut off after any byte, a file is refused and nothing behind its end is read. */
static void test_truncation(void)
{
    Bytes whole = file_of(2, DICT("'<f4'", "(2, 3)"), 24);
    for (size_t n = 0; n < whole.len; n++) {
        Bytes b = whole;
        Npy npy;
        b.len = n;
        CU_ASSERT_STRING_NOT_EQUAL(parse(&b, &npy), "");
    }
}

static void test_round_trip(void)
{
    Arena a;
    jmp_buf oom;
    arena_init(&a, allocator_libc, &oom);
    if (setjmp(oom)) abort();
    static const int64_t shape[8] = { 2, 1, 3, 1, 1, 2, 1, 1 };
    for (int d = 0; d < DT_COUNT; d++)
        for (int rank = 0; rank <= 8; rank++) {
            Bytes b;
            Npy npy;
            size_t bytes = (size_t)(npy_descr((DType)d)[2] - '0'), n;
            for (int i = 0; i < rank; i++) bytes *= (size_t)shape[i];
            const char *head = npy_header(&a, (DType)d, rank, shape, &n);
            CU_ASSERT(n % 64 == 0);
            memcpy(b.data, head, n);
            memset(b.data + n, 0, bytes);
            b.len = n + bytes;
            CU_ASSERT_STRING_EQUAL(parse(&b, &npy), "");
            CU_ASSERT(npy.rank == rank && !memcmp(npy.shape, shape, sizeof *shape * (size_t)rank) &&
                      npy.offset == n);
            CU_ASSERT(npy_holds(&npy, (DType)d));
        }
    arena_free(&a);
}

UNIT_MAIN("npy", { "versions", test_versions }, { "order", test_order }, { "shapes", test_shapes },
    { "faults", test_faults }, { "truncation", test_truncation }, { "round_trip", test_round_trip })

/* test_elf.c: objects put together by elf.c load into a linker and run; damaged ones are refused, whatever is
 * wrong with them. */
#include "tests/unit/unit.h"
#include "tools/tilec/compile/elf.h"
#include "tools/tilec/compile/embed.h"
#include <elf.h>
#include <stdlib.h>

static Arena arena;
static jmp_buf oom;

static Elf *fresh(void)
{
    arena_init(&arena, allocator_libc, &oom);
    if (setjmp(oom)) abort();
    return elf_new(&arena);
}

static size_t launcher_size(void) { return (size_t)(launch_object_end - launch_object); }

static void test_symbols(void)
{
    static const char *const local[] = { "tile_aot_launch", NULL };
    Elf *e = fresh();
    size_t n;
    CU_ASSERT_PTR_NULL(elf_add_object(e, launch_object, launcher_size(), local));
    CU_ASSERT_PTR_NULL(elf_add_alias(e, "a__launch", "tile_aot_launch"));
    CU_ASSERT_PTR_NULL(elf_add_data(e, "a__plan", "12345678", 8, NULL, 0));
    CU_ASSERT_PTR_NULL(elf_add_data(e, "a__entries", "12345678", 8, &(ElfReloc){ 0, "a__kernel" }, 1));
    CU_ASSERT_STRING_EQUAL(
        elf_add_data(e, "a__plan", "12345678", 8, NULL, 0), "symbol `a__plan` is defined twice");
    CU_ASSERT_STRING_EQUAL(elf_add_alias(e, "b", "nothing"), "there is no symbol `nothing`");
    const char *bytes = elf_write(e, &n);
    Elf *again = elf_new(&arena);
    CU_ASSERT_PTR_NULL(elf_add_object(again, bytes, n, NULL)); /* it reads what it writes */
    CU_ASSERT_STRING_EQUAL(elf_add_alias(again, "x", "gone"), "there is no symbol `gone`");
    CU_ASSERT_PTR_NULL(elf_add_alias(again, "x", "a__launch"));
    CU_ASSERT_PTR_NULL(elf_add_alias(again, "y", "a__kernel")); /* undefined, but known */
    arena_free(&arena);
}

/* Every byte of the headers and tables set to 0, 1, 127 and 255 in turn, and every shorter length: no read
 * outside (a sanitizer watches), and an answer. */
static void test_damage(void)
{
    size_t n = launcher_size();
    for (size_t len = 0; len < n; len += len < 128 ? 1 : 61) {
        Elf *e = fresh();
        char *copy = malloc(len + !len);
        memcpy(copy, launch_object, len);
        CU_ASSERT_PTR_NOT_NULL(elf_add_object(e, copy, len, NULL));
        free(copy);
        arena_free(&arena);
    }
    for (size_t at = 0; at < n; at += at < 64 || at > n - 2048 ? 1 : 97) {
        static const unsigned char values[] = { 0, 1, 127, 255 };
        for (int v = 0; v < 4; v++) {
            Elf *e = fresh();
            char *copy = malloc(n);
            size_t size;
            memcpy(copy, launch_object, n);
            copy[at] = (char)values[v];
            if (!elf_add_object(e, copy, n, NULL)) CU_ASSERT_PTR_NOT_NULL(elf_write(e, &size));
            free(copy);
            arena_free(&arena);
        }
    }
}

UNIT_MAIN("elf", { "symbols", test_symbols }, { "damage", test_damage })

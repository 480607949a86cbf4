/* identity.c: what the code of this backend depends on besides the module and the options, as text for the
 * key of the disk cache: LLVM's library and the processor. LLVM is not asked, because a kernel that the cache
 * has is to run without opening its library. */
#include "backends/cpu/cpu.h"
#include "ir/target/cpu_level.h"
#include <llvm/Config/llvm-config.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>
#if defined(__x86_64__)
#include <cpuid.h>
#endif

/* The library by its file, which another version of LLVM replaces. */
static void library_identity(Text *t)
{
    struct stat file;
    text_printf(t, "llvm %s", LLVM_VERSION_STRING);
    if (&llvm_linked) return;
    const char *name = llvm_file();
    text_printf(t, ", %s", name);
    if (!stat(name, &file))
        text_printf(t, " %lld %lld.%ld", (long long)file.st_size, (long long)file.st_mtim.tv_sec,
            (long)file.st_mtim.tv_nsec);
}

#if defined(__x86_64__)
/* The leaves of cpuid by which LLVM knows a processor and its features, and the registers that are the same
 * on each of its cores. */
enum { EAX = 1, EBX = 2, ECX = 4, EDX = 8 };
static const struct {
    unsigned leaf, part, registers;
} leaves[] = {
    { 0, 0, EAX | EBX | ECX | EDX },
    { 1, 0, EAX | ECX | EDX },
    { 7, 0, EAX | EBX | ECX | EDX },
    { 7, 1, EAX | EBX | ECX | EDX },
    { 0xd, 1, EAX },
    { 0x14, 0, EBX },
    { 0x19, 0, EBX },
    { 0x1e, 1, EAX },
    { 0x24, 0, EBX },
    { 0x80000001, 0, ECX | EDX },
    { 0x80000008, 0, EBX },
};

static bool processor_identity(Text *t)
{
    enum {
        SAVES_STATE = 1 << 27
    }; /* of leaf 1: the operating system says by xgetbv which registers it saves */
    for (size_t i = 0; i < sizeof leaves / sizeof *leaves; i++) {
        unsigned r[4] = { 0 }, low = 0, high;
        if (!__get_cpuid_count(leaves[i].leaf, leaves[i].part, &r[0], &r[1], &r[2], &r[3])) continue;
        text_puts(t, ",");
        for (int k = 0; k < 4; k++)
            if (leaves[i].registers >> k & 1) text_printf(t, " %x", r[k]);
        if (leaves[i].leaf == 1 && r[2] & SAVES_STATE) {
            __asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
            text_printf(t, " %x", low);
        }
    }
    return true;
}
#else
static bool processor_identity(Text *t) { return false; }
#endif

const char *cpu_identity(Session *s, const BackendOptions *o, const Target *target)
{
    Text t;
    const char *level = getenv("TILE_CPU_LEVEL"), *refused;
    text_init(&t, &s->arena);
    library_identity(&t);
    text_printf(&t, "; %s, %s, %s", target->triple ? target->triple : "", o->cpu ? o->cpu : "",
        o->features ? o->features : "");
    if (!cpu_is_host(o, target)) return t.data;
    cpu_caches(&t);
    /* The system may refuse AMX now, and may have allowed it when a kernel was kept. */
    refused = amx_permission();
    text_printf(&t, "; %s, %s", level ? level : "", refused ? refused : "AMX");
    return processor_identity(&t) ? t.data : NULL;
}

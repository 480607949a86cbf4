/* use.c: what code for the CPU takes of a processor, for `tilec explain`: LLVM's warning of stack sizes, the
 * remark of its register allocator, and the vector registers that the assembly names. At -O0 another
 * allocator is at work, which makes no remarks. */
#include "backends/cpu/llvm/use.h"
#include <pthread.h>
#include <stdlib.h>

/* LLVM has no other switch for remarks than its command line. It holds for the process; without a handler a
 * context prints them, so that every compilation needs one afterwards. */
static void ask_for_remarks(void)
{
    static const char *const options[] = { "tile", "-pass-remarks-missed=regalloc" };
    LLVMParseCommandLineOptions(2, options, NULL);
}

/* The number before the words; 0: the text has no such words. */
static long long number_before(const char *text, const char *words)
{
    const char *end = strstr(text, words);
    if (!end) return 0;
    while (end > text && end[-1] >= '0' && end[-1] <= '9') end--;
    return strtoll(end, NULL, 10);
}

static void take_message(LLVMDiagnosticInfoRef info, void *user)
{
    CpuUse *use = user;
    char *text = LLVMGetDiagInfoDescription(info);
    const char *size = strstr(text, "stack frame size (");
    if (size) {
        long long bytes = strtoll(size + sizeof "stack frame size (" - 1, NULL, 10);
        if (bytes > use->stack_bytes) use->stack_bytes = bytes;
    } else if (strstr(text, "generated in function")) {
        use->spills += number_before(text, " spills ");
        use->reloads += number_before(text, " reloads ") + number_before(text, " folded reloads ");
    }
    LLVMDisposeMessage(text);
}

void cpu_use_begin(LLVMContextRef ctx, LLVMModuleRef m, CpuUse *use)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, ask_for_remarks);
    *use = (CpuUse){ 0 };
    LLVMContextSetDiagnosticHandler(ctx, take_message, use);
    LLVMAttributeRef size = LLVMCreateStringAttribute(ctx, "warn-stack-size", 15, "0", 1);
    for (LLVMValueRef fn = LLVMGetFirstFunction(m); fn; fn = LLVMGetNextFunction(fn))
        if (!LLVMIsDeclaration(fn))
            LLVMAddAttributeAtIndex(fn, (LLVMAttributeIndex)LLVMAttributeFunctionIndex, size);
}

/* The number of the vector register whose name begins there, or -1: "%ymm13", "v7.4s", "q31", "s0". */
static int register_at(const char *p, bool arm)
{
    char *end;
    if (arm ? !strchr("vqdshb", *p) : strncmp(p, "%xmm", 4) && strncmp(p, "%ymm", 4) && strncmp(p, "%zmm", 4))
        return -1;
    p += arm ? 1 : 4;
    if (*p < '0' || *p > '9') return -1;
    long n = strtol(p, &end, 10);
    return n < 32 ? (int)n : -1;
}

static bool in_name(char c)
{ return c == '_' || (c >= '0' && c <= '9') || ((c | 32) >= 'a' && (c | 32) <= 'z'); }

/* Instructions stand behind a tab, and directives behind a tab and a dot; labels, such as a kernel's name, do
 * not. */
void cpu_use_registers(const CpuTarget *t, const char *assembly, CpuUse *use)
{
    uint32_t seen = 0;
    for (const char *line = assembly; *line; line += strcspn(line, "\n"), line += *line == '\n') {
        if (line[0] != '\t' || line[1] == '.') continue;
        for (const char *p = line + 1; *p && *p != '\n'; p++) {
            int n = in_name(p[-1]) ? -1 : register_at(p, t->arm);
            if (n >= 0) seen |= 1u << n;
        }
    }
    use->vector_registers = __builtin_popcount(seen);
    use->vector_registers_had = t->n_vector_regs;
    use->vector_bytes = t->vector_bytes;
}

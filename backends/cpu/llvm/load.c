/* load.c: links an object of this backend into the process. The objects are simple (ELF, a handful of
 * sections and relocation kinds; relocate.c), so this takes some 50 us where a general JIT linker takes
 * milliseconds. With debug information the object is shown to gdb through its JIT interface. */
#include "backends/cpu/llvm/load.h"
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

/* gdb's JIT interface (GDB manual, "JIT Compilation Interface"): it puts a breakpoint on the function and
 * reads the list. The names and the list are the debugger's protocol. */
typedef struct jit_code_entry {
    struct jit_code_entry *next_entry, *prev_entry;
    const char *symfile_addr;
    uint64_t symfile_size;
} jit_code_entry;
struct jit_descriptor {
    uint32_t version, action_flag;
    jit_code_entry *relevant_entry, *first_entry;
};
void __jit_debug_register_code(void);
extern struct jit_descriptor __jit_debug_descriptor;
__attribute__((weak, noinline, visibility("default"))) void __jit_debug_register_code(void)
{ __asm__ volatile("" ::: "memory"); }
__attribute__((weak, visibility("default"))) struct jit_descriptor __jit_debug_descriptor = { 1, 0, NULL,
    NULL };
static pthread_mutex_t gdb_lock = PTHREAD_MUTEX_INITIALIZER;

struct CpuModule {
    char *memory;
    size_t size;
    char *image; /* the object with its addresses filled in, for gdb; NULL without debug information */
    jit_code_entry gdb;
};

typedef struct Loader {
    const unsigned char *obj;
    size_t size;
    const Elf64_Ehdr *eh;
    Elf64_Shdr *sections; /* copy, sh_addr filled in */
    char *memory;
    Stubs stubs;
    size_t capacity, text_end;
    char *err;
    size_t err_size;
} Loader;

#if defined(__aarch64__)
enum { OWN_MACHINE = EM_AARCH64 };
#else
enum { OWN_MACHINE = EM_X86_64 };
#endif

static bool fail(Loader *l, const char *what, const char *name)
{
    format_text(l->err, l->err_size, "%s%s%s", what, name ? ": " : "", name ? name : "");
    return false;
}

static bool in_file(const Loader *l, uint64_t offset, uint64_t size)
{ return offset <= l->size && size <= l->size - offset; }

static bool check_header(Loader *l)
{
    if (l->size < sizeof *l->eh || memcmp(l->eh->e_ident, ELFMAG, SELFMAG))
        return fail(l, "not an ELF object", NULL);
    if (l->eh->e_ident[EI_CLASS] != ELFCLASS64 || l->eh->e_machine != OWN_MACHINE || l->eh->e_type != ET_REL)
        return fail(l, "not an object for this machine", NULL);
    if (l->eh->e_shentsize != sizeof(Elf64_Shdr) || l->eh->e_shnum < 1 || l->eh->e_shoff % 8 ||
        !in_file(l, l->eh->e_shoff, (uint64_t)l->eh->e_shnum * sizeof(Elf64_Shdr)))
        return fail(l, "damaged object", NULL);
    return true;
}

static size_t align_up(size_t x, size_t a) { return (x + a - 1) / a * a; }

/* Code first, then, on a page of its own, data; room for jumps to far functions at the end of the code. */
enum { MAX_STUBS = 64 };

static bool place_sections(Loader *l, bool commit)
{
    size_t at = 0, page = (size_t)sysconf(_SC_PAGESIZE);
    for (int pass = 0; pass < 2; pass++) {
        for (int k = 0; k < l->eh->e_shnum; k++) {
            Elf64_Shdr *s = &l->sections[k];
            bool exec = s->sh_flags & SHF_EXECINSTR;
            if (!(s->sh_flags & SHF_ALLOC) || exec != (pass == 0)) continue;
            if (s->sh_type != SHT_NOBITS && !in_file(l, s->sh_offset, s->sh_size))
                return fail(l, "damaged object", NULL);
            if (s->sh_size > 1u << 30 || s->sh_addralign > 4096) return fail(l, "damaged object", NULL);
            at = align_up(at, s->sh_addralign ? s->sh_addralign : 1);
            if (commit) {
                s->sh_addr = (uint64_t)(uintptr_t)(l->memory + at);
                if (s->sh_type != SHT_NOBITS) memcpy(l->memory + at, l->obj + s->sh_offset, s->sh_size);
            }
            at += s->sh_size;
        }
        if (pass == 0) {
            at = align_up(at, STUB_BYTES);
            if (commit) l->stubs.at = l->stubs.used = l->memory + at;
            at = align_up(at + STUB_BYTES * MAX_STUBS, page);
            l->text_end = at;
            if (commit) l->stubs.end = l->memory + at;
        }
    }
    l->capacity = align_up(at + 1, page);
    return true;
}

typedef struct Symbols {
    const Elf64_Sym *v;
    size_t n;
    const char *names;
    size_t names_size;
} Symbols;

static const char *symbol_name(const Symbols *s, const Elf64_Sym *y)
{ return y->st_name < s->names_size ? s->names + y->st_name : ""; }

/* Code for an x86-64 without F16C calls libgcc's conversions of f16, which a process in C need not have. */
static void *find_function(const char *name)
{
    void *p = dlsym(RTLD_DEFAULT, name), *libgcc;
    if (p || !(libgcc = dlopen("libgcc_s.so.1", RTLD_LAZY | RTLD_LOCAL))) return p;
    return dlsym(libgcc, name);
}

static bool symbol_address(Loader *l, const Symbols *s, size_t index, uint64_t *out)
{
    if (index >= s->n) return fail(l, "damaged object", NULL);
    const Elf64_Sym *y = &s->v[index];
    if (y->st_shndx == SHN_ABS) {
        *out = y->st_value;
        return true;
    }
    if (y->st_shndx == SHN_UNDEF) {
        void *p = find_function(symbol_name(s, y));
        if (!p) return fail(l, "undefined symbol", symbol_name(s, y));
        *out = (uint64_t)(uintptr_t)p;
        return true;
    }
    if (y->st_shndx >= l->eh->e_shnum) return fail(l, "damaged object", NULL);
    *out = l->sections[y->st_shndx].sh_addr + y->st_value;
    return true;
}

static bool relocate_one(Loader *l, const Symbols *s, const Elf64_Rela *r, const Elf64_Shdr *to,
    unsigned char *base, uint64_t place_base)
{
    Relocation x = { .type = ELF64_R_TYPE(r->r_info),
        .where = base + r->r_offset,
        .place = place_base + r->r_offset,
        .addend = r->r_addend };
    size_t width = load_width(l->eh->e_machine, x.type);
    if (!width) return true;
    if (r->r_offset > to->sh_size || width > to->sh_size - r->r_offset)
        return fail(l, "damaged object", NULL);
    if (!symbol_address(l, s, ELF64_R_SYM(r->r_info), &x.symbol)) return false;
    const char *why = load_relocate(l->eh->e_machine, &l->stubs, &x);
    return !why || fail(l, why, NULL);
}

static bool relocate_all(Loader *l, const Symbols *s, char *image)
{
    for (int k = 0; k < l->eh->e_shnum; k++) {
        const Elf64_Shdr *r = &l->sections[k];
        if (r->sh_type != SHT_RELA || r->sh_info >= l->eh->e_shnum) continue;
        const Elf64_Shdr *to = &l->sections[r->sh_info];
        bool alloc = to->sh_flags & SHF_ALLOC;
        if ((!alloc && !image) || to->sh_type == SHT_NOBITS) continue;
        if (!in_file(l, r->sh_offset, r->sh_size) || !in_file(l, to->sh_offset, to->sh_size) ||
            r->sh_offset % 8)
            return fail(l, "damaged object", NULL);
        unsigned char *base =
            alloc ? (unsigned char *)(uintptr_t)to->sh_addr : (unsigned char *)image + to->sh_offset;
        const Elf64_Rela *v = (const Elf64_Rela *)(l->obj + r->sh_offset);
        for (size_t i = 0; i < r->sh_size / sizeof *v; i++)
            if (!relocate_one(l, s, &v[i], to, base, alloc ? to->sh_addr : 0)) return false;
    }
    return true;
}

static bool find_symbols(Loader *l, Symbols *s)
{
    for (int k = 0; k < l->eh->e_shnum; k++) {
        const Elf64_Shdr *t = &l->sections[k];
        if (t->sh_type != SHT_SYMTAB) continue;
        if (t->sh_link >= l->eh->e_shnum || t->sh_offset % 8 || !in_file(l, t->sh_offset, t->sh_size)) break;
        const Elf64_Shdr *names = &l->sections[t->sh_link];
        if (!in_file(l, names->sh_offset, names->sh_size) || names->sh_size == 0 ||
            l->obj[names->sh_offset + names->sh_size - 1])
            break;
        *s = (Symbols){ (const Elf64_Sym *)(l->obj + t->sh_offset), t->sh_size / sizeof(Elf64_Sym),
            (const char *)l->obj + names->sh_offset, names->sh_size };
        return true;
    }
    return fail(l, "damaged object", NULL);
}

static bool has_debug_info(const Loader *l)
{
    const Elf64_Shdr *names = l->eh->e_shstrndx < l->eh->e_shnum ? &l->sections[l->eh->e_shstrndx] : NULL;
    if (!names || !in_file(l, names->sh_offset, names->sh_size)) return false;
    static const char want[] = ".debug_line";
    for (int k = 0; k < l->eh->e_shnum; k++)
        if (l->sections[k].sh_name + sizeof want <= names->sh_size &&
            !memcmp(l->obj + names->sh_offset + l->sections[k].sh_name, want, sizeof want))
            return true;
    return false;
}

static void tell_gdb(CpuModule *m, uint32_t action)
{
    pthread_mutex_lock(&gdb_lock);
    jit_code_entry *e = &m->gdb;
    if (action == 1) {
        e->next_entry = __jit_debug_descriptor.first_entry;
        e->prev_entry = NULL;
        if (e->next_entry) e->next_entry->prev_entry = e;
        __jit_debug_descriptor.first_entry = e;
    } else {
        if (e->prev_entry) e->prev_entry->next_entry = e->next_entry;
        else __jit_debug_descriptor.first_entry = e->next_entry;
        if (e->next_entry) e->next_entry->prev_entry = e->prev_entry;
    }
    __jit_debug_descriptor.relevant_entry = e;
    __jit_debug_descriptor.action_flag = action;
    __jit_debug_register_code();
    __jit_debug_descriptor.action_flag = 0;
    pthread_mutex_unlock(&gdb_lock);
}

void cpu_unload(CpuModule *m)
{
    if (!m) return;
    if (m->image) tell_gdb(m, 2);
    if (m->memory) munmap(m->memory, m->size);
    free(m->image);
    free(m);
}

static bool load(Loader *l, CpuModule *m, const char *entry, CpuKernelFn **fn)
{
    Symbols s;
    uint64_t address = 0;
    if (!find_symbols(l, &s) || !place_sections(l, false)) return false;
    l->memory = mmap(NULL, l->capacity, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (l->memory == MAP_FAILED) {
        l->memory = NULL;
        return fail(l, "out of memory", NULL);
    }
    m->memory = l->memory;
    m->size = l->capacity;
    if (!place_sections(l, true)) return false;
    if (has_debug_info(l)) {
        m->image = malloc(l->size);
        if (!m->image) return fail(l, "out of memory", NULL);
        memcpy(m->image, l->obj, l->size);
        memcpy(m->image + l->eh->e_shoff, l->sections, l->eh->e_shnum * sizeof *l->sections);
    }
    char *image = m->image;
    if (!relocate_all(l, &s, image)) {
        free(m->image);
        m->image = NULL;
        return false;
    }
    for (size_t k = 0; k < s.n && !address; k++)
        if (!strcmp(symbol_name(&s, &s.v[k]), entry) && s.v[k].st_shndx != SHN_UNDEF &&
            !symbol_address(l, &s, k, &address))
            return false;
    if (!address) return fail(l, "no such entry", entry);
    __builtin___clear_cache(l->memory, l->memory + l->text_end);
    if (mprotect(l->memory, l->text_end, PROT_READ | PROT_EXEC))
        return fail(l, "memory cannot be made executable", NULL);
    *fn = (CpuKernelFn *)(uintptr_t)address;
    if (m->image) {
        m->gdb.symfile_addr = m->image;
        m->gdb.symfile_size = l->size;
        tell_gdb(m, 1);
    }
    return true;
}

CpuModule *cpu_load(
    const void *object, size_t size, const char *entry, CpuKernelFn **fn, char *err, size_t err_size)
{
    Loader l = { .obj = object, .size = size, .eh = object, .err = err, .err_size = err_size };
    if ((uintptr_t)object % 8) {
        fail(&l, "object is not aligned", NULL);
        return NULL;
    }
    if (!check_header(&l)) return NULL;
    size_t bytes = l.eh->e_shnum * sizeof *l.sections;
    CpuModule *m = calloc(1, sizeof *m);
    l.sections = malloc(bytes);
    bool ok = m && l.sections;
    if (ok) {
        memcpy(l.sections, l.obj + l.eh->e_shoff, bytes);
        for (int k = 0; k < l.eh->e_shnum; k++) l.sections[k].sh_addr = 0;
        ok = load(&l, m, entry, fn);
    } else {
        fail(&l, "out of memory", NULL);
    }
    free(l.sections);
    if (ok) return m;
    if (m) cpu_unload(m);
    return NULL;
}

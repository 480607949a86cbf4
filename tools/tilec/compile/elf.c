/* elf.c: see elf.h. Formats: System V ABI, chapters 4 and 5 (gabi); relocation numbers: psABI of x86-64 and
 * of AArch64. */
#include "tools/tilec/compile/elf.h"
#include <elf.h>
#include <stdio.h>

typedef struct Section {
    const char *name;
    Elf64_Shdr h;
    const void *data;
    int target;
} Section; /* target: of a RELA section */
typedef struct Symbol {
    const char *name;
    Elf64_Sym s;
} Symbol;

struct Elf {
    Arena *arena;
    VEC(Section) sections; /* [0] is the null section */
    VEC(Symbol) symbols;   /* [0] is the null symbol; in order of appearance until elf_write sorts them */
    Elf64_Half machine;
    Elf64_Word flags;
};

Elf *elf_new(Arena *a)
{
    Elf *e = arena_new(a, Elf);
    e->arena = a;
    vec_push(a, &e->sections, ((Section){ .name = "" }));
    vec_push(a, &e->symbols, ((Symbol){ .name = "" }));
    return e;
}

/* --- reading ----------------------------------------------------------------------------------------- */

typedef struct In {
    Elf *e;
    const char *bytes;
    size_t size;
    Elf64_Ehdr h;
    Elf64_Shdr *sh;
    int *section; /* old index -> new index; 0: the symbol is left out */
    uint32_t *symbol;
    const char *const *local;
    const ElfName *names;
} In;

static bool inside(const In *in, uint64_t offset, uint64_t n)
{ return offset <= in->size && n <= in->size - offset; }

static const char *text_at(const In *in, uint32_t table, uint64_t offset)
{
    if (table >= in->h.e_shnum) return NULL;
    const Elf64_Shdr *t = &in->sh[table];
    if (t->sh_type != SHT_STRTAB || offset >= t->sh_size || in->bytes[t->sh_offset + t->sh_size - 1])
        return NULL;
    return in->bytes + t->sh_offset + offset;
}

static const char *read_headers(In *in)
{
    if (in->size < sizeof in->h) return "not an object file";
    memcpy(&in->h, in->bytes, sizeof in->h);
    if (memcmp(in->h.e_ident, ELFMAG, SELFMAG) || in->h.e_ident[EI_CLASS] != ELFCLASS64 ||
        in->h.e_ident[EI_DATA] != ELFDATA2LSB || in->h.e_type != ET_REL)
        return "not a relocatable 64-bit object";
    if (in->h.e_shentsize != sizeof(Elf64_Shdr) ||
        !inside(in, in->h.e_shoff, (uint64_t)in->h.e_shnum * sizeof(Elf64_Shdr)))
        return "its section headers are cut off";
    in->sh = arena_array(in->e->arena, Elf64_Shdr, (size_t)in->h.e_shnum + 1);
    memcpy(in->sh, in->bytes + in->h.e_shoff, (size_t)in->h.e_shnum * sizeof(Elf64_Shdr));
    for (int i = 0; i < in->h.e_shnum; i++) {
        uint64_t align = in->sh[i].sh_addralign;
        if (in->sh[i].sh_type != SHT_NOBITS && !inside(in, in->sh[i].sh_offset, in->sh[i].sh_size))
            return "a section is cut off";
        if (align & (align - 1) || align > 1 << 16) return "a section's alignment makes no sense";
    }
    if (in->e->machine && in->e->machine != in->h.e_machine) return "objects for different machines";
    in->e->machine = in->h.e_machine;
    in->e->flags |= in->h.e_flags;
    return NULL;
}

/* Symbol tables and names are written anew; groups only matter between objects with templates; notes and
 * address tables are for whole objects. */
static bool is_copied(const Elf64_Shdr *h, const char *name)
{
    switch (h->sh_type) {
    case SHT_NULL:
    case SHT_SYMTAB:
    case SHT_STRTAB:
    case SHT_GROUP:
    case SHT_NOTE:
    case SHT_REL: return false;
    }
    return !(h->sh_flags & SHF_EXCLUDE) && h->sh_type != 0x6fff4c03 /* SHT_LLVM_ADDRSIG */ &&
           strcmp(name, ".note.GNU-stack") && strcmp(name, ".comment");
}

static const char *read_sections(In *in)
{
    Elf *e = in->e;
    in->section = arena_array(e->arena, int, (size_t)in->h.e_shnum + 1);
    for (int pass = 0; pass < 2; pass++) /* Relocations come after the sections that they relocate. */
        for (int i = 1; i < in->h.e_shnum; i++) {
            const Elf64_Shdr *h = &in->sh[i];
            const char *name = text_at(in, in->h.e_shstrndx, h->sh_name);
            if (!name) return "a section has no name";
            if ((h->sh_type == SHT_RELA) != pass || !is_copied(h, name)) continue;
            Section s = { arena_strdup(e->arena, name), *h,
                h->sh_type == SHT_NOBITS ? NULL : in->bytes + h->sh_offset, 0 };
            s.h.sh_flags &= ~(uint64_t)SHF_GROUP;
            if (pass) {
                if (h->sh_info >= in->h.e_shnum) return "a relocation section has no target";
                if (!(s.target = in->section[h->sh_info])) continue;
            }
            in->section[i] = (int)e->sections.len;
            vec_push(e->arena, &e->sections, s);
        }
    for (int i = 1; i < in->h.e_shnum; i++)
        if (in->section[i] && in->sh[i].sh_flags & SHF_LINK_ORDER && in->sh[i].sh_link < in->h.e_shnum)
            e->sections.data[in->section[i]].h.sh_link = (Elf64_Word)in->section[in->sh[i].sh_link];
    return NULL;
}

static uint32_t find_global(const Elf *e, const char *name)
{
    for (size_t i = 1; i < e->symbols.len; i++)
        if (ELF64_ST_BIND(e->symbols.data[i].s.st_info) != STB_LOCAL &&
            !strcmp(e->symbols.data[i].name, name))
            return (uint32_t)i;
    return 0;
}

/* A global symbol: fills an undefined one of that name, or is new. */
static const char *add_global(Elf *e, Symbol s, uint32_t *index)
{
    uint32_t old = find_global(e, s.name);
    *index = old;
    if (old && s.s.st_shndx == SHN_UNDEF) return NULL;
    if (old && e->symbols.data[old].s.st_shndx != SHN_UNDEF)
        return ELF64_ST_BIND(s.s.st_info) == STB_WEAK
                   ? NULL
                   : arena_printf(e->arena, "symbol `%s` is defined twice", s.name);
    if (old) e->symbols.data[old] = s;
    else {
        *index = (uint32_t)e->symbols.len;
        vec_push(e->arena, &e->symbols, s);
    }
    return NULL;
}

static bool listed(const char *const *list, const char *name)
{
    for (; list && *list; list++)
        if (!strcmp(*list, name)) return true;
    return false;
}

static const char *renamed(const ElfName *names, const char *name)
{
    for (; names && names->from; names++)
        if (!strcmp(names->from, name)) return names->to;
    return name;
}

static const char *read_symbol(In *in, const Elf64_Shdr *table, const Elf64_Sym *y, uint32_t *index)
{
    Elf *e = in->e;
    const char *name = text_at(in, table->sh_link, y->st_name);
    if (!name) return "a symbol has no name";
    Symbol s = { arena_strdup(e->arena, renamed(in->names, name)), *y };
    if (ELF64_ST_TYPE(y->st_info) == STT_FILE) return NULL;
    if (y->st_shndx != SHN_UNDEF && y->st_shndx < SHN_LORESERVE) {
        if (y->st_shndx >= in->h.e_shnum) return "a symbol lies outside of the sections";
        s.s.st_shndx = (Elf64_Section)in->section[y->st_shndx];
        if (!s.s.st_shndx) return NULL; /* of a section left out */
    }
    if (s.s.st_shndx != SHN_UNDEF && listed(in->local, name))
        s.s.st_info = ELF64_ST_INFO(STB_LOCAL, ELF64_ST_TYPE(y->st_info));
    if (ELF64_ST_BIND(s.s.st_info) != STB_LOCAL) return add_global(e, s, index);
    *index = (uint32_t)e->symbols.len;
    vec_push(e->arena, &e->symbols, s);
    return NULL;
}

static const char *read_symbols(In *in, const Elf64_Shdr *table)
{
    size_t n = table->sh_size / sizeof(Elf64_Sym);
    in->symbol = arena_array(in->e->arena, uint32_t, n + 1);
    for (size_t i = 1; i < n; i++) {
        Elf64_Sym y;
        memcpy(&y, in->bytes + table->sh_offset + i * sizeof y, sizeof y);
        const char *why = read_symbol(in, table, &y, &in->symbol[i]);
        if (why) return why;
    }
    return NULL;
}

/* Relocations of the sections just added name symbols by their number out. */
static const char *renumber(In *in, size_t n_symbols)
{
    for (int i = 1; i < in->h.e_shnum; i++) {
        if (!in->section[i] || in->sh[i].sh_type != SHT_RELA) continue;
        size_t n = in->sh[i].sh_size / sizeof(Elf64_Rela);
        Elf64_Rela *r = arena_array(in->e->arena, Elf64_Rela, n + 1);
        memcpy(r, in->bytes + in->sh[i].sh_offset, n * sizeof *r);
        for (size_t k = 0; k < n; k++) {
            size_t symbol = ELF64_R_SYM(r[k].r_info);
            if (symbol >= n_symbols) return "a relocation names no symbol";
            r[k].r_info = ELF64_R_INFO((uint64_t)in->symbol[symbol], ELF64_R_TYPE(r[k].r_info));
        }
        in->e->sections.data[in->section[i]].data = r;
    }
    return NULL;
}

const char *elf_add_object(Elf *e, const void *bytes, size_t size, const char *const *local)
{ return elf_add_renamed(e, bytes, size, local, NULL); }

const char *elf_add_renamed(
    Elf *e, const void *bytes, size_t size, const char *const *local, const ElfName *names)
{
    In in = { .e = e, .bytes = bytes, .size = size, .local = local, .names = names };
    const char *why = read_headers(&in);
    if (why || (why = read_sections(&in))) return why;
    for (int i = 1; i < in.h.e_shnum; i++) {
        if (in.sh[i].sh_type != SHT_SYMTAB) continue;
        if ((why = read_symbols(&in, &in.sh[i]))) return why;
        return renumber(&in, in.sh[i].sh_size / sizeof(Elf64_Sym));
    }
    return "it has no symbols";
}

/* --- own data ---------------------------------------------------------------------------------------- */

static Symbol global(const char *name, int type, int section, size_t size)
{
    return (Symbol){ name,
        { .st_info = ELF64_ST_INFO(STB_GLOBAL, type), .st_shndx = (Elf64_Section)section, .st_size = size } };
}

const char *elf_add_data(
    Elf *e, const char *symbol, const void *bytes, size_t size, const ElfReloc *relocs, size_t n)
{
    uint64_t flags = SHF_ALLOC | (n ? SHF_WRITE : 0);
    int section = (int)e->sections.len;
    uint32_t index;
    vec_push(e->arena, &e->sections,
        ((Section){ n ? ".data.rel.ro" : ".rodata",
            { .sh_type = SHT_PROGBITS, .sh_flags = flags, .sh_size = size, .sh_addralign = 8 }, bytes, 0 }));
    const char *why =
        add_global(e, global(arena_strdup(e->arena, symbol), STT_OBJECT, section, size), &index);
    if (why || !n) return why;
    Elf64_Rela *r = arena_array(e->arena, Elf64_Rela, n);
    uint32_t type = e->machine == EM_AARCH64 ? R_AARCH64_ABS64 : R_X86_64_64;
    for (size_t i = 0; i < n; i++) {
        if ((why = add_global(e, global(relocs[i].symbol, STT_NOTYPE, SHN_UNDEF, 0), &index))) return why;
        r[i] = (Elf64_Rela){ relocs[i].offset, ELF64_R_INFO((uint64_t)index, type), 0 };
    }
    vec_push(e->arena, &e->sections,
        ((Section){ ".rela.data.rel.ro",
            { .sh_type = SHT_RELA,
                .sh_flags = SHF_INFO_LINK,
                .sh_size = n * sizeof *r,
                .sh_addralign = 8,
                .sh_entsize = sizeof *r },
            r, section }));
    return NULL;
}

const char *elf_add_alias(Elf *e, const char *name, const char *symbol)
{
    for (size_t i = 1; i < e->symbols.len; i++) {
        if (strcmp(e->symbols.data[i].name, symbol)) continue;
        Symbol s = e->symbols.data[i];
        uint32_t index;
        s.name = arena_strdup(e->arena, name);
        s.s.st_info = ELF64_ST_INFO(STB_GLOBAL, ELF64_ST_TYPE(s.s.st_info));
        s.s.st_other = STV_DEFAULT;
        return add_global(e, s, &index);
    }
    return arena_printf(e->arena, "there is no symbol `%s`", symbol);
}

/* --- writing ----------------------------------------------------------------------------------------- */

/* Local symbols come first, as the format wants it. Returns old -> new. */
static uint32_t *sort_symbols(Elf *e, Elf64_Sym *out, Text *names, size_t *n_local)
{
    uint32_t *moved = arena_array(e->arena, uint32_t, e->symbols.len + 1), n = 0;
    for (int global = 0; global < 2; global++) {
        for (size_t i = 0; i < e->symbols.len; i++) {
            Symbol *s = &e->symbols.data[i];
            if ((ELF64_ST_BIND(s->s.st_info) != STB_LOCAL) != global) continue;
            moved[i] = n;
            out[n] = s->s;
            out[n].st_name = *s->name ? (Elf64_Word)names->len : 0;
            if (*s->name) text_write(names, s->name, strlen(s->name) + 1);
            n++;
        }
        if (!global) *n_local = n;
    }
    return moved;
}

static void put(Text *t, const void *p, size_t n, size_t align)
{
    while (t->len % (align ? align : 1)) text_putc(t, 0);
    if (n) text_write(t, p, n);
}

static void add_table(Elf *e, const char *name, Elf64_Shdr h, const void *data)
{ vec_push(e->arena, &e->sections, ((Section){ name, h, data, 0 })); }

/* Sorts the symbols and adds the sections that every object ends with: a note that the stack is not
 * executable, the symbols and the two tables of names. *symtab: the number of the symbols' section. Returns
 * where each symbol has moved. */
static uint32_t *add_tables(Elf *e, int *symtab)
{
    Arena *a = e->arena;
    Text names, section_names;
    size_t n_local = 0, n = e->symbols.len;
    text_init(&names, a);
    text_init(&section_names, a);
    text_write(&names, "", 1);
    text_write(&section_names, "", 1);
    Elf64_Sym *symbols = arena_array(a, Elf64_Sym, n);
    uint32_t *moved = sort_symbols(e, symbols, &names, &n_local);
    *symtab = (int)e->sections.len + 1;
    add_table(e, ".note.GNU-stack", (Elf64_Shdr){ .sh_type = SHT_PROGBITS, .sh_addralign = 1 }, NULL);
    add_table(e, ".symtab",
        (Elf64_Shdr){ .sh_type = SHT_SYMTAB,
            .sh_link = (Elf64_Word)*symtab + 1,
            .sh_info = (Elf64_Word)n_local,
            .sh_size = n * sizeof *symbols,
            .sh_addralign = 8,
            .sh_entsize = sizeof *symbols },
        symbols);
    add_table(e, ".strtab", (Elf64_Shdr){ .sh_type = SHT_STRTAB, .sh_size = names.len, .sh_addralign = 1 },
        names.data);
    add_table(e, ".shstrtab", (Elf64_Shdr){ .sh_type = SHT_STRTAB, .sh_addralign = 1 }, NULL);
    for (size_t i = 1; i < e->sections.len; i++) {
        e->sections.data[i].h.sh_name = (Elf64_Word)section_names.len;
        text_write(&section_names, e->sections.data[i].name, strlen(e->sections.data[i].name) + 1);
    }
    Section *last = &e->sections.data[e->sections.len - 1];
    last->data = section_names.data;
    last->h.sh_size = section_names.len;
    return moved;
}

/* A section of relocations with the symbols' and the section's new numbers. */
static void relocate(Elf *e, Section *s, const uint32_t *moved, int symtab)
{
    Elf64_Rela *r = arena_array(e->arena, Elf64_Rela, s->h.sh_size / sizeof *r + 1);
    memcpy(r, s->data, s->h.sh_size);
    for (size_t k = 0; k < s->h.sh_size / sizeof *r; k++)
        r[k].r_info = ELF64_R_INFO((uint64_t)moved[ELF64_R_SYM(r[k].r_info)], ELF64_R_TYPE(r[k].r_info));
    s->data = r;
    s->h.sh_link = (Elf64_Word)symtab;
    s->h.sh_info = (Elf64_Word)s->target;
}

const void *elf_write(Elf *e, size_t *size)
{
    if (e->sections.len + 4 >= SHN_LORESERVE) return NULL;
    Text out;
    int symtab;
    text_init(&out, e->arena);
    uint32_t *moved = add_tables(e, &symtab);
    Elf64_Ehdr h = { .e_ident = { ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS64, ELFDATA2LSB, EV_CURRENT },
        .e_type = ET_REL,
        .e_machine = e->machine,
        .e_version = EV_CURRENT,
        .e_flags = e->flags,
        .e_ehsize = sizeof h,
        .e_shentsize = sizeof(Elf64_Shdr),
        .e_shnum = (Elf64_Half)e->sections.len,
        .e_shstrndx = (Elf64_Half)(e->sections.len - 1) };
    put(&out, &h, sizeof h, 1);
    for (size_t i = 1; i < e->sections.len; i++) {
        Section *s = &e->sections.data[i];
        if (s->h.sh_type == SHT_RELA) relocate(e, s, moved, symtab);
        put(&out, s->data, s->h.sh_type == SHT_NOBITS ? 0 : s->h.sh_size, s->h.sh_addralign);
        s->h.sh_offset = out.len - (s->h.sh_type == SHT_NOBITS ? 0 : s->h.sh_size);
    }
    put(&out, NULL, 0, 8);
    h.e_shoff = out.len;
    for (size_t i = 0; i < e->sections.len; i++) put(&out, &e->sections.data[i].h, sizeof(Elf64_Shdr), 1);
    memcpy(out.data, &h, sizeof h);
    *size = out.len;
    return out.data;
}

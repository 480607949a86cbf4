/* relocate.c: fills addresses into the code of an object that is loaded (load.c): the relocations of the
 * psABI for x86-64 and of "ELF for the Arm 64-bit Architecture" that LLVM writes for code of this backend. */
#include "backends/cpu/llvm/load.h"

static const char far_away[] = "symbol out of reach", too_many[] = "too many symbols",
                  unknown[] = "unknown relocation";

/* The bytes of a stub before the address: jmp *0(%rip); ldr x16, 8 and br x16. */
enum { X86_JUMP_BYTES = 6, ARM_JUMP_BYTES = 8 };
static const unsigned char x86_jump[X86_JUMP_BYTES] = { 0xff, 0x25, 0, 0, 0, 0 };
static const unsigned char arm_jump[ARM_JUMP_BYTES] = { 0x50, 0, 0, 0x58, 0, 0x02, 0x1f, 0xd6 };

/* The address of a jump to `target`, behind whose first bytes the address of `target` is; 0: there is no
 * room. A symbol has one, however often it is used. */
static uint64_t stub(Stubs *s, const unsigned char *jump, size_t n, uint64_t target)
{
    for (char *known = s->at; known < s->used; known += STUB_BYTES)
        if (!memcmp(known + n, &target, 8)) return (uint64_t)(uintptr_t)known;
    if (STUB_BYTES > s->end - s->used) return 0;
    char *p = s->used;
    memcpy(p, jump, n);
    memcpy(p + n, &target, 8);
    s->used += STUB_BYTES;
    return (uint64_t)(uintptr_t)p;
}

static const char *put_32(const Relocation *r, int64_t value)
{
    int32_t w = (int32_t)value;
    if (value != w) return far_away;
    memcpy(r->where, &w, 4);
    return NULL;
}

static const char *put_64(const Relocation *r, uint64_t value)
{
    memcpy(r->where, &value, 8);
    return NULL;
}

static const char *relocate_x86(Stubs *stubs, const Relocation *r)
{
    uint64_t value = r->symbol + (uint64_t)r->addend, at;
    switch (r->type) {
    case R_X86_64_64: return put_64(r, value);
    case R_X86_64_PC64: return put_64(r, value - r->place);
    case R_X86_64_32:
    case R_X86_64_32S: return put_32(r, (int32_t)value);
    case R_X86_64_PC32: return put_32(r, (int64_t)(value - r->place));
    case R_X86_64_PLT32: {
        int64_t d = (int64_t)(value - r->place);
        if (d == (int32_t)d) return put_32(r, d);
        at = stub(stubs, x86_jump, X86_JUMP_BYTES, r->symbol);
        return at ? put_32(r, (int64_t)(at + (uint64_t)r->addend - r->place)) : too_many;
    }
    case R_X86_64_GOTPCREL:
    case R_X86_64_GOTPCRELX:
    case R_X86_64_REX_GOTPCRELX: /* a place that holds the address: the second half of a stub */
        at = stub(stubs, x86_jump, X86_JUMP_BYTES, r->symbol);
        return at ? put_32(r, (int64_t)(at + X86_JUMP_BYTES + (uint64_t)r->addend - r->place)) : too_many;
    default: return unknown;
    }
}

/* --- AArch64 ----------------------------------------------------------------------------------------- */

/* Replaces `bits` bits of an instruction from bit `from` on. */
static const char *put_bits(const Relocation *r, int from, int bits, uint64_t value)
{
    uint32_t w, mask = ((1u << bits) - 1) << from;
    memcpy(&w, r->where, 4);
    w = (w & ~mask) | ((uint32_t)(value << from) & mask);
    memcpy(r->where, &w, 4);
    return NULL;
}

static bool fits(int64_t v, int bits)
{ return v >= -((int64_t)1 << (bits - 1)) && v < (int64_t)1 << (bits - 1); }

/* adrp: the distance in pages of 4 KB, its two low bits apart from the others. */
static const char *put_page(const Relocation *r, uint64_t value)
{
    int64_t pages = (int64_t)(value >> 12) - (int64_t)(r->place >> 12);
    if (!fits(pages, 21)) return far_away;
    put_bits(r, 29, 2, (uint64_t)pages & 3);
    return put_bits(r, 5, 19, (uint64_t)pages >> 2);
}

/* The offset in the page, in units of 1 << `shift` bytes. */
static const char *put_offset(const Relocation *r, uint64_t value, int shift)
{ return put_bits(r, 10, 12, (value & 0xfff) >> shift); }

static const char *put_call(Stubs *stubs, const Relocation *r, uint64_t value)
{
    int64_t d = (int64_t)(value - r->place);
    if (!fits(d, 28)) {
        uint64_t at = stub(stubs, arm_jump, ARM_JUMP_BYTES, value);
        if (!at) return too_many;
        d = (int64_t)(at - r->place);
    }
    return fits(d, 28) ? put_bits(r, 0, 26, (uint64_t)d >> 2) : far_away;
}

static const char *relocate_arm(Stubs *stubs, const Relocation *r)
{
    uint64_t value = r->symbol + (uint64_t)r->addend;
    switch (r->type) {
    case R_AARCH64_ABS64: return put_64(r, value);
    case R_AARCH64_PREL64: return put_64(r, value - r->place);
    case R_AARCH64_ABS32: return put_32(r, (int32_t)value);
    case R_AARCH64_PREL32: return put_32(r, (int64_t)(value - r->place));
    case R_AARCH64_ADR_PREL_PG_HI21: return put_page(r, value);
    case R_AARCH64_ADD_ABS_LO12_NC:
    case R_AARCH64_LDST8_ABS_LO12_NC: return put_offset(r, value, 0);
    case R_AARCH64_LDST16_ABS_LO12_NC: return put_offset(r, value, 1);
    case R_AARCH64_LDST32_ABS_LO12_NC: return put_offset(r, value, 2);
    case R_AARCH64_LDST64_ABS_LO12_NC: return put_offset(r, value, 3);
    case R_AARCH64_LDST128_ABS_LO12_NC: return put_offset(r, value, 4);
    case R_AARCH64_CALL26:
    case R_AARCH64_JUMP26: return put_call(stubs, r, value);
    case R_AARCH64_ADR_GOT_PAGE:
    case R_AARCH64_LD64_GOT_LO12_NC: {
        uint64_t at = stub(stubs, arm_jump, ARM_JUMP_BYTES, value);
        if (!at) return too_many;
        at += ARM_JUMP_BYTES;
        return r->type == R_AARCH64_ADR_GOT_PAGE ? put_page(r, at) : put_offset(r, at, 3);
    }
    default: return unknown;
    }
}

size_t load_width(unsigned machine, uint64_t type)
{
    if (machine == EM_AARCH64)
        return type == R_AARCH64_NONE ? 0 : type == R_AARCH64_ABS64 || type == R_AARCH64_PREL64 ? 8 : 4;
    return type == R_X86_64_NONE ? 0 : type == R_X86_64_64 || type == R_X86_64_PC64 ? 8 : 4;
}

const char *load_relocate(unsigned machine, Stubs *stubs, const Relocation *r)
{ return machine == EM_AARCH64 ? relocate_arm(stubs, r) : relocate_x86(stubs, r); }

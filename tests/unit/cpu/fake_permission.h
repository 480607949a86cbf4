/* fake_permission.h: an operating system that grants or refuses the state of AMX's tile registers, on any
 * x86-64 machine. A program that includes this file has a `syscall` of its own, which answers the request for
 * the state and passes every other call on. */
#pragma once
#include <errno.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/syscall.h>

static atomic_int permission_asked;                /* how often */
static bool permission_refused, permission_passed; /* passed: the operating system answers */

__attribute__((visibility("default"))) long syscall(long number, ...);
long syscall(long number, ...)
{
    enum { ARCH_REQ_XCOMP_PERM = 0x1023 };
    va_list list;
    va_start(list, number);
    long a = va_arg(list, long), b = va_arg(list, long), c = va_arg(list, long);
    register long d __asm__("r10") = va_arg(list, long);
    register long e __asm__("r8") = va_arg(list, long);
    register long f __asm__("r9") = va_arg(list, long);
    va_end(list);
    long result = number;
    if (number == SYS_arch_prctl && a == ARCH_REQ_XCOMP_PERM && !permission_passed) {
        permission_asked++;
        if (!permission_refused) return 0;
        errno = EINVAL;
        return -1;
    }
    __asm__ volatile("syscall"
        : "+a"(result)
        : "D"(a), "S"(b), "d"(c), "r"(d), "r"(e), "r"(f)
        : "rcx", "r11", "memory");
    if (result < 0 && result > -4096) {
        errno = (int)-result;
        return -1;
    }
    return result;
}

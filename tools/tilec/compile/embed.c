/* embed.c: see embed.h. */
#include "tools/tilec/compile/embed.h"

#define EMBED(name, path) \
    __asm__(".pushsection .rodata\n.balign 16\n.globl " #name "\n.hidden " #name "\n" #name ":\n" \
            ".incbin \"" path "\"\n.globl " #name "_end\n.hidden " #name "_end\n" #name \
            "_end:\n.byte 0\n.popsection\n")

EMBED(launch_object, LAUNCH_OBJECT);
EMBED(ffi_entry_object, FFI_ENTRY_OBJECT);
EMBED(launch_object_aarch64, LAUNCH_OBJECT_AARCH64);
EMBED(ffi_entry_object_aarch64, FFI_ENTRY_OBJECT_AARCH64);
EMBED(launch_header, LAUNCH_HEADER);
EMBED(launch_plan, LAUNCH_PLAN);
EMBED(launch_check, LAUNCH_CHECK_TEXT);
EMBED(launch_args, LAUNCH_ARGS_TEXT);
EMBED(bundle_tables, BUNDLE_TABLES);
EMBED(bundle_calls, BUNDLE_CALLS);
EMBED(bundle_facts, BUNDLE_FACTS);
EMBED(bundle_driver, BUNDLE_DRIVER);
EMBED(bundle_unpack, BUNDLE_UNPACK);
EMBED(bundle_gpu, BUNDLE_GPU);
EMBED(bundle_devices, BUNDLE_DEVICES);
EMBED(launch_ffi, LAUNCH_FFI_TEXT);
EMBED(bundle_ffi, BUNDLE_FFI);

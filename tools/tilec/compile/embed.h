/* embed.h: files of tools/aot and runtime that tilec carries in itself. */
#pragma once
#include <stddef.h>

extern const char launch_object[], launch_object_end[];       /* launch.c, compiled */
extern const char ffi_entry_object[], ffi_entry_object_end[]; /* ffi_entry.c, compiled */
/* The same for AArch64; empty where no C compiler for it was found when tilec was built. */
extern const char launch_object_aarch64[], launch_object_aarch64_end[], ffi_entry_object_aarch64[],
    ffi_entry_object_aarch64_end[];
extern const char launch_header[], launch_header_end[]; /* launch.h */
/* The texts of a bundle: plan.h, check.h, args.h, bundle.h, gpu.def, gpu_facts.h, gpu_driver.c, gpu.c,
 * gpu_devices.c, ffi.h, gpu_ffi.c.
 */
extern const char launch_plan[], launch_plan_end[], launch_check[], launch_check_end[], launch_args[],
    launch_args_end[], bundle_tables[], bundle_tables_end[], bundle_calls[], bundle_calls_end[],
    bundle_facts[], bundle_facts_end[], bundle_driver[], bundle_driver_end[], bundle_gpu[], bundle_gpu_end[],
    bundle_devices[], bundle_devices_end[], launch_ffi[], launch_ffi_end[], bundle_ffi[], bundle_ffi_end[],
    bundle_unpack[], bundle_unpack_end[];

/* ffi_entry.c: the function of one kernel by tvm-ffi's C ABI. It is compiled when tilec is built; tilec adds
 * it to an object once for each kernel, under the kernel's name (tools/tilec/compile/object_ffi.c):
 * tile_ffi_entry becomes __tvm_ffi_NAME, tile_ffi_kernel NAME__ffi and tile_ffi_call NAME__call. */
#include <stdint.h>

typedef struct FfiAny FfiAny;
extern const char tile_ffi_kernel[];
int tile_ffi_call(const void *kernel, const FfiAny *args, int32_t n);
int tile_ffi_entry(void *handle, const FfiAny *args, int32_t n, FfiAny *result);

int tile_ffi_entry(void *handle, const FfiAny *args, int32_t n, FfiAny *result)
{
    (void)handle;
    (void)result; /* stays None */
    return tile_ffi_call(tile_ffi_kernel, args, n);
}

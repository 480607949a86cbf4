/* gpu_ffi.c: the kernels of a bundle by tvm-ffi's C ABI: on the device of their tensors, in the stream that
 * the environment has for it. tilec copies the text between the marks into the C file of a bundle, behind
 * gpu_devices.c's. */
#include "tools/aot/gpu_devices.c"
/* begin */
static void *find_loaded(const char *name)
{
    void *library = dlopen("libtvm_ffi.so", RTLD_NOW | RTLD_NOLOAD), *found;
    found = library ? dlsym(library, name) : NULL;
    if (library) dlclose(library); /* whoever opened it keeps it */
    return found;
}
/* end */
/* begin call */
extern void *TVMFFIEnvGetStream(int32_t type, int32_t id) __attribute__((weak));

/* The device of a launch: that of the first tensor on a GPU, else the CPU. */
static FfiPlace ffi_place(const FfiAny *args, int32_t n)
{
    for (int32_t i = 0; i < n; i++) {
        const FfiTensor *t = ffi_tensor(&args[i]);
        if (t && (t->place.type == FFI_CUDA || t->place.type == FFI_ROCM)) return t->place;
    }
    return (FfiPlace){ FFI_CPU, 0 };
}

static void *ffi_stream(FfiPlace at)
{
    void *(*get)(int32_t, int32_t) = TVMFFIEnvGetStream;
    if (!get) *(void **)&get = find_loaded("TVMFFIEnvGetStream");
    return get ? get(at.type, at.id) : NULL;
}

/* The primary context of a CUDA device, retained once. */
static int ffi_context(FfiPlace at, void **out)
{
    enum { DEVICES = 64 };
    static void *contexts[DEVICES];
    Api *a;
    int handle = 0, result, status = api_of(TILE_ON_CUDA, &a);
    if (status) return status;
    if (at.id < 0 || at.id >= DEVICES)
        return fail(TILE_LAUNCH_NO_DEVICE, "there is no device %d", (int)at.id);
    if ((*out = __atomic_load_n(&contexts[at.id], __ATOMIC_ACQUIRE))) return TILE_LAUNCH_OK;
    if ((result = a->device_get(&handle, at.id)) || (result = a->primary_retain(out, handle)))
        return driver_failed(a, result, "device", "making a context");
    __atomic_store_n(&contexts[at.id], *out, __ATOMIC_RELEASE);
    return TILE_LAUNCH_OK;
}

/* The device's default stream says nothing about its context. */
static int ffi_queue(FfiPlace at, const tile_threads *all, tile_queue *q)
{
    *q = (tile_queue){ .kind = TILE_ON_CPU, .threads = all };
    if (at.type == FFI_CPU) return TILE_LAUNCH_OK;
    *q = (tile_queue){ .kind = at.type == FFI_CUDA ? TILE_ON_CUDA : TILE_ON_HIP, .stream = ffi_stream(at) };
    if (q->kind == TILE_ON_HIP) q->context = (void *)((intptr_t)at.id + 1);
    return q->kind == TILE_ON_CUDA && !q->stream ? ffi_context(at, &q->context) : TILE_LAUNCH_OK;
}

static int ffi_call(const Kernel *const *kernels, int n_kernels, const FfiAny *args, int32_t n)
{
    static const tile_threads all = { 0, NULL, NULL };
    tile_launch_arg out[PLAN_MAX_PARAMS];
    int64_t consts[PLAN_MAX_CONSTS] = { 0 };
    const Kernel *k = kernels[0];
    FfiPlace at = ffi_place(args, n);
    tile_queue q;
    for (int i = n_kernels; i-- > 0;)
        if (ffi_types_fit(kernels[i]->plan, args, n)) k = kernels[i];
    int status = ffi_read(k->plan, args, n, at, out, consts);
    if (!status) status = ffi_queue(at, &all, &q);
    if (!status) status = bundle_launch(k, out, consts, &q);
    return status ? ffi_raise(status) : 0;
}
/* end call */

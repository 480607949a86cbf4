/* quick_device.h: stands before a kernel that TinyCC compiles (quick.h). Declares the prelude's types, and
 * defines those of its macros that hold assembly as calls of the machine. For no other compiler. */
#define bool _Bool
#define true 1
#define false 0
#define NULL ((void *)0)
#define __device__
#define __global__
#define __forceinline__
#define __align__(n) __attribute__((aligned(n)))
#define __has_builtin(x) 1
void *memcpy(void *, const void *, unsigned long);
void quick_unset_variable(void *, unsigned long);
extern int emu_mutant;
#define EMU_WITHOUT(n) \
    if (emu_mutant == (n)) { \
    } else
#define EMU_PLUS(n, d) +(emu_mutant == (n) ? (d) : 0)
#ifdef EMU_CHIP
extern int hip_line;
void hip_wait_loads(unsigned);
void hip_fence(void);
#define __shared__ extern /* the array of the library, of which only the address is used */
#define wait_loads(n) hip_wait_loads(n)
#define wait_lds(n) ((n) ? (void)0 : hip_fence())
#define stays(x) ((void)(x))
#define __builtin_amdgcn_sched_barrier(mask) ((void)0)
#define __builtin_amdgcn_sched_group_barrier(mask, size, group) ((void)0)
#define __builtin_amdgcn_s_setprio(n) ((void)0)
typedef struct __amdgpu_buffer_rsrc_t {
    unsigned char *base;
    unsigned bytes;
} __amdgpu_buffer_rsrc_t;
#else
extern int emu_line;
typedef struct EmuDim3 {
    unsigned x, y, z;
} EmuDim3;
extern EmuDim3 threadIdx, blockIdx, blockDim, gridDim;
typedef enum EmuType { EMU_F16, EMU_BF16, EMU_TF32, EMU_E4M3, EMU_E5M2, EMU_S8, EMU_U8 } EmuType;
typedef struct EmuProduct {
    int n, k;
    EmuType a, b;
    bool trans_a, trans_b, integer;
} EmuProduct;
void emu_wgmma(const EmuProduct *, void *, const unsigned *, unsigned, unsigned, unsigned, unsigned, int);
void emu_syncthreads(void);
void emu_copy_wait(unsigned);
void emu_bulk_wait(unsigned);
void emu_bulk_written(unsigned);
void emu_wgmma_wait(unsigned);
void emu_registers(int, bool);
#define __shared__
#define __syncthreads emu_syncthreads
#define cp_async_wait emu_copy_wait
#define bulk_wait(n) (emu_bulk_wait(n), emu_bulk_written(n))
#define bulk_wait_read emu_bulk_wait
#define wgmma_wait emu_wgmma_wait
#define setmaxnreg_inc(n) emu_registers(n, true)
#define setmaxnreg_dec(n) emu_registers(n, false)
#define pin_float(x) ((void)(x))
#define pin_word(x) ((void)(x))
#define pin_pointer(x) ((void)(x))
#endif

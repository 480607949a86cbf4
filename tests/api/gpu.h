/* gpu.h: what the tests of libtile on a real device share (test_gpu.c): the context, the vendor's driver, and
 * the tensors that the tests launch on. */
#pragma once
#include "api.h"

extern tile_context *ctx;
extern tile_kernel *add; /* vector_add of api.h */
extern void *driver;     /* the driver's library, for calls beside libtile's */
extern bool hip;

#define CU(name, ...) (((int (*)())dlsym(driver, name))(__VA_ARGS__))
#define CU_OR_HIP(cuda_name, hip_name, ...) CU(hip ? hip_name : cuda_name, __VA_ARGS__)

double now_us(void);

/* Operands of `add` with n elements: x[i] = i, y[i] = 2 i; `host` has room for one of them. */
typedef struct Vectors {
    DLTensor *x, *y, *z;
    float *host;
    int64_t n;
} Vectors;

Vectors make_vectors(int64_t n);
tile_status launch(const Vectors *v, void *stream);
int64_t wrong(Vectors *v, void *stream); /* elements of z that are not x + y */
void drop_vectors(Vectors *v);

/* Causal attention of f16: a kernel that uses tensor maps and a dynamic tile scheduler on a Hopper. */
typedef struct Attention {
    tile_module *m;
    tile_kernel *k;
    DLTensor *t[4];
    tile_arg a[5];
    uint16_t *host;
    size_t bytes;
} Attention;

bool open_attention(Attention *at); /* false, with a failed assertion, if it does not compile */
void close_attention(Attention *at);

/* gpu_capture.c */
void test_graph(void);
void test_early_start(void);
void test_attention_graph(void);
/* gpu_refused.c */
void test_refused(void);
void test_other_context(void);
void test_unsuitable(void);
/* gpu_host_time.c */
void test_host_time(void);

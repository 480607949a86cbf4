/* ffi_abi.h: the part of tvm-ffi's C ABI that the tests use, written from its documentation and not from
 * tools/aot/ffi.h. */
#pragma once
#include <stdint.h>

typedef struct Any {
    int32_t type;
    uint32_t padding;
    union {
        int64_t i;
        double f;
        void *p;
    } v;
} Any;
enum { ANY_NONE = 0, ANY_INT = 1, ANY_BOOL = 2, ANY_FLOAT = 3, ANY_DLTENSOR = 7, ANY_TENSOR = 70 };

typedef struct Tensor {
    void *data;
    int32_t device_type, device_id, ndim;
    uint8_t code, bits;
    uint16_t lanes;
    int64_t *shape, *strides;
    uint64_t byte_offset;
} Tensor;

typedef int Function(void *handle, const Any *args, int32_t n, Any *result);

typedef struct Stub {
    char kind[40], text[900];
    void *stream;
    int asked_type, asked_id;
} Stub;

Stub *stub_state(void);
void TVMFFIErrorSetRaisedFromCStr(const char *kind, const char *text);
void *TVMFFIEnvGetStream(int32_t type, int32_t id);

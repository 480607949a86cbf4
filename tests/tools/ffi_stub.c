/* ffi_stub.c: what code that tilec makes calls back in the library of tvm-ffi, with its names, in a library
 * of its own. It notes what it was asked. */
#include "ffi_abi.h"
#include <stdio.h>

static Stub state;
Stub *stub_state(void) { return &state; }

void TVMFFIErrorSetRaisedFromCStr(const char *kind, const char *text)
{
    snprintf(state.kind, sizeof state.kind, "%s", kind);
    snprintf(state.text, sizeof state.text, "%s", text);
}

void *TVMFFIEnvGetStream(int32_t type, int32_t id)
{
    state.asked_type = type;
    state.asked_id = id;
    return state.stream;
}

/* executors.c: what this build can run problems on. */
#include "exec_reference.h"
#ifdef RUN_WITH_TILE
#include "exec_tile.h"
#endif
#ifdef RUN_WITH_OBJECTS
#include "exec_object.h"
#endif
#ifdef RUN_WITH_INTERP
#include "exec_interp.h"
#endif

const Executor executors[] = {
#ifdef RUN_WITH_TILE
    { "cpu", "libtile on this machine's processor", exec_tile_open, exec_tile_run, exec_tile_close,
        exec_tile_text },
    { "cpu,checked", "the same, checked: a warning is a failure", exec_tile_open, exec_tile_run,
        exec_tile_close, exec_tile_text },
    { "cuda", "libtile on an NVIDIA GPU", exec_tile_open, exec_tile_run, exec_tile_close, exec_tile_text },
    { "hip", "libtile on an AMD GPU", exec_tile_open, exec_tile_run, exec_tile_close, exec_tile_text },
#endif
#ifdef RUN_WITH_OBJECTS
    { "aarch64", "tilec's objects for AArch64 under qemu-aarch64", exec_object_open, exec_object_run,
        exec_object_close },
#endif
#ifdef RUN_WITH_INTERP
    { "interp", "the interpreter of the tile IR", exec_interp_open, exec_interp_run, exec_interp_close },
#endif
#define REFERENCE(name, doc) { name, doc, exec_reference_open, exec_reference_run, exec_reference_close }
    REFERENCE("reference", "the references themselves: tests the table"),
    REFERENCE("wrong", "the same with one wrong element: must fail"),
    REFERENCE("unwritten", "the same with one element not written: must fail"),
    REFERENCE("stray", "the same with a byte written beside an output: must fail"),
    REFERENCE("input", "the same with an input changed: must fail"),
    { 0 },
};

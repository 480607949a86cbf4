/* nvrtc.h: NVRTC for tests, loaded when asked for; it brings ptxas, so that what it compiles is a cubin. */
#pragma once
#include <stdbool.h>
#include <stddef.h>

typedef struct Nvrtc {
    int (*create)(void **, const char *, const char *, int, const char *const *, const char *const *);
    int (*compile)(void *, int, const char *const *);
    int (*destroy)(void **);
    int (*log_size)(void *, size_t *);
    int (*log)(void *, char *);
    int (*ptx_size)(void *, size_t *);
    int (*ptx)(void *, char *);
    int (*cubin_size)(void *, size_t *);
} Nvrtc;

bool nvrtc_open(Nvrtc *); /* false: there is none */
/* Compiles for `arch` ("sm_90a"). *log, to be freed: what the compiler and, verbosely, ptxas said; NULL: it
 * could not be had. */
bool nvrtc_compile(const Nvrtc *, const char *text, const char *arch, char **log);
/* The same. *image: the size of the cubin in bytes; 0 where it is not known. */
bool nvrtc_compile_image(const Nvrtc *, const char *text, const char *arch, char **log, size_t *image);
/* The same. *ptx, to be freed, unless NULL: the PTX that became the cubin; NULL where it could not be had. */
bool nvrtc_compile_ptx(const Nvrtc *, const char *text, const char *arch, char **log, char **ptx);

/* example.h: a kernel of a .tile file to tile IR, as the runtime would do it: bindings, launch facts, the
 * pass pipeline. */
#pragma once
#include "backends/gpu/gpu.h"
#include "frontend/frontend.h"

/* The whole file, NUL-terminated, in the session's arena; NULL when it cannot be read. */
char *read_text(Session *, const char *path, size_t *len);
/* Parses and checks a file; NULL after diagnostics. */
Ast *example_parse(Session *, const char *path);
/* Lowered and through the passes. special: the launch facts of contiguous, 16-byte-aligned tensors of extents
 * divisible by 16. NULL after diagnostics. */
Func *example_lower(
    Session *, Ast *, const char *kernel, const FrontBinding *, size_t n, const Target *, bool special);
/* Adds "NAME=value" to the bindings; false with a reason on standard error. */
bool example_bind(Session *, const FrontKernel *, const char *text, FrontBinding *);
/* Bindings of configuration `k` of the product of an instantiate's domains; false past the last. */
bool example_instance(const FrontInstance *, int64_t k, FrontBinding *);

/* Bindings that make a kernel fit a target that it does not fit as declared, as tilec finds them
 * (runtime/choice/search/search.h): those given and more, into `out`. 0: there are none. */
int example_fit(Session *, const char *path, Ast *, const char *kernel, const FrontBinding *given, int n,
    const Target *, FrontBinding *out, int most);

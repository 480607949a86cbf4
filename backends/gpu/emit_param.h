/* emit_param.h: between emit.c and emit_param.c: the parameters of a kernel. */
#pragma once
#include "backends/gpu/emit.h"

/* A parameter as it is declared. */
void emit_param(Emit *, Text *, const Slot *);
/* Scalars that come in another form than they are used in; what these lines need of the prelude. */
void emit_scalars(Emit *, Text *);
void emit_use_scalars(Emit *);

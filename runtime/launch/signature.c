/* signature.c: the arguments that the launches of a kernel take. */
#include "runtime/launch/kernel.h"

size_t tile_kernel_param_count(const tile_kernel *k) { return k ? (size_t)k->n_params : 0; }

tile_status tile_kernel_param(const tile_kernel *k, size_t i, tile_param_info *info)
{
    if (!k || !info || info->struct_size < sizeof(size_t)) return TILE_ERROR_INVALID_ARGUMENT;
    if (i >= (size_t)k->n_params) return TILE_ERROR_NOT_FOUND;
    const KernelParam *p = &k->params[i];
    static const tile_param_kind kinds[] = { TILE_PARAM_IN, TILE_PARAM_OUT, TILE_PARAM_INOUT,
        TILE_PARAM_SCALAR };
    tile_param_info d = { info->struct_size, p->name, kinds[p->kind], dtype_to_public(p->dtype), p->rank,
        { NULL } };
    for (int a = 0; a < p->rank; a++) d.dims[a] = p->text[a];
    d.has_default = p->otherwise.kind != FRONT_NOTHING;
    if (p->otherwise.kind == FRONT_INT)
        d.default_value = (tile_scalar){ p->otherwise.i, (double)p->otherwise.i };
    else if (p->otherwise.kind == FRONT_UINT)
        d.default_value = (tile_scalar){ p->otherwise.i, (double)(uint64_t)p->otherwise.i };
    else if (p->otherwise.kind == FRONT_BOOL)
        d.default_value = (tile_scalar){ p->otherwise.b, p->otherwise.b };
    else if (p->otherwise.kind == FRONT_FLOAT) d.default_value.f = p->otherwise.f;
    d.optional = p->optional;
    memcpy(info, &d, info->struct_size < sizeof d ? info->struct_size : sizeof d);
    return TILE_OK;
}

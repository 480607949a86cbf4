/* signature.c: the parameters of a kernel, in two forms: as its source declares them, before anything is
 * bound (bindings for other languages make functions of these), and as its launches take them. */
#include "runtime/launch/kernel.h"

static void param_default(const FrontValue *v, tile_param_info *info)
{
    info->has_default = v->kind != FRONT_NOTHING;
    switch (v->kind) {
    case FRONT_TEXT:
    case FRONT_NOTHING: break;
    case FRONT_INT: info->default_value = (tile_scalar){ v->i, (double)v->i }; break;
    case FRONT_UINT: info->default_value = (tile_scalar){ v->i, (double)(uint64_t)v->i }; break;
    case FRONT_BOOL: info->default_value = (tile_scalar){ v->b, v->b }; break;
    case FRONT_FLOAT: info->default_value.f = v->f; break;
    case FRONT_TYPE: info->dtype = dtype_to_public(v->type); break;
    }
}

static tile_param_kind kind_of(FrontParamKind kind)
{
    switch (kind) {
    case FRONT_IN: return TILE_PARAM_IN;
    case FRONT_OUT: return TILE_PARAM_OUT;
    case FRONT_INOUT: return TILE_PARAM_INOUT;
    case FRONT_SCALAR: return TILE_PARAM_SCALAR;
    case FRONT_CONST: return TILE_PARAM_CONST;
    case FRONT_CONST_TYPE: return TILE_PARAM_TYPE;
    }
    return TILE_PARAM_SCALAR;
}

tile_status tile_module_param(const tile_module *m, const char *kernel, size_t i, tile_param_info *info)
{
    if (!m || !kernel || !info || info->struct_size < sizeof(size_t)) return TILE_ERROR_INVALID_ARGUMENT;
    const FrontKernel *f = frontend_kernel_find(m->ast, kernel);
    if (!f || i >= (size_t)f->n_params) return TILE_ERROR_NOT_FOUND;
    const FrontParam *p = &f->params[i];
    tile_param_info d = { .struct_size = info->struct_size,
        .name = p->name,
        .kind = kind_of(p->kind),
        .dtype = p->type_known ? dtype_to_public(p->dtype) : TILE_NONE,
        .rank = p->rank,
        .optional = p->optional,
        .type_name = p->type_name && p->kind != FRONT_CONST_TYPE ? p->type_name : "" };
    for (int a = 0; a < p->rank; a++) d.dims[a] = p->dims[a].text;
    param_default(&p->default_value, &d);
    memcpy(info, &d, info->struct_size < sizeof d ? info->struct_size : sizeof d);
    return TILE_OK;
}

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
    param_default(&p->otherwise, &d);
    d.type_name = p->type_name;
    d.optional = p->optional;
    memcpy(info, &d, info->struct_size < sizeof d ? info->struct_size : sizeof d);
    return TILE_OK;
}

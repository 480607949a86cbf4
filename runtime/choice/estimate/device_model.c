/* device_model.c: the device models that are compiled in. */
#include "runtime/choice/estimate/device_model.h"
#include <string.h>

static const DeviceModel models[] = {
#include "runtime/choice/device_models.inc"
};

const DeviceModel *device_model_at(size_t i)
{ return i < sizeof models / sizeof *models ? &models[i] : NULL; }

/* Whether `word` is one of the words of `list`. */
static bool lists(const char *list, const char *word)
{
    size_t n = strlen(word);
    for (const char *p = list; (p = strstr(p, word)); p += n)
        if ((p == list || p[-1] == ' ') && (!p[n] || p[n] == ' ')) return true;
    return false;
}

bool device_model_serves(const DeviceModel *m, const Target *t) { return lists(m->targets, t->name); }

const Target *device_model_target(const DeviceModel *m)
{
    size_t n = strcspn(m->targets, " ");
    for (size_t i = 0; target_at(i); i++)
        if (strlen(target_at(i)->name) == n && !strncmp(target_at(i)->name, m->targets, n))
            return target_at(i);
    return NULL;
}

/* Whether the driver's name of the card is that of the model. The name of the card ends where a word does: an
 * A100 is no A10. */
static bool is_card(const DeviceModel *m, const char *name)
{
    size_t n = strlen(m->card);
    return !strncmp(name, m->card, n) && (!name[n] || name[n] == ' ' || name[n] == '-');
}

const DeviceModel *device_model(const Target *t)
{
    for (size_t i = 0; device_model_at(i); i++)
        if (device_model_serves(&models[i], t)) return &models[i];
    return NULL;
}

const DeviceModel *device_model_find(const char *name)
{
    for (size_t i = 0; device_model_at(i); i++)
        if (!strcmp(models[i].name, name) || is_card(&models[i], name)) return &models[i];
    return NULL;
}

/* --- devices ----------------------------------------------------------------------------------------- */

CostDevice device_of_target(const Target *t)
{
    return (CostDevice){ .model = device_model(t),
        .target = t,
        .units = t->n_sms > 0 ? t->n_sms : 1,
        .l2_bytes = t->l2_bytes,
        .shared_bytes = t->shared_bytes };
}

CostDevice device_of_model(const DeviceModel *m, const Target *t)
{
    int64_t shared = (int64_t)m->shared_bytes;
    return (CostDevice){ .model = m,
        .target = t,
        .units = (int)m->multiprocessors,
        .l2_bytes = (int64_t)m->l2_bytes,
        .shared_bytes = shared < t->shared_bytes ? shared : t->shared_bytes,
        .workspace = t->kind == TARGET_CUDA };
}

CostDevice device_of_card(
    const Target *t, const char *name, int multiprocessors, int64_t l2_bytes, int64_t shared_bytes)
{
    const DeviceModel *m = device_model(t);
    for (size_t i = 0; device_model_at(i); i++)
        if (device_model_serves(&models[i], t) && is_card(&models[i], name)) {
            m = &models[i];
            break;
        }
    CostDevice d = m ? device_of_model(m, t) : device_of_target(t);
    if (multiprocessors > 0) d.units = multiprocessors;
    if (l2_bytes > 0) d.l2_bytes = l2_bytes;
    if (shared_bytes > 0) d.shared_bytes = shared_bytes < t->shared_bytes ? shared_bytes : t->shared_bytes;
    return d;
}

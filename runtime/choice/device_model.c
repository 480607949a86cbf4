/* device_model.c: the device models that are compiled in. */
#include "runtime/choice/device_model.h"
#include <string.h>

static const DeviceModel models[] = {
#include "runtime/choice/device_models.inc"
};

const DeviceModel *device_model_at(size_t i)
{ return i < sizeof models / sizeof *models ? &models[i] : NULL; }

/* Is `word` one of the words of `list`? */
static bool lists(const char *list, const char *word)
{
    size_t n = strlen(word);
    for (const char *p = list; (p = strstr(p, word)); p += n)
        if ((p == list || p[-1] == ' ') && (!p[n] || p[n] == ' ')) return true;
    return false;
}

const DeviceModel *device_model(const Target *t)
{
    for (size_t i = 0; device_model_at(i); i++)
        if (lists(models[i].targets, t->name)) return &models[i];
    return NULL;
}

const DeviceModel *device_model_find(const char *name)
{
    for (size_t i = 0; device_model_at(i); i++)
        if (!strcmp(models[i].name, name)) return &models[i];
    return NULL;
}

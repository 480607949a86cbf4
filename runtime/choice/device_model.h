/* device_model.h: what an estimate knows about a device beyond what ir/targets.def says of its
 * multiprocessors.
 *
 * The values are data: one file a device in models/, compiled in by device_models.awk. A device is added by a
 * file that gives all fields of device_model.def, or `like` another model and those that differ. */
#pragma once
#include "ir/target.h"

typedef struct DeviceModel {
    const char *name;    /* of the file: "h100" */
    const char *targets; /* rows of ir/targets.def whose code it estimates, with spaces between */
    bool measured;       /* fitted on times taken there; otherwise scaled by public figures */
#define FIELD(name, unit, meaning) double name;
#include "runtime/choice/device_model.def"
} DeviceModel;

/* Model `i` of those compiled in, or NULL past the end. */
const DeviceModel *device_model_at(size_t i);
/* The model for a target's code, or NULL: no estimates there. */
const DeviceModel *device_model(const Target *);
/* The model of this name, or NULL. */
const DeviceModel *device_model_find(const char *name);

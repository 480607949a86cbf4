/* device_model.h: what an estimate knows about a device beyond what ir/target/targets.def says of its
 * multiprocessors.
 *
 * The values are data: one file a device in models/, compiled in by device_models.awk. A device is added by a
 * file that gives all fields of device_model.def, or `like` another model and those that differ. */
#pragma once
#include "ir/target/target.h"

typedef struct DeviceModel {
    const char *name;    /* of the file: "h100" */
    const char *card;    /* the prefix of the card's name in the driver */
    const char *targets; /* the rows of ir/target/targets.def whose code it estimates, separated by spaces */
    /* The figures were fitted on measurements of this card; otherwise they were scaled by public figures. */
    bool measured;
#define CARD(name, fitted, unit, meaning) double name;
#define FIELD(name, fitted, unit, meaning) double name;
#include "runtime/choice/estimate/device_model.def"
} DeviceModel;

/* Model `i` of those compiled in, or NULL past the end. */
const DeviceModel *device_model_at(size_t i);
/* The model for a target's code, or NULL: no estimates there. */
const DeviceModel *device_model(const Target *);
/* The model of this name ("h100"), or of the card that the driver calls so, or NULL. */
const DeviceModel *device_model_find(const char *name);
/* Whether it estimates the target's code; and the first target whose code it estimates. */
bool device_model_serves(const DeviceModel *, const Target *);
const Target *device_model_target(const DeviceModel *);

/* The device of a launch, as the choice sees it: a card, and the target for which code is compiled. */
typedef struct CostDevice {
    const DeviceModel *model; /* NULL: the rates of the card are not known */
    const Target *target;
    int units;                      /* multiprocessors */
    int64_t l2_bytes, shared_bytes; /* the L2 cache; the most shared memory of a CTA */
    bool workspace;                 /* launches get one: parts of loops may meet there */
} CostDevice;

/* The device for code that is compiled ahead of time: no particular card, but the target's largest common
 * device. */
CostDevice device_of_target(const Target *);
/* The card that a model describes, with code for one of its targets. */
CostDevice device_of_model(const DeviceModel *, const Target *);
/* The card of a driver, by its name and the facts that the driver gives, each 0 if it does not give it. Among
 * the models for the target, the card's own is used, or else the first. */
CostDevice device_of_card(
    const Target *, const char *name, int multiprocessors, int64_t l2_bytes, int64_t shared_bytes);

/* cupti.h: the part of CUPTI that counters.c calls: its host profiler and its range profiler, which CUDA 12.6
 * and later have. Types are those of cupti_profiler_host.h and cupti_range_profiler.h under names of our own,
 * so that no header of CUDA is needed to build. A call takes one struct, which begins with its size: the
 * offset behind its last field. tests/tools/cupti_layout.cc compares all of them with CUPTI's headers, where
 * there are any. */
#pragma once
#include <stddef.h>
#include <stdint.h>

enum {
    CUPTI_INVALID_METRIC_NAME = 17,
    CUPTI_NO_PRIVILEGES = 35,
    CUPTI_NO_PRIVILEGES_VIRTUALIZED = 40,
    CUPTI_RANGES_OF_USER = 2, /* CUPTI_UserRange */
    CUPTI_REPLAY_BY_USER = 3  /* CUPTI_UserReplay */
};

#define CUPTI_SIZE(type, last) (offsetof(type, last) + sizeof(((type *)0)->last))

typedef struct CuptiNothing {
    size_t size;
    void *reserved;
} CuptiNothing;

typedef struct CuptiChip {
    size_t size;
    void *reserved;
    size_t device; /* the driver's number */
    const char *name;
} CuptiChip;

typedef struct CuptiHost {
    size_t size;
    void *reserved;
    int kind; /* 0: ranges */
    const char *chip;
    const uint8_t *availability; /* NULL: the chip is known */
    void *host;
} CuptiHost;

typedef struct CuptiHostEnd {
    size_t size;
    void *reserved;
    void *host;
} CuptiHostEnd;

typedef struct CuptiMetric {
    size_t size;
    void *reserved;
    void *host;
    const char *name, *text, *hardware, *unit;
    int kind;
} CuptiMetric;

typedef struct CuptiMetrics {
    size_t size;
    void *reserved;
    void *host;
    const char **names;
    size_t n;
} CuptiMetrics;

typedef struct CuptiConfigSize {
    size_t size;
    void *reserved;
    void *host;
    size_t bytes;
} CuptiConfigSize;

typedef struct CuptiConfig {
    size_t size;
    void *reserved;
    void *host;
    size_t bytes;
    uint8_t *config;
} CuptiConfig;

typedef struct CuptiValues {
    size_t size;
    void *reserved;
    void *host;
    const uint8_t *image;
    size_t bytes, range;
    const char **names;
    size_t n;
    double *values;
} CuptiValues;

typedef struct CuptiEnable {
    size_t size;
    void *reserved;
    void *context;
    void *profiler;
} CuptiEnable;

typedef struct CuptiImageSize {
    size_t size;
    void *reserved;
    void *profiler;
    const char **names;
    size_t n, ranges;
    uint32_t nodes; /* of the tree of ranges */
    size_t bytes;
} CuptiImageSize;

typedef struct CuptiImage {
    size_t size;
    void *reserved;
    void *profiler;
    size_t bytes;
    uint8_t *image;
} CuptiImage;

typedef struct CuptiSetup {
    size_t size;
    void *reserved;
    void *profiler;
    size_t config_bytes;
    const uint8_t *config;
    size_t image_bytes;
    uint8_t *image;
    int ranges, replay;
    size_t most_ranges;
    uint16_t levels, first_level;
    size_t pass;
    uint16_t level;
} CuptiSetup;

typedef struct CuptiProfiler {
    size_t size;
    void *reserved;
    void *profiler;
} CuptiProfiler; /* of Start, PopRange and Disable */

typedef struct CuptiPush {
    size_t size;
    void *reserved;
    void *profiler;
    const char *range;
} CuptiPush;

typedef struct CuptiStop {
    size_t size;
    void *reserved;
    void *profiler;
    size_t pass, level;
    uint8_t done; /* all passes are submitted */
} CuptiStop;

typedef struct CuptiDecode {
    size_t size;
    void *reserved;
    void *profiler;
    size_t dropped; /* ranges that did not fit */
} CuptiDecode;

/* CUPTI_CALL(field, argument, symbol) */
#define CUPTI_CALLS(CUPTI_CALL) \
    CUPTI_CALL(initialize, CuptiNothing, "cuptiProfilerInitialize") \
    CUPTI_CALL(finish, CuptiNothing, "cuptiProfilerDeInitialize") \
    CUPTI_CALL(chip, CuptiChip, "cuptiDeviceGetChipName") \
    CUPTI_CALL(host, CuptiHost, "cuptiProfilerHostInitialize") \
    CUPTI_CALL(host_end, CuptiHostEnd, "cuptiProfilerHostDeinitialize") \
    CUPTI_CALL(metric, CuptiMetric, "cuptiProfilerHostGetMetricProperties") \
    CUPTI_CALL(metrics, CuptiMetrics, "cuptiProfilerHostConfigAddMetrics") \
    CUPTI_CALL(config_size, CuptiConfigSize, "cuptiProfilerHostGetConfigImageSize") \
    CUPTI_CALL(config, CuptiConfig, "cuptiProfilerHostGetConfigImage") \
    CUPTI_CALL(values, CuptiValues, "cuptiProfilerHostEvaluateToGpuValues") \
    CUPTI_CALL(enable, CuptiEnable, "cuptiRangeProfilerEnable") \
    CUPTI_CALL(image_size, CuptiImageSize, "cuptiRangeProfilerGetCounterDataSize") \
    CUPTI_CALL(image, CuptiImage, "cuptiRangeProfilerCounterDataImageInitialize") \
    CUPTI_CALL(setup, CuptiSetup, "cuptiRangeProfilerSetConfig") \
    CUPTI_CALL(start, CuptiProfiler, "cuptiRangeProfilerStart") \
    CUPTI_CALL(push, CuptiPush, "cuptiRangeProfilerPushRange") \
    CUPTI_CALL(pop, CuptiProfiler, "cuptiRangeProfilerPopRange") \
    CUPTI_CALL(stop, CuptiStop, "cuptiRangeProfilerStop") \
    CUPTI_CALL(decode, CuptiDecode, "cuptiRangeProfilerDecodeData") \
    CUPTI_CALL(disable, CuptiProfiler, "cuptiRangeProfilerDisable")

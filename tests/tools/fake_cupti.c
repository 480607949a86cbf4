/* fake_cupti.c: CUPTI as counters.c calls it, in memory: three passes for each range, and a chip that lacks
 * one metric. It refuses calls in another order than CUPTI's documents have it, structs of another size, and
 * a range without a launch; the launches are those that the fake driver (tests/api/fake_gpu.h) has written
 * down. FAKE_CUPTI=SYMBOL:CODE makes a function fail. */
#include "tests/api/fake_gpu.h"
#include "tools/tilec/bench/cupti.h"
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PASSES = 3, CONFIG = 100, IMAGE = 200, BAD = 1, ORDER = 3 };
static struct {
    int initialized, hosts, enabled, pass, in_range, started, set_up, decoded, metrics, launches, before;
    uint8_t *image;
} now;
static int host, profiler;

static int launches(void)
{
    void *driver = dlopen("libcuda.so.1", RTLD_NOW), *f = driver ? dlsym(driver, "fake_state") : NULL;
    FakeStateFn *state;
    memcpy(&state, &f, sizeof f);
    return f ? state()->launches : -1;
}

static int begin(const char *symbol, size_t size, size_t wanted)
{
    const char *fail = getenv("FAKE_CUPTI");
    size_t n = strlen(symbol);
    if (fail && !strncmp(fail, symbol, n) && fail[n] == ':') return atoi(fail + n + 1);
    return size == wanted ? 0 : BAD;
}

#define CUPTI(symbol, type, last) \
    __attribute__((visibility("default"))) int symbol(type *p); \
    static int symbol##_body(type *p __attribute__((unused))); \
    int symbol(type *p) \
    { \
        int code = begin(#symbol, p->size, CUPTI_SIZE(type, last)); \
        return code ? code : symbol##_body(p); \
    } \
    static int symbol##_body(type *p __attribute__((unused)))

CUPTI(cuptiProfilerInitialize, CuptiNothing, reserved) { return now.initialized++ ? ORDER : 0; }
CUPTI(cuptiProfilerDeInitialize, CuptiNothing, reserved)
{
    if (now.hosts || now.enabled) fprintf(stderr, "fake CUPTI: something is still open\n");
    return --now.initialized;
}
CUPTI(cuptiDeviceGetChipName, CuptiChip, name)
{
    p->name = "FAKE100";
    return now.initialized && p->device == 0 ? 0 : ORDER;
}
CUPTI(cuptiProfilerHostInitialize, CuptiHost, host)
{
    p->host = &host;
    now.hosts++;
    return now.initialized && p->kind == 0 && !strcmp(p->chip, "FAKE100") ? 0 : ORDER;
}
CUPTI(cuptiProfilerHostDeinitialize, CuptiHostEnd, host) { return p->host == &host ? --now.hosts : ORDER; }
CUPTI(cuptiProfilerHostGetMetricProperties, CuptiMetric, kind)
{
    if (p->host != &host) return ORDER;
    if (!strcmp(p->name, "sm__inst_executed_pipe_tensor.sum")) return CUPTI_INVALID_METRIC_NAME;
    p->unit = strstr(p->name, "bytes") ? "byte" : strstr(p->name, "pct") ? "percent" : "";
    return 0;
}
CUPTI(cuptiProfilerHostConfigAddMetrics, CuptiMetrics, n)
{
    for (size_t i = 0; i < p->n; i++)
        if (!strcmp(p->names[i], "sm__inst_executed_pipe_tensor.sum")) return BAD;
    now.metrics = (int)p->n;
    return p->host == &host ? 0 : ORDER;
}
CUPTI(cuptiProfilerHostGetConfigImageSize, CuptiConfigSize, bytes)
{
    p->bytes = CONFIG;
    return now.metrics ? 0 : ORDER;
}
CUPTI(cuptiProfilerHostGetConfigImage, CuptiConfig, config)
{
    if (p->bytes != CONFIG) return BAD;
    memset(p->config, 0x5a, CONFIG);
    return 0;
}
CUPTI(cuptiRangeProfilerEnable, CuptiEnable, profiler)
{
    if (!p->context || now.enabled++) return ORDER;
    p->profiler = &profiler;
    now.pass = now.set_up = now.decoded = now.launches = 0;
    return 0;
}
CUPTI(cuptiRangeProfilerGetCounterDataSize, CuptiImageSize, bytes)
{
    p->bytes = IMAGE;
    return now.enabled && (int)p->n == now.metrics && p->ranges == 1 && p->nodes >= 1 ? 0 : ORDER;
}
CUPTI(cuptiRangeProfilerCounterDataImageInitialize, CuptiImage, image)
{
    if (p->bytes != IMAGE) return BAD;
    memset(p->image, 0, IMAGE);
    now.image = p->image;
    return 0;
}
CUPTI(cuptiRangeProfilerSetConfig, CuptiSetup, level)
{
    if (p->config_bytes != CONFIG || p->config[CONFIG - 1] != 0x5a || p->image != now.image) return BAD;
    now.set_up = p->ranges == 2 && p->replay == 3 && p->most_ranges == 1 && p->levels == 1 && p->level == 1;
    return now.set_up ? 0 : BAD;
}
CUPTI(cuptiRangeProfilerStart, CuptiProfiler, profiler) { return now.set_up && !now.started++ ? 0 : ORDER; }
CUPTI(cuptiRangeProfilerPushRange, CuptiPush, range)
{
    now.before = launches();
    return now.started && *p->range && !now.in_range++ ? 0 : ORDER;
}
CUPTI(cuptiRangeProfilerPopRange, CuptiProfiler, profiler)
{
    now.launches += launches() - now.before;
    return --now.in_range;
}
CUPTI(cuptiRangeProfilerStop, CuptiStop, done)
{
    if (now.in_range || !now.started--) return ORDER;
    p->done = ++now.pass == PASSES;
    return 0;
}
CUPTI(cuptiRangeProfilerDecodeData, CuptiDecode, dropped)
{
    now.decoded = now.pass == PASSES;
    return now.decoded ? 0 : ORDER;
}
/* Values by which the test sees that names and values belong together: launches in a pass, and 1000 i. */
CUPTI(cuptiProfilerHostEvaluateToGpuValues, CuptiValues, values)
{
    if (!now.decoded || p->image != now.image || p->bytes != IMAGE || p->range) return ORDER;
    for (size_t i = 0; i < p->n; i++)
        p->values[i] = strcmp(p->names[i], "smsp__inst_executed.sum") ? 1000.0 * (double)i
                                                                      : (double)now.launches / PASSES;
    return 0;
}
CUPTI(cuptiRangeProfilerDisable, CuptiProfiler, profiler)
{ return p->profiler == &profiler ? --now.enabled : ORDER; }

__attribute__((visibility("default"))) int cuptiGetResultString(int code, const char **text);
int cuptiGetResultString(int code, const char **text)
{
    *text = code == BAD ? "BAD_PARAMETER" : code == ORDER ? "WRONG_ORDER" : "OTHER";
    return 0;
}

// cupti_layout.cc: the structs of tools/tilec/bench/cupti.h against those of CUPTI's headers. Compiled only where
// these are found.
#include <cuda.h>
#include <cupti_result.h>

#include <cupti_profiler_host.h>
#include <cupti_range_profiler.h>
#include <cupti_target.h>

#include "tools/tilec/bench/cupti.h"

#define SAME(ours, last, theirs) static_assert(CUPTI_SIZE(ours, last) == theirs##_STRUCT_SIZE, #ours);
#define AT(ours, field, theirs, name) \
    static_assert(offsetof(ours, field) == offsetof(theirs, name) && \
            sizeof(((ours *)0)->field) == sizeof(((theirs *)0)->name), \
        #ours "." #field);
SAME(CuptiNothing, reserved, CUpti_Profiler_Initialize_Params)
SAME(CuptiNothing, reserved, CUpti_Profiler_DeInitialize_Params)
SAME(CuptiChip, name, CUpti_Device_GetChipName_Params)
SAME(CuptiHost, host, CUpti_Profiler_Host_Initialize_Params)
AT(CuptiHost, chip, CUpti_Profiler_Host_Initialize_Params, pChipName)
SAME(CuptiHostEnd, host, CUpti_Profiler_Host_Deinitialize_Params)
SAME(CuptiMetric, kind, CUpti_Profiler_Host_GetMetricProperties_Params)
AT(CuptiMetric, unit, CUpti_Profiler_Host_GetMetricProperties_Params, pDimUnit)
SAME(CuptiMetrics, n, CUpti_Profiler_Host_ConfigAddMetrics_Params)
AT(CuptiMetrics, names, CUpti_Profiler_Host_ConfigAddMetrics_Params, ppMetricNames)
SAME(CuptiConfigSize, bytes, CUpti_Profiler_Host_GetConfigImageSize_Params)
SAME(CuptiConfig, config, CUpti_Profiler_Host_GetConfigImage_Params)
SAME(CuptiValues, values, CUpti_Profiler_Host_EvaluateToGpuValues_Params)
AT(CuptiValues, image, CUpti_Profiler_Host_EvaluateToGpuValues_Params, pCounterDataImage)
AT(CuptiValues, range, CUpti_Profiler_Host_EvaluateToGpuValues_Params, rangeIndex)
AT(CuptiValues, names, CUpti_Profiler_Host_EvaluateToGpuValues_Params, ppMetricNames)
SAME(CuptiEnable, profiler, CUpti_RangeProfiler_Enable_Params)
AT(CuptiEnable, context, CUpti_RangeProfiler_Enable_Params, ctx)
SAME(CuptiImageSize, bytes, CUpti_RangeProfiler_GetCounterDataSize_Params)
AT(CuptiImageSize, ranges, CUpti_RangeProfiler_GetCounterDataSize_Params, maxNumOfRanges)
AT(CuptiImageSize, nodes, CUpti_RangeProfiler_GetCounterDataSize_Params, maxNumRangeTreeNodes)
SAME(CuptiImage, image, CUpti_RangeProfiler_CounterDataImage_Initialize_Params)
SAME(CuptiSetup, level, CUpti_RangeProfiler_SetConfig_Params)
AT(CuptiSetup, config, CUpti_RangeProfiler_SetConfig_Params, pConfig)
AT(CuptiSetup, image, CUpti_RangeProfiler_SetConfig_Params, pCounterDataImage)
AT(CuptiSetup, ranges, CUpti_RangeProfiler_SetConfig_Params, range)
AT(CuptiSetup, replay, CUpti_RangeProfiler_SetConfig_Params, replayMode)
AT(CuptiSetup, most_ranges, CUpti_RangeProfiler_SetConfig_Params, maxRangesPerPass)
AT(CuptiSetup, levels, CUpti_RangeProfiler_SetConfig_Params, numNestingLevels)
AT(CuptiSetup, first_level, CUpti_RangeProfiler_SetConfig_Params, minNestingLevel)
AT(CuptiSetup, pass, CUpti_RangeProfiler_SetConfig_Params, passIndex)
SAME(CuptiProfiler, profiler, CUpti_RangeProfiler_Start_Params)
SAME(CuptiProfiler, profiler, CUpti_RangeProfiler_PopRange_Params)
SAME(CuptiProfiler, profiler, CUpti_RangeProfiler_Disable_Params)
SAME(CuptiPush, range, CUpti_RangeProfiler_PushRange_Params)
SAME(CuptiStop, done, CUpti_RangeProfiler_Stop_Params)
AT(CuptiStop, pass, CUpti_RangeProfiler_Stop_Params, passIndex)
SAME(CuptiDecode, dropped, CUpti_RangeProfiler_DecodeData_Params)
static_assert((int)CUPTI_RANGES_OF_USER == (int)CUPTI_UserRange, "modes");
static_assert((int)CUPTI_REPLAY_BY_USER == (int)CUPTI_UserReplay, "modes");
static_assert((int)CUPTI_INVALID_METRIC_NAME == (int)CUPTI_ERROR_INVALID_METRIC_NAME, "codes");
static_assert((int)CUPTI_NO_PRIVILEGES == (int)CUPTI_ERROR_INSUFFICIENT_PRIVILEGES, "codes");
static_assert(
    (int)CUPTI_NO_PRIVILEGES_VIRTUALIZED == (int)CUPTI_ERROR_VIRTUALIZED_DEVICE_INSUFFICIENT_PRIVILEGES, "codes");

/* amx_model.h: the tile instructions of AMX as functions, written from Intel's Software Developer's Manual.
 * Code that is compiled with BackendOptions.amx_model calls them, so that it runs on a machine without AMX.
 * Each thread has registers of its own. A use that the processor would refuse (#UD, #GP) ends the process
 * with a message. */
#pragma once
#include <stdbool.h>
#include <stdint.h>

#define AMX_EXPORT __attribute__((visibility("default")))

AMX_EXPORT void tile_amx_ldtilecfg(const void *config);
AMX_EXPORT void tile_amx_sttilecfg(void *config);
AMX_EXPORT void tile_amx_tilerelease(void);
AMX_EXPORT void tile_amx_tilezero(int32_t tile);
AMX_EXPORT void tile_amx_tileloadd64(int32_t tile, const void *base, int64_t stride);
AMX_EXPORT void tile_amx_tileloaddt164(int32_t tile, const void *base, int64_t stride);
AMX_EXPORT void tile_amx_tilestored64(int32_t tile, void *base, int64_t stride);
AMX_EXPORT void tile_amx_tdpbf16ps(int32_t to, int32_t a, int32_t b);
AMX_EXPORT void tile_amx_tdpfp16ps(int32_t to, int32_t a, int32_t b);
AMX_EXPORT void tile_amx_tdpbssd(int32_t to, int32_t a, int32_t b);
AMX_EXPORT void tile_amx_tdpbsud(int32_t to, int32_t a, int32_t b);
AMX_EXPORT void tile_amx_tdpbusd(int32_t to, int32_t a, int32_t b);
AMX_EXPORT void tile_amx_tdpbuud(int32_t to, int32_t a, int32_t b);

/* Whether this thread's tile registers are configured. */
bool amx_model_configured(void);
/* The products of tiles that this thread has executed. */
extern _Thread_local int64_t amx_products;

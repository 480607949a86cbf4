/* test_hip.h: what the tests of the emulated AMD workgroup share. */
#pragma once
#include "tests/emu/hip_machine.h"

/* Two workgroups of `threads` lanes: NULL, or what hip_run reports. */
const char *run_group(int chip, int threads, bool backwards, bool late, void (*body)(void *), void *user);

/* test_hip_mma.c */
void test_mma(void);
void test_rounding(void);
void test_missing(void);

/* pingpong.h: consumer warpgroups take turns to issue products. See pingpong.c. */
#pragma once
#include "passes/kernel/schedule/schedule.h"

/* Sets plan.pingpong. */
void pingpong_choose(KernelPlan *);
/* Builds pingpong_wait before products and pingpong_pass after them, if there is pingpong. */
void pingpong_build(const KernelPlan *, Builder *, Op);
/* Records in the schedule and in plan.pingpong whether there is pingpong. */
void pingpong_record(KernelPlan *, const Block *consumers);

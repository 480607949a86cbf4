/* pingpong.h: consumer warpgroups take turns to issue products. See pingpong.c. */
#pragma once
#include "passes/kernel/schedule/schedule.h"

/* Sets plan.turns. */
void pingpong_choose(KernelPlan *);
/* Builds turn_wait before products and turn_pass after them, if there is pingpong. */
void pingpong_turn(const KernelPlan *, Builder *, Op);
/* Records in the schedule and in plan.turns whether there is pingpong. */
void pingpong_record(KernelPlan *, const Block *consumers);

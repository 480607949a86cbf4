/* random_head.h: what random kernels made of lines of text have in common: a table of the tensors that a
 * kernel may have, and the kernel's head, which declares those that its body names. */
#pragma once
#include "arrange.h"

/* As in the table of cases.h. role: `in?` and so on for an optional tensor, which every other kernel leaves
 * out. type: `T` for the kernel's favourite. */
typedef struct RandomTensor {
    const char *role, *name, *dims, *type, *fill;
} RandomTensor;

typedef struct RandomHead {
    const RandomTensor *tensors;
    int count;
    const char *functions; /* in front of the kernel; or NULL */
    const char *always;    /* tensors that bind extents, " X TABLE "; NULL: the kernel has all */
    const char *order;     /* extents of ORDER, of steps of additions, as the kernel says them; NULL: none */
    const char *more;      /* parameters behind the tensors, ", const int TB = auto"; or NULL */
    int views;             /* percent of tensors with strides of their own */
    bool extremes;         /* NaN, infinities and -0 among inputs of floats */
} RandomHead;

/* Whether the body reads or writes the tensor by its name. */
bool random_mentions(const Arranger *, const char *name);

/* The kernel's text: functions, parameters, then the clauses and the body, in which `, T))` stands for its
 * type; the lists of tensors, views and arguments. `clauses` may be empty if the body begins with them. */
void random_head(Arranger *, const RandomHead *, const char *clauses);

/* habits.h: words of other languages, and what is written here instead (habits.def). Diagnostics ask. */
#pragma once
#include "frontend/parse/parse.h"

typedef enum HabitPlace {
    HABIT_CALL,
    HABIT_ARGUMENT,
    HABIT_NAME,
    HABIT_METHOD,
    HABIT_WORD,
    HABIT_TYPE,
} HabitPlace;

/* The note for `word` at such a place; NULL: none is known. */
const char *habit_note(HabitPlace, const char *word, size_t len);
/* Notes on what an unknown function, name or type may have been meant to be; false: none is known. */
bool habit_of_call(Session *, Diag *, const char *name);
bool habit_of_name(Session *, Diag *, const char *name);
bool habit_of_type(Session *, Diag *, const char *name);
/* A keyword that is one or two letters away; NULL: none. */
const char *habit_keyword(const char *word, size_t len);
/* A syntax error at `loc` that another language explains: it is reported here, with what to write. False: it
 * was not, and the caller reports it. */
bool habit_of_syntax(Parse *, Loc loc);
/* An argument without a name beyond those that the operation takes. */
void habit_of_plain_argument(
    Session *, Diag *, const Node *call, const Node *argument, const char *parameter);

/* json.h: what the manifest of a bundle and the report of a simulation write alike. */
#pragma once
#include "ir/support/arena.h"

void json_string(Text *, const char *); /* quoted, with the escapes that JSON requires */

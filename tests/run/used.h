/* used.h: which names of coverage.h the kernels used that ran to their end, from any test program. */
#pragma once

/* With TILE_TEST_USED=FOLDER in the environment: appends to a file of this process, FOLDER/used.PID, the
 * names that the kernel of the file `path` and its emission mention and that the process has not written yet.
 * tile_used_names counts such files. */
void used_note(const char *path, const char *emitted);

/* test_launch_level.c: which variant of an object the launcher takes, for every level of x86-64 processors,
 * an operating system that grants or refuses AMX, and TILE_CPU_LEVEL. The processor and the operating system
 * are doubles, so any x86-64 machine will do. The launcher keeps what it has asked: each case is a process.
 */
#define cpu_level_read machines_cpu_level_read
#include "ir/target/cpu_level.h"
#undef cpu_level_read
static int fake_level;
static int cpu_level_read(void) { return fake_level; }
#include "fake_permission.h"
#include "tools/aot/launch.c"
#include <sys/wait.h>

enum {
    N_VARIANTS = 4,
    VARIANT_WORDS = PLAN_VARIANT_HEAD + 2 + PLAN_SIZES + 4 * 3,
    WRONG = -2,
    UNSUPPORTED = -1
};

static int taken;
/* Code of a level: it runs the one program. */
#define CODE(NAME, LEVEL) \
    static int NAME(const uint64_t *slots, int64_t begin, int64_t end, void *scratch, int32_t again) \
    { \
        (void)slots; \
        (void)scratch; \
        (void)again; \
        taken = begin == 0 && end == 1 ? LEVEL : UNSUPPORTED; \
        return 0; \
    }
CODE(amx_code, LEVEL_AMX)
CODE(dot_code, LEVEL_V4_DOT)
CODE(v4_code, LEVEL_V4)
CODE(v3_code, LEVEL_V3)
static Kernel *const entries[N_VARIANTS] = { amx_code, dot_code, v4_code, v3_code };

/* The best level first, as tilec writes them; no parameters and one program. */
static void make_plan(int64_t *plan)
{
    static const int levels[N_VARIANTS] = { LEVEL_AMX, LEVEL_V4_DOT, LEVEL_V4, LEVEL_V3 };
    const int64_t head[PLAN_HEAD] = { PLAN_VERSION, 0, 0, N_VARIANTS, 0,
        PLAN_HEAD + N_VARIANTS * VARIANT_WORDS };
    memcpy(plan, head, sizeof head);
    for (int k = 0; k < N_VARIANTS; k++) {
        int64_t *v = plan + PLAN_HEAD + k * VARIANT_WORDS;
        memset(v, 0, VARIANT_WORDS * sizeof *v);
        v[0] = VARIANT_WORDS;
        v[1] = levels[k];
        v[3] = k;
    }
    memcpy(plan + head[5], "k", 2);
}

/* The level whose code two launches take; UNSUPPORTED: none, with `text` among the error's words. */
static int launch_twice(const char *text)
{
    int64_t plan[PLAN_HEAD + N_VARIANTS * VARIANT_WORDS + 1];
    int status = 0, first = 0;
    make_plan(plan);
    for (int twice = 0; twice < 2; twice++) {
        first = taken;
        taken = UNSUPPORTED;
        status = tile_aot_launch(plan, entries, NULL, NULL, NULL);
    }
    if (permission_asked > 1 || taken != first) return WRONG;
    if (status && (status != TILE_LAUNCH_UNSUPPORTED || !strstr(tile_aot_error(), text))) return WRONG;
    return taken;
}

static int failures;

static void expect(int own, bool refused, const char *asked, int want, const char *text)
{
    int status = 0;
    fflush(stdout);
    pid_t child = fork();
    if (!child) {
        fake_level = own;
        permission_refused = refused;
        if (asked) setenv("TILE_CPU_LEVEL", asked, 1);
        else unsetenv("TILE_CPU_LEVEL");
        int got = launch_twice(text);
        bool never = own < LEVEL_AMX || (asked && *asked && strcmp(asked, "amx"));
        if (got != want || (never && permission_asked)) {
            printf("level %d, %s, %s: takes %d, not %d; %s\n", own, refused ? "refused" : "granted",
                asked ? asked : "-", got, want, tile_aot_error());
            fflush(stdout);
            _exit(1);
        }
        _exit(0);
    }
    failures += child < 0 || waitpid(child, &status, 0) != child || !WIFEXITED(status) || WEXITSTATUS(status);
}

int main(void)
{
    static const char none[] = "nothing was compiled for this processor", lacks[] = "lacks the level `amx`";
    for (int level = LEVEL_V3; level <= LEVEL_AMX; level++) expect(level, false, NULL, level, "");
    expect(LEVEL_ANY, false, NULL, UNSUPPORTED, none);
    expect(LEVEL_AMX, true, NULL, LEVEL_V4_DOT, "");
    expect(LEVEL_AMX, true, "amx", LEVEL_V4_DOT, "");
    expect(LEVEL_AMX, false, "amx", LEVEL_AMX, "");
    expect(LEVEL_AMX, false, "v4dot", LEVEL_V4_DOT, "");
    expect(LEVEL_AMX, false, "v4", LEVEL_V4, "");
    expect(LEVEL_AMX, false, "v3", LEVEL_V3, "");
    expect(LEVEL_AMX, false, "any", UNSUPPORTED, none);
    expect(LEVEL_AMX, false, "", LEVEL_AMX, "");
    expect(LEVEL_V4_DOT, false, "amx", UNSUPPORTED, lacks);
    expect(LEVEL_V3, false, "amx", UNSUPPORTED, lacks);
    expect(LEVEL_V3, false, "dot", UNSUPPORTED, "there is no level `dot`; there are any, v3");
    printf("%d failures\n", failures);
    return failures != 0;
}

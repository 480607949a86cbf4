/* random_scenes.c: scenes of random_patterns.c: batches of products, tiles that products read as they are and
 * transposed, rows by their own magnitude, extremes of bytes. */
#include "random_scene.h"
#include <stdio.h>

void scene_batch(Scene *x)
{
    Arranger *a = x->a;
    const int n = x->matrices, m = x->rows, c = x->columns, k = x->deep;
    const bool loops = chance(a, 70), again = chance(a, 30);
    const char *full = a->type == F32 ? CHOOSE(a, "", ", precision = tf32", ", precision = full") : "";
    char deep[32], own[64];
    snprintf(deep, sizeof deep, "cdiv(BK, %d)", k);
    snprintf(own, sizeof own, "i*%d +: %d, 0 +: %d, 0 +: %d", n, n, m, c);
    if (chance(a, 50)) arrange_line(a, "var z = zeros([%d, %d, %d], f32);", n, m, c);
    else if (chance(a, 50)) arrange_line(a, "var z = load(BO[%s]);", own);
    else arrange_line(a, "var z = full([%d, %d, %d], 3.0, f32);", n, m, c);
    if (again) arrange_line(a, "var w = z%s;", CHOOSE(a, "", " + 1.0"));
    if (loops) arrange_line(a, "for k in %s {", scene_bounds(x, deep));
    const char *at = loops ? "k*" : "0*";
    arrange_line(a, "let p = load(BA[i*%d +: %d, 0 +: %d, %s%d +: %d]%s)%s;", n, n, m, at, k, k,
        CHOOSE(a, "", "", "", ", cache = stream"), CHOOSE(a, "", "", "", " * 2.0"));
    if (chance(a, 50))
        arrange_line(a, "let q = load(BB[i*%d +: %d, %s%d +: %d, 0 +: %d]);", n, n, at, k, k, c);
    else if (chance(a, 50))
        arrange_line(
            a, "let q = load(BT[i*%d +: %d, 0 +: %d, %s%d +: %d], order = (0, 2, 1));", n, n, c, at, k, k);
    else
        arrange_line(
            a, "let q = load(BI[%s%d +: %d, 0 +: %d, i*%d +: %d], order = (2, 0, 1));", at, k, k, c, n, n);
    if (loops && chance(a, 20)) arrange_line(a, "if k %% 2 == i %% 2 { z = mma(p, q, z%s); }", full);
    else arrange_line(a, "z = mma(p, q, z%s);", full);
    if (again)
        arrange_line(a, "w = mma(p, q, %s%s);", CHOOSE(a, "w", "w", "z", "clamp(z, -50.0, 50.0)"), full);
    if (loops) arrange_line(a, "}");
    arrange_line(a, "store(BO[%s], z%s%s);", own, again ? " - w" : "",
        CHOOSE(a, "", "", " + sum(z, axis = 0)", " + sum(z, axis = 2)"));
}

void scene_read_both_ways(Scene *x)
{
    Arranger *a = x->a;
    const char *type = elem_name(a->type);
    char kv[96];
    snprintf(kv, sizeof kv, "load(V[j*%d +: %d, 0 +: %d]", x->tn, x->tn, x->d);
    arrange_line(a, "let q = load(HEADS[i*%d +: %d, 0, 0 +: %d]);", x->tm, x->tm, x->d);
    arrange_line(a, "var o = zeros([%d, %d], f32);", x->tm, x->d);
    const bool sums = chance(a, 25);
    if (sums) arrange_line(a, "var c = zeros([1, %d], f32);", x->d);
    arrange_line(a, "for j in %s {", scene_bounds(x, scene_columns(x)));
    arrange_line(a, "let kv = %s%s);", kv, CHOOSE(a, "", "", "", ", pad = 1.0", ", latency = 3"));
    switch (below(a, 6)) {
    case 0: arrange_line(a, "let kt = %s, order = (1, 0));", kv); break;
    case 1: arrange_line(a, "let kt = %s, order = (1, 0), pad = 2.0);", kv); break;
    case 2: arrange_line(a, "let kt = transpose(%s, cache = stream));", kv); break;
    case 3:
        arrange_line(
            a, "let kt = transpose(load(V[j*%d + %d +: %d, 0 +: %d]));", x->tn, below(a, 3), x->tn, x->d);
        break;
    default: arrange_line(a, "let kt = transpose(kv);"); break;
    }
    arrange_line(a, "let s = clamp(mma(q, kt), -%d.0, 2.0);", 1 + below(a, 3));
    arrange_line(a, "o = mma(%s(s), kv, o%s);", type, CHOOSE(a, "", "", " * 1.0"));
    if (sums) arrange_line(a, "c = c + sum(f32(kv), axis = 0);");
    if (chance(a, 20)) arrange_line(a, "if j == i %% 2 { o = o + f32(q); }");
    arrange_line(a, "}");
    arrange_line(a, "store(OD[i*%d +: %d, 0 +: %d], o%s);", x->tm, x->tm, x->d, sums ? " + c" : "");
}

/* The rows of a program are those of a tile, or one alone, whose largest magnitude is a number. */
void scene_own_magnitude(Scene *x)
{
    Arranger *a = x->a;
    const bool alone = chance(a, 60);
    const int axis = !alone && chance(a, 70);
    const char *most[] = { "127.0", "127.0", "127.0", "100.0", "1.0", "448.0" };
    const char *way[] = { "i8(round(v / d))", "i8(clamp(round(v / d), -128.0, 127.0))",
        "i8(clamp(round(v / d), -100.0, 90.0))", "u8(round(v / d))", "i16(round(v / d))",
        "i8(round(v / m))" };
    char at[64], by[96];
    if (alone) snprintf(at, sizeof at, "[i, 0 +: %d]", x->tn);
    else snprintf(at, sizeof at, "[i*%d +: %d, 0 +: %d]", x->tm, x->tm, x->tn);
    arrange_line(a, "let t = load(%s%s);", CHOOSE(a, "X", "Y", "Y"), at);
    arrange_line(a, "let v = f32(t)%s;", CHOOSE(a, "", "", "", " * -1.0"));
    arrange_line(a, "let m = max(abs(v), axis = %d%s);", axis, alone && chance(a, 70) ? ", drop = true" : "");
    const char *least = CHOOSE(a, "1.0e-10", "1.0e-10", "0.5", "0.0"),
               *of = CHOOSE(a, "m", "m", "m", "max(abs(v), axis = 0)");
    snprintf(by, sizeof by, "/ %s", most[below(a, 6)]);
    arrange_line(a, "let d = max(%s, %s) %s;", of, least, chance(a, 80) ? by : "* 0.0078740157");
    arrange_line(a, "store(OQ%s, i32(%s));", at, way[below(a, 6)]);
    arrange_line(a, "let best = %s(%s, axis = %d);", CHOOSE(a, "argmax", "argmax", "argmin"),
        CHOOSE(a, "v", "t", "abs(v)"), axis);
    arrange_line(a, "let most = %s(%s, axis = %d);", CHOOSE(a, "max", "max", "min"),
        CHOOSE(a, "v", "v", "abs(v)"), axis);
    arrange_line(a, "store(OM%s, where(best %% 2 == 0, %s, most + 0.0 * m) + v%s);", at,
        CHOOSE(a, "most", "f32(best)", "m"), CHOOSE(a, "", " * 0.0"));
}

void scene_extremes(Scene *x)
{
    Arranger *a = x->a;
    arrange_line(a, "var s = load(BYTES[i*%d +: %d, 0 +: %d]);", x->tm, x->tm, x->tn);
    arrange_line(a, "var t = s;");
    for (int k = 2 + below(a, 5); k; k--) {
        arrange_line(a, "let q%d = load(BYTES[i*%d + %d +: %d, %d +: %d]);", k, x->tm, below(a, 3) - 1, x->tm,
            k % 4 - 1, x->tn);
        arrange_line(a, "t = %s(%s, q%d);", CHOOSE(a, "min", "max"), CHOOSE(a, "t", "t", "s"), k);
        if (chance(a, 60))
            arrange_line(a, "s = %s(s, %s);", CHOOSE(a, "min", "max"), CHOOSE(a, "t", "u8(90)"));
    }
    arrange_line(
        a, "store(OB[i*%d +: %d, 0 +: %d], %s);", x->tm, x->tm, x->tn, CHOOSE(a, "s", "t", "s - t", "s ^ t"));
    if (chance(a, 50))
        arrange_line(a, "store(OF[i*%d +: %d, 0 +: %d], f32(%s));", x->tm, x->tm, x->tn, CHOOSE(a, "s", "t"));
}

"""References: automata, rays, semirings, codes and number systems."""

import math


def dfa_compose(xp, X, MAP, R, N):
    maps, x = xp.asarray(MAP, dtype=xp.int64), xp.asarray(X, dtype=xp.int64)
    state = xp.arange(8)[None, :] + 0 * x[:, :1]
    places, rows = 4 * xp.arange(8)[None, :], []
    for n in range(N):
        state = maps[x[:, n]][:, None] >> 4 * state & 7
        rows.append((state << places).sum(1))
    return xp.stack(rows, 1), state


def ray_boxes(xp, O, D, LO, R, B):
    inv = 1 / D[:, None]
    near, far = (LO[None] - O[:, None]) * inv, (LO[None] + 2.5 - O[:, None]) * inv
    first, last = xp.fmin(near, far), xp.fmax(near, far)
    enter, leave = xp.zeros((R, B), dtype=first.dtype), xp.zeros((R, B), dtype=first.dtype) + math.inf
    for a in range(3):
        enter, leave = xp.maximum(enter, first[..., a]), xp.minimum(leave, last[..., a])
    t = xp.where(enter <= leave, enter, math.inf)
    which = t.argmin(1)
    best = xp.amin(t, 1)
    return best, xp.where(best < math.inf, which, -1)


def log_matmul(xp, A, B):
    x = A[:, :, None] + B[None]
    top = xp.amax(x, 1)
    return top + xp.log(xp.exp(x - top[:, None]).sum(1))


def differential_attention(xp, Q, K, V, LAMBDA, H, S, D2):
    seen = xp.arange(S)[:, None] >= xp.arange(S)[None, :]
    parts = []
    for half in (slice(0, D2 // 2), slice(D2 // 2, D2)):
        s = xp.where(seen, xp.einsum("hmd,hnd->hmn", Q[..., half], K[..., half]) * 0.25, -math.inf)
        e = xp.exp(s - xp.amax(s, 2)[..., None])
        parts.append(e @ V / e.sum(2)[..., None])
    o = parts[0] - LAMBDA[:, None, None] * parts[1]
    return o / xp.sqrt((o * o).mean(2)[..., None] + 1e-5) * 0.2


def ldpc_check(xp, LLR, ID, OLD, E):
    x = LLR[xp.asarray(ID, dtype=xp.int64)] - OLD
    size, minus = xp.abs(x), x < 0
    odd, out = minus.sum(1) % 2 == 1, []
    for e in range(E):
        rest = size[:, 0] * 0 + math.inf
        for k in range(E):
            rest = rest if k == e else xp.minimum(rest, size[:, k])
        out.append(xp.where(odd != minus[:, e], -0.75 * rest, 0.75 * rest))
    return xp.stack(out, 1), odd


def zfp_transform(xp, X, B):
    v = xp.asarray(X, dtype=xp.int64)
    for axis in (3, 2, 1):
        x, y, z, w = (v[(slice(None),) * axis + (k,)] for k in range(4))
        x = (x + w) >> 1
        w = w - x
        z = (z + y) >> 1
        y = y - z
        x = (x + z) >> 1
        z = z - x
        w = (w + y) >> 1
        y = y - w
        w = w + (y >> 1)
        y = y - (w >> 1)
        v = xp.stack([x, y, z, w], axis)
    u = (v + 0xAAAAAAAA & 0xFFFFFFFF) ^ 0xAAAAAAAA
    u = u.reshape(B, 64)
    return u, sum((u >> k != 0) * 1 for k in range(32)).max(1)


def exact_sums(xp, A, B):
    return (A * B).sum(1), A.sum(1)


def gateloop_scan(xp, R, ANGLE, X, T):
    re, im, rows = X[..., 0] * 0, X[..., 0] * 0, []
    for t in range(T):
        a, b = R[..., t] * xp.cos(ANGLE[..., t]), R[..., t] * xp.sin(ANGLE[..., t])
        re, im = a * re - b * im + X[..., t], a * im + b * re
        rows.append((re, im))
    return xp.stack([r for r, _ in rows], 2), xp.stack([i for _, i in rows], 2)


def field_multiply(xp, A, B, N):
    a, b = xp.asarray(A, dtype=xp.int64), xp.asarray(B, dtype=xp.int64)
    h = [a[0] * 0 for _ in range(10)]
    for x in range(10):
        for y in range(10):
            times = ((x & y & 1) + 1) * (19 if x + y >= 10 else 1)
            h[(x + y) % 10] = h[(x + y) % 10] + a[x] * b[y] * times
    for k in 2 * list(range(10)):
        bits = 26 - k % 2
        carry = (h[k] + (1 << bits - 1)) >> bits
        h[k] = h[k] - (carry << bits)
        h[(k + 1) % 10] = h[(k + 1) % 10] + carry * (19 if k == 9 else 1)
    return xp.stack(h, 0)


def deblock_edges(xp, X, STRENGTH, alpha, beta, tc0, H, B):
    x, strength = xp.asarray(X, dtype=xp.int64), xp.asarray(STRENGTH, dtype=xp.int64)
    columns = [x[:, c] for c in range(8 * B)]
    for e in range(1, B):
        bs, at = strength[:, e], 8 * e
        p2, p1, p0, q0, q1, q2 = columns[at - 3 : at + 3]
        on = (bs > 0) & (abs(p0 - q0) < alpha) & (abs(p1 - p0) < beta) & (abs(q1 - q0) < beta)
        ap, aq, strong = abs(p2 - p0) < beta, abs(q2 - q0) < beta, bs == 4
        tc, middle = tc0 + ap * 1 + aq * 1, (p0 + q0 + 1) >> 1
        d = xp.maximum(-tc, xp.minimum(tc, (((q0 - p0) << 2) + (p1 - q1) + 4) >> 3))
        for near, far, turned, place in ((p1, p2, ap, at - 2), (q1, q2, aq, at + 1)):
            moved = near + xp.clip((far + middle - 2 * near) >> 1, -tc0, tc0)
            columns[place] = xp.where(on & ~strong & turned, moved, near)
        for own, step, near, far, place in ((p0, d, p1, q1, at - 1), (q0, -d, q1, p1, at)):
            smooth = xp.where(strong, (2 * near + own + far + 2) >> 2, xp.clip(own + step, 0, 255))
            columns[place] = xp.where(on, smooth, own)
    return xp.stack(columns, 1)

"""Results at places that the data say, tables that a program fills, and lattices."""

import numpy as np
from .places import add_at, max_at, min_at


def column_absmax(xp, X, Y):
    return xp.maximum(xp.amax(abs(X), 0), Y)


def sssp_relax(xp, U, V, W, DIST, NEXT, FLAG):
    new = min_at(xp, NEXT, V, DIST[U] + W)
    return new, FLAG | xp.where((new < NEXT).sum() > 0, 64, 0)


def voxel_max_pool(xp, X, AT, Y, COUNT, N, C, V):
    at = (xp.asarray(AT, dtype=xp.int64)[:, None] * C + xp.arange(C)[None, :]).reshape(-1)
    y = max_at(xp, Y.reshape(-1), at, X.reshape(-1)).reshape(V, C)
    return y, add_at(xp, COUNT, AT, AT * 0 + 1)


def ball_query(xp, C, X, ID, r, M, N):
    C, X, r = np.asarray(C, np.float32), np.asarray(X, np.float32), np.float32(r)
    out, count = ID + 0, []
    for m in range(M):
        x, y, z = (X - C[m]).T
        at = np.nonzero(x * x + y * y + z * z < r * r)[0][:8]
        out[m, : len(at)] = at
        count.append(len(at))
    return out, np.asarray(count, np.int32)


def farthest_points(xp, X, B, K, N):
    x = xp.asarray(X, dtype=xp.float32)
    far, at, out = xp.zeros((B, N)) + 1e10, xp.zeros((B,), dtype=xp.int64), []
    for k in range(K):
        out.append(at)
        d = x - xp.take_along_axis(x, xp.broadcast_to(at[:, None, None], (B, 3, 1)), axis=2)
        far = xp.minimum(far, (d * d).sum(1))
        at = xp.argmax(far, 1)
    return xp.asarray(xp.stack(out, 1), dtype=xp.int32)


def motion_search(xp, A, R, H, W):
    a, r = xp.asarray(A, dtype=xp.int32), xp.pad(xp.asarray(R, dtype=xp.int32), ((4, 4), (4, 4)))
    s = [abs(a - r[d // 9 : d // 9 + H, d % 9 : d % 9 + W]) for d in range(81)]
    s = xp.stack([x.reshape(H // 8, 8, W // 8, 8).sum((1, 3)) for x in s], 0)
    return xp.asarray(xp.argmin(s, 0), dtype=xp.int32), xp.asarray(xp.amin(s, 0), dtype=xp.int32)


def nussinov_fold(xp, X, F, B, N):
    X, f = np.asarray(X), F + 0
    for b in range(B):
        for i in range(N):
            f[b, i, i] = 0
        for d in range(1, N):
            for i in range(N - d):
                j = i + d
                best = (f[b, i + 1, j - 1] if d > 1 else 0) + int(int(X[b, i]) + int(X[b, j]) == 3)
                f[b, i, j] = max([best] + [f[b, i, i + k] + f[b, i + 1 + k, j] for k in range(d)])
    return f


def staggered_dslash(xp, U, P, T, Z):
    t, z = xp.arange(T), xp.arange(Z)
    re = im = 0.0
    for d in range(2):
        f = lambda a, n: a[..., (t + n) % T, :, :] if d == 0 else a[..., :, (z + n) % Z, :]
        sign = 1.0 if d == 0 else (1 - 2 * (t % 2))[:, None, None]
        p, q, u = f(P, 1), f(P, T * Z - 1), U[d]
        v = f(U[d], T * Z - 1)
        for a, b, of, way, sum_up in (
            (u, p, "abtzs,btzs->atzs", 1, sign),
            (v, q, "batzs,btzs->atzs", -1, -sign),
        ):
            (ar, ai), (br, bi) = (a[:, :, 0], a[:, :, 1]), (b[:, 0], b[:, 1])
            re = re + sum_up * (xp.einsum(of, ar, br) - way * xp.einsum(of, ai, bi))
            im = im + sum_up * (xp.einsum(of, ar, bi) + way * xp.einsum(of, ai, br))
    return 0.5 * xp.stack([re, im], 1)


def image_histograms(xp, X, H, B, N):
    at = xp.asarray(X, dtype=xp.int64) + xp.arange(B)[:, None] * 256
    return add_at(xp, H.reshape(-1), at.reshape(-1), at.reshape(-1) * 0 + 1).reshape(B, 256)


def weighted_bincount(xp, X, W, S):
    return add_at(xp, S, X, W)


def confusion_matrix(xp, L, P, C, K):
    at = xp.asarray(L, dtype=xp.int64) * K + P
    return add_at(xp, C.reshape(-1), at, at * 0 + 1).reshape(K, K)


def histogram2d(xp, X, Y, H, A, B):
    at = xp.asarray(X, dtype=xp.int64) * A // 4096 * B + xp.asarray(Y, dtype=xp.int64) * B // 4096
    return add_at(xp, H.reshape(-1), at, at * 0 + 1).reshape(A, B)


def expert_counts(xp, ID, W, COUNT, LOAD):
    at = ID.reshape(-1)
    return add_at(xp, COUNT, at, at * 0 + 1), add_at(xp, LOAD, at, W.reshape(-1))


def degree_count(xp, FROM, TO, OUT, IN):
    return add_at(xp, OUT, FROM, FROM * 0 + 1), add_at(xp, IN, TO, TO * 0 + 1)


def max_pool_gradient(xp, DY, AT, DX, C, P):
    at = (xp.asarray(AT, dtype=xp.int64) + xp.arange(C)[:, None] * P).reshape(-1)
    return add_at(xp, DX.reshape(-1), at, DY.reshape(-1)).reshape(C, P)

"""Alignments, recurrences, segments, compaction and small factorizations."""


def smith_waterman(xp, A, C, gap, match, mismatch, B, N, M):
    last, before = xp.zeros((B, N), dtype=xp.int64), xp.zeros((B, N), dtype=xp.int64)
    best = xp.zeros((B, N), dtype=xp.int64)
    i = xp.arange(N)
    for d in range(N + M - 1):
        j = d - i
        inside = (j >= 0) & (j < M)
        c = C[:, xp.clip(j, 0, M - 1)]
        same = xp.where(A == c, match, -mismatch)
        up = xp.concatenate([last[:, :1] * 0, last[:, :-1]], axis=1)
        diagonal = xp.concatenate([before[:, :1] * 0, before[:, :-1]], axis=1)
        score = xp.maximum(xp.maximum(diagonal + same, up - gap), last - gap)
        score = xp.where(inside, xp.clip(score, 0, None), 0)
        best = xp.maximum(best, score)
        before, last = last, score
    return xp.amax(best, 1)


def viterbi(xp, EMIT, TRANS, B, T, S):
    score, back = EMIT[:, 0], [xp.zeros((B, S), dtype=xp.int64) - 1]
    for t in range(1, T):
        total = score[:, :, None] + TRANS
        back.append(xp.argmax(total, 1))
        score = xp.amax(total, 1) + EMIT[:, t]
    return score, xp.stack(back, 1)


def biquad(xp, X, b0, b1, b2, a1, a2, M, N):
    y1, y2, x1, x2, out = 0.0 * X[:, 0], 0.0 * X[:, 0], 0.0, 0.0, []
    for n in range(N):
        x = X[:, n]
        y = b0 * x + b1 * x1 + b2 * x2 - a1 * y1 - a2 * y2
        y1, y2, x1, x2 = y, y1, x, x1
        out.append(y)
    return xp.stack(out, 1)


def segment_reduce(xp, START, X, S, N):
    at, y = xp.arange(N), xp.zeros((S,), dtype=X.dtype) - xp.inf
    part = xp.searchsorted(START[1:], at, side="right")
    xp.maximum.at(y, part, X)
    place = xp.zeros((S,), dtype=xp.int64) + N
    xp.minimum.at(place, part, xp.where(X == y[part], at, N))
    return y, xp.where(START[1:] > START[:-1], place, -1)


def stream_compaction(xp, X, Y, STATE, threshold, N):
    keep = X > threshold
    kept = X[keep]
    ends = xp.clip(xp.arange(len(STATE)) * 1024 + 1023, None, N - 1)
    upto = xp.cumsum(keep, 0)[ends]
    return xp.concatenate([kept, Y[len(kept) :]]), xp.asarray(upto, dtype=xp.uint64) + (1 << 63)


def triangular_inverse(xp, A, B, T, H):
    pad = -(-T // 16) * 16
    a = xp.pad(A, ((0, 0), (0, pad - T), (0, 0), (0, 0)))
    a = xp.moveaxis(a.reshape(B, pad // 16, 16, H, 16), 3, 2)
    i = xp.arange(16)
    a = xp.where(i[:, None] > i[None, :], a, 0.0)
    y = xp.linalg.inv(a + xp.eye(16))
    return xp.moveaxis(y, 2, 3).reshape(B, pad, H, 16)[:, :T]


def gotoh(xp, A, C, open, more, B, N, M):
    i, low = xp.arange(N + 1), xp.zeros((B, N + 1), dtype=xp.int64) - 1000000

    def down(x):
        return xp.concatenate([low[:, :1], x[:, :-1]], 1)

    a = xp.concatenate([A[:, :1], A], 1)
    h2, h1, e, f = low, xp.where(i == 0, 0, low), low, low
    for d in range(1, N + M + 1):
        j = d - i
        same = xp.where(a == C[:, xp.clip(j - 1, 0, M - 1)], 3, -2)
        e = xp.maximum(h1 - open, e - more)
        f = xp.maximum(down(h1) - open, down(f) - more)
        h = xp.maximum(xp.maximum(down(h2) + same, e), f)
        edge = (i == 0) | (j == 0)
        h = xp.where(edge, -open - more * (xp.maximum(i, j) - 1), xp.where((j > 0) & (j <= M), h, low))
        h2, h1, e = h1, h, xp.where(edge, low, e)
    return h1[:, N]


def ima_adpcm(xp, X, START, STEPS, B, L):
    move = xp.asarray([-1, -1, -1, -1, 2, 4, 6, 8])
    p, at, out = xp.asarray(START, dtype=xp.int64), xp.zeros((B,), dtype=xp.int64), []
    for n in range(2 * L):
        c = (xp.asarray(X[:, n // 2], dtype=xp.int64) >> 4 * (n % 2)) & 15
        step = abs(xp.asarray(STEPS, dtype=xp.int64)[at])
        d = step >> 3
        for bit in range(3):
            d = d + xp.where((c >> bit) & 1 != 0, step >> (2 - bit), 0)
        p = xp.clip(xp.where(c & 8 != 0, p - d, p + d), -32768, 32767)
        at = xp.clip(at + move[c & 7], 0, 88)
        out.append(p)
    return xp.asarray(xp.stack(out, 1), dtype=xp.int16)

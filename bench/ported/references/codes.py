"""Codes of bits and characters, sorted pairs, and trees of likelihoods."""


def q4_k_matvec(xp, QS, SC, D, DM, X, M, B):
    s = xp.asarray(SC, dtype=xp.int32)
    q = xp.asarray(QS, dtype=xp.int32).reshape(M, B, 4, 32)
    sc = xp.concatenate([s[..., :4] & 63, (s[..., 8:] & 15) | (s[..., :4] >> 6 << 4)], -1)
    mn = xp.concatenate([s[..., 4:8] & 63, (s[..., 8:] >> 4) | (s[..., 4:8] >> 6 << 4)], -1)
    c = xp.stack([q & 15, q >> 4], 3).reshape(M, B, 8, 32)
    w = c * (D[..., None] * sc)[..., None] - (DM[..., None] * mn)[..., None]
    return (w * X.reshape(1, B, 8, 32)).sum((1, 2, 3))


def bitpack_decode(xp, X, WIDTH, FIRST, LEAST, B):
    w = xp.asarray(WIDTH, dtype=xp.int64)[:, None] + 1
    bit = xp.arange(32)[None, :] * w
    x = xp.asarray(X, dtype=xp.int64)
    word, off = bit >> 5, bit & 31
    pair = xp.take_along_axis(x, word, axis=1) >> off
    pair = pair | xp.take_along_axis(x, word + 1, axis=1) << (32 - off)
    code = pair & ((xp.zeros((B, 1), dtype=xp.int64) + 1 << w) - 1)
    run = xp.cumsum(code + LEAST[:, None], 1) + FIRST[:, None]
    run = run & 0xFFFFFFFF
    return xp.asarray(xp.where(run >= 1 << 31, run - (1 << 32), run), dtype=xp.int32)


def parse_decimals(xp, X, N):
    c = xp.asarray(X, dtype=xp.int64) + 46
    v = c[:, 0] * 0
    seen = done = bad = minus = v != 0
    for k in range(12):
        x = c[:, k]
        digit, blank, sign = (x >= 48) & (x <= 57), x == 46, x == 47
        bad = bad | (digit & done) | (~digit & ~blank & ~sign) | (sign & (seen | minus))
        v = xp.where(digit & ~done, v * 10 + x - 48, v)
        minus = minus | (sign & ~seen)
        done = done | (blank & (seen | minus))
        seen = seen | digit
    ok = seen & ~bad
    return xp.where(ok, xp.where(minus, -v, v), -1), ok


def sort_pairs(xp, KEY, V, N):
    at = xp.argsort(KEY * 512 + xp.arange(N))  # in order of places where keys are equal
    return xp.take_along_axis(KEY, at, axis=1), xp.take_along_axis(V, at, axis=1)


def phylo_prune(xp, L, M, P, Q):
    y = xp.einsum("rsj,rij->rsi", L, P) * xp.einsum("rsj,rij->rsi", M, Q)
    top = xp.clip(xp.amax(xp.amax(y, 2), 0), 1e-30, None)
    return y / top[None, :, None], xp.log(top)

"""Tables that are searched or interpolated, ragged and sliced sums, selections by digits."""


def sell_spmv(xp, START, COL, VAL, X):
    columns = xp.reshape(xp.asarray(VAL, dtype=xp.float64) * X[COL], (-1, 32))
    upto = xp.cumsum(columns, 0)
    upto = xp.concatenate([0 * upto[:1], upto], 0)
    start = START // 32
    return xp.reshape(upto[start[1:]] - upto[start[:-1]], (-1,))


def embedding_bag(xp, OFF, ID, W, TABLE):
    upto = xp.cumsum(xp.asarray(TABLE[ID] * W[:, None], dtype=xp.float64), 0)
    upto = xp.concatenate([0 * upto[:1], upto], 0)
    return upto[OFF[1:]] - upto[OFF[:-1]]


def integral_image(xp, X):
    x = xp.asarray(X, dtype=xp.int32)
    values = xp.cumsum(xp.cumsum(x, 2, dtype=xp.int32), 1, dtype=xp.int32)
    squares = xp.cumsum(xp.cumsum(xp.asarray(x * x, dtype=xp.float64), 2), 1)
    return values, squares


def stockham4(xp, XR, XI, CS, SN):
    r, i = [XR[:, k] for k in range(4)], [XI[:, k] for k in range(4)]
    ar, ai, br, bi = r[0] + r[2], i[0] + i[2], r[0] - r[2], i[0] - i[2]
    cr, ci, dr, di = r[1] + r[3], i[1] + i[3], i[1] - i[3], r[3] - r[1]
    re, im = [ar + cr, br + dr, ar - cr, br - dr], [ai + ci, bi + di, ai - ci, bi - di]
    for k in range(1, 4):
        c, s = CS[None, :, k - 1, None], SN[None, :, k - 1, None]
        re[k], im[k] = re[k] * c - im[k] * s, re[k] * s + im[k] * c
    return xp.stack(re, 2), xp.stack(im, 2)


def lut3d(xp, RGB, LUT, G):
    x = xp.clip(RGB, 0, 1) * (G - 1)
    cell = xp.clip(xp.floor(x), 0, G - 2)
    fr, fg, fb = x - cell
    r, g, b = xp.asarray(cell, dtype=xp.int64)
    high = xp.maximum(xp.maximum(fr, fg), fb)
    low = xp.minimum(xp.minimum(fr, fg), fb)
    middle = fr + fg + fb - high - low
    # The way from the cell's first corner to its last: first along the largest part, at last along the least.
    first = fr >= high, (fg >= high) & (fr < high), (fb >= high) & (fr < high) & (fg < high)
    last = fr <= low, (fg <= low) & (fr > low), (fb <= low) & (fr > low) & (fg > low)
    one = [xp.asarray(k, dtype=xp.int64) for k in first]
    two = [1 - xp.asarray(k, dtype=xp.int64) for k in last]
    corners = [LUT[r, g, b], LUT[r + one[0], g + one[1], b + one[2]]]
    corners += [LUT[r + two[0], g + two[1], b + two[2]], LUT[r + 1, g + 1, b + 1]]
    weights = 1 - high, high - middle, middle - low, low
    return sum(c * w[:, None] for c, w in zip(corners, weights)).T


def spline_eval(xp, KNOT, COEF, X, K):
    low, step = xp.asarray(X * 0, dtype=xp.int64), K // 2
    while step > 0:
        low = xp.where(KNOT[low + step] <= X, low + step, low)
        step //= 2
    d, y = X - KNOT[low], COEF[0][low]
    for k in range(1, 4):
        y = y * d + COEF[k][low]
    return y


def radix_select(xp, X, COUNT, M, K):
    bits = xp.asarray(xp.asarray(X, dtype=xp.float32).view(xp.int32), dtype=xp.int64) & 0xFFFFFFFF
    key = xp.where(bits >> 31 == 1, bits ^ 0xFFFFFFFF, bits | 0x80000000)
    kept = xp.sort(key, axis=1)[:, -K:][:, :1]
    counts, row = COUNT, xp.arange(M)[:, None]
    for n in range(4):
        shift = 24 - 8 * n
        among = key >> (shift + 8) == kept >> (shift + 8)
        place = xp.where(among, (row * 4 + n) * 256 + (key >> shift & 255), 1024 * M)
        found = xp.bincount(xp.reshape(place, (-1,)), minlength=1024 * M + 1)[:-1]
        counts = counts + xp.reshape(found, (M, 4, 256))
    return counts, xp.sort(X, axis=1)[:, -K:][:, 0]


def ban_ngrams(xp, ID, LEN, LOGITS, B, L, V, G):
    end = xp.asarray(LEN, dtype=xp.int64)[:, None]
    tail = xp.clip(end - (G - 1) + xp.arange(G - 1)[None, :], 0, L - 1)
    last = xp.take_along_axis(ID, tail, 1)
    same = xp.arange(L - G + 1)[None, :] + G - 1 < end
    for k in range(G - 1):
        same = same & (ID[:, k : L - G + 1 + k] == last[:, k : k + 1])
    # A bin behind the tokens takes what is not banned.
    place = xp.where(same, xp.arange(B)[:, None] * V + ID[:, G - 1 :], B * V)
    banned = xp.bincount(xp.reshape(place, (-1,)), minlength=B * V + 1)[:-1] > 0
    return xp.where(xp.reshape(banned, (B, V)), float("-inf"), LOGITS)

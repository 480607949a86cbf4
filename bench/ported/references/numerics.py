"""Vision, stencils, transforms, graphs and other numerical codes."""


def _at(xp, x, dy, dx, fill=0.0):
    """x[.., i + dy, j + dx], and `fill` outside."""
    h, w = x.shape[-2:]
    out = x * 0 + fill
    ys, yd = slice(max(dy, 0), max(h + min(dy, 0), 0)), slice(max(-dy, 0), max(h - max(dy, 0), 0))
    xs, xd = slice(max(dx, 0), max(w + min(dx, 0), 0)), slice(max(-dx, 0), max(w - max(dx, 0), 0))
    out[..., yd, xd] = x[..., ys, xs]
    return out


def _around(xp, x):
    return _at(xp, x, -1, 0) + _at(xp, x, 1, 0) + _at(xp, x, 0, -1) + _at(xp, x, 0, 1)


def _whole(xp, x):
    return xp.asarray(x, dtype=xp.int64)


def nms_mask(xp, BOX, threshold, N):
    x, y, u, v = BOX[:, 0], BOX[:, 1], BOX[:, 0] + BOX[:, 2], BOX[:, 1] + BOX[:, 3]

    def overlap(low, high):
        most, least = xp.minimum(high[:, None], high[None, :]), xp.maximum(low[:, None], low[None, :])
        return xp.clip(most - least, 0, None)

    both = overlap(x, u) * overlap(y, v)
    area = (u - x) * (v - y)
    later = xp.arange(N)[None, :] > xp.arange(N)[:, None]
    return (both > threshold * (area[:, None] + area[None, :] - both)) & later


def _clamped(xp, X, y, x):
    """X [C, H, W] at places [R, P] within its edges, bilinear: [C, R, P]."""
    h, w = X.shape[1:]
    y, x = xp.clip(y, 0, h - 1), xp.clip(x, 0, w - 1)
    yl, xl = _whole(xp, xp.floor(y)), _whole(xp, xp.floor(x))
    yh, xh = xp.clip(yl + 1, None, h - 1), xp.clip(xl + 1, None, w - 1)
    fy, fx = y - yl, x - xl
    top = X[:, yl, xl] * (1 - fx) + X[:, yl, xh] * fx
    return top * (1 - fy) + (X[:, yh, xl] * (1 - fx) + X[:, yh, xh] * fx) * fy


def roi_align(xp, X, BOX, R, C, H, W):
    k, side = xp.arange(4), xp.arange(7)
    y1, x1 = BOX[:, 1] * H * 0.5, BOX[:, 0] * W * 0.5
    bh, bw = xp.clip(BOX[:, 3] * H * 0.5, 1, None) / 7, xp.clip(BOX[:, 2] * W * 0.5, 1, None) / 7
    total = 0.0
    for s in k:
        y = y1[:, None] + (side + 0.25 + 0.5 * (s // 2)) * bh[:, None]
        x = x1[:, None] + (side + 0.25 + 0.5 * (s % 2)) * bw[:, None]
        ys, xs = xp.broadcast_to(y[:, :, None], (R, 7, 7)), xp.broadcast_to(x[:, None, :], (R, 7, 7))
        total = total + _clamped(xp, X, ys.reshape(R, 49), xs.reshape(R, 49))
    return xp.moveaxis(total / 4, 0, 1).reshape(R, C, 7, 7)


def bicubic_upsample(xp, X, H, W, H2, W2):
    def matrix(n, big):
        at = (xp.arange(big) + 0.5) * 0.5 - 0.5
        first, rows = xp.floor(at), 0.0
        for k in range(4):
            d = xp.abs(at - first + 1 - k)
            near, far = (1.25 * d - 2.25) * d * d + 1, ((-0.75 * d + 3.75) * d - 6) * d + 3
            hit = xp.clip(first + k - 1, 0, n - 1)[:, None] == xp.arange(n)[None, :]
            rows = rows + xp.where(hit, xp.where(d <= 1, near, far)[:, None], 0.0)
        return xp.asarray(rows, dtype=X.dtype)

    return matrix(H, H2) @ X @ matrix(W, W2).T


def bilinear_x2(xp, X, H, W):
    def places(n):
        at = xp.clip((xp.arange(2 * n) + 0.5) * 0.5 - 0.5, 0.0, None)
        low = xp.asarray(xp.floor(at), dtype=xp.int64)
        return low, xp.clip(low + 1, 0, n - 1), at - low

    (y0, y1, wy), (x0, x1, wx) = places(H), places(W)
    rows = X[:, y0] + (X[:, y1] - X[:, y0]) * wy[:, None]
    return rows[:, :, x0] + (rows[:, :, x1] - rows[:, :, x0]) * wx


def grid_sample(xp, X, G, B, H, W):
    padded = xp.pad(X, ((0, 0), (0, 0), (1, 1), (1, 1)))
    x, y = ((G[..., 0] + 1) * W - 1) * 0.5, ((G[..., 1] + 1) * H - 1) * 0.5
    x0, y0 = xp.floor(x), xp.floor(y)
    fx, fy = (x - x0)[:, None], (y - y0)[:, None]
    b = xp.arange(B)[:, None, None]

    def at(yy, xx):
        inside = (yy >= 0) & (yy < H) & (xx >= 0) & (xx < W)
        yy, xx = (_whole(xp, xp.where(inside, z + 1, 0)) for z in (yy, xx))
        return xp.moveaxis(padded[b, :, yy, xx], 3, 1)

    top = at(y0, x0) * (1 - fx) + at(y0, x0 + 1) * fx
    return top * (1 - fy) + (at(y0 + 1, x0) * (1 - fx) + at(y0 + 1, x0 + 1) * fx) * fy


def jacobi(xp, U, F, h2):
    return 0.25 * (_around(xp, U) - h2 * F)


def acoustic_wave(xp, U, OLD, C2):
    taps = (-2.8472222222, 1.6, -0.2, 0.0253968254, -0.0017857143)
    lap = 2 * taps[0] * U
    for k in range(1, 5):
        lap = lap + taps[k] * (_at(xp, U, -k, 0) + _at(xp, U, k, 0) + _at(xp, U, 0, -k) + _at(xp, U, 0, k))
    return 2 * U - OLD + C2 * lap


def gray_scott(xp, U, V, feed, kill):
    r = U * V * V
    u = U + 0.16 * (_around(xp, U) - 4 * U) - r + feed * (1 - U)
    return u, V + 0.08 * (_around(xp, V) - 4 * V) + r - (feed + kill) * V


def game_of_life(xp, X):
    n = sum(_at(xp, X, a, b, 0) for a in (-1, 0, 1) for b in (-1, 0, 1) if a or b)
    return (n == 3) | ((n == 2) & (X > 0))


def lattice_boltzmann(xp, F, omega):
    cx, cy = (0, 1, 0, -1, 0, 1, -1, -1, 1), (0, 0, 1, 0, -1, 1, 1, -1, -1)
    wt = (0.44444444,) + (0.11111111,) * 4 + (0.02777778,) * 4
    f = xp.stack([_at(xp, F[k], -cy[k], -cx[k], wt[k]) for k in range(9)])
    rho = xp.sum(f, axis=0)
    u = sum(f[k] * cx[k] for k in range(9)) / rho
    v = sum(f[k] * cy[k] for k in range(9)) / rho
    out = []
    for k in range(9):
        c = 3 * (u * cx[k] + v * cy[k])
        out.append(f[k] + omega * (wt[k] * rho * (1 + c + 0.5 * c * c - 1.5 * (u * u + v * v)) - f[k]))
    return xp.stack(out)


def nbody(xp, P, M, soft):
    d = P[:, None, :] - P[:, :, None]
    r = 1 / xp.sqrt(xp.sum(d * d, axis=0) + soft * soft)
    return xp.sum(d * (M[None, :] * r**3), axis=2)


def fft_rows(xp, RE, IM):
    y = xp.fft.fft(RE + 1j * IM)
    return y.real, y.imag


def hadamard_rows(xp, X, scale, M):
    x = X
    for s in range(8):
        x = x.reshape(M, 256 >> (s + 1), 2, 1 << s)
        x = xp.stack([x[:, :, 0] + x[:, :, 1], x[:, :, 0] - x[:, :, 1]], 2)
    return x.reshape(M, 256) * scale


def _erf(xp, x):
    if hasattr(xp, "erf"):
        return xp.erf(x)
    import math

    return xp.vectorize(math.erf)(x)


def black_scholes(xp, S, X, T, rate, vol):
    s, x, t = S * 25 + 5, X * 99 + 1, T * 9.75 + 0.25
    root = vol * xp.sqrt(t)
    d1 = (xp.log(s / x) + (rate + 0.5 * vol * vol) * t) / root
    later = x * xp.exp(-rate * t)
    n1, n2 = (0.5 + 0.5 * _erf(xp, d * 0.7071067811865476) for d in (d1, d1 - root))
    call = s * n1 - later * n2
    return call, call - s + later


def mandelbrot(xp, X, Y, H, W, STEPS):
    cx, cy = (xp.asarray(z, dtype=xp.float32) for z in (X[None, :], Y[:, None]))
    x = y = xp.zeros((H, W), dtype=xp.float32)
    n = xp.zeros((H, W), dtype=xp.int32)
    for _ in range(STEPS):
        xx, yy = x * x, y * y
        inside = xx + yy <= 4
        both = x * y
        x, y = xp.where(inside, xx - yy + cx, x), xp.where(inside, both + both + cy, y)
        n = n + inside
    return n


def min_plus_product(xp, A, B, C, K):
    c = C
    for k in range(K):
        c = xp.minimum(c, A[:, k, None] + B[None, k, :])
    return c


def thomas_columns(xp, A, C, D, M):
    cp, x = C * 0, D * 0
    c = d = C[0] * 0
    for i in range(M):
        s = 1 / (4 - A[i] * c)
        c, d = C[i] * s, (D[i] - A[i] * d) * s
        cp[i], x[i] = c, d
    for i in range(M - 2, -1, -1):
        x[i] = x[i] - cp[i] * x[i + 1]
    return cp, x


def sobel(xp, X):
    gx = gy = 0.0
    for k, t in ((-1, 1), (0, 2), (1, 1)):
        gx = gx + t * (_at(xp, X, k, 1) - _at(xp, X, k, -1))
        gy = gy + t * (_at(xp, X, 1, k) - _at(xp, X, -1, k))
    return xp.sqrt(gx * gx + gy * gy)


def median3x3(xp, X):
    return xp.sort(xp.stack([_at(xp, X, a, b) for a in (-1, 0, 1) for b in (-1, 0, 1)]), axis=0)[4]


def sddmm(xp, ROW, COL, VALUE, A, B):
    return xp.sum(A[ROW] * B[COL], axis=1) * VALUE


def jagged_mean(xp, X, START, B):
    parts = [X[START[b] : START[b + 1]] for b in range(B)]
    return xp.stack([xp.sum(p, axis=0) / max(len(p), 1) for p in parts])


def jagged_to_padded(xp, X, START, pad, B, L, D):
    y = xp.zeros((B, L, D), dtype=X.dtype) + pad
    for b in range(B):
        part = X[START[b] : START[b + 1]][:L]
        y[b, : len(part)] = part
    return y


def kmeans_assign(xp, X, C):
    d = xp.sum(X * X, axis=1)[:, None] + xp.sum(C * C, axis=1)[None, :] - 2 * X @ C.T
    return xp.argmin(d, axis=1), xp.clip(xp.amin(d, axis=1), 0, None)


def atax(xp, A, X, Y):
    return Y + (A @ X) @ A


def depthwise_conv(xp, X, WT):
    x, y = xp.moveaxis(X, 3, 1), 0.0
    for r in range(3):
        for s in range(3):
            y = y + _at(xp, x, r - 1, s - 1) * WT[r, s][None, :, None, None]
    return xp.moveaxis(y, 1, 3)


def _philox(xp, seed, counter):
    """The first word of philox4x32-10."""
    mask = 0xFFFFFFFF
    c = [counter & mask, counter >> 32, counter * 0, counter * 0]
    k0, k1 = seed & mask, seed >> 32
    for _ in range(10):
        a, b = c[0] * 0xD2511F53, c[2] * 0xCD9E8D57
        c = [(b >> 32 & mask) ^ c[1] ^ k0, b & mask, (a >> 32 & mask) ^ c[3] ^ k1, a & mask]
        k0, k1 = (k0 + 0x9E3779B9) & mask, (k1 + 0xBB67AE85) & mask
    return c[0]


def ising_sweep(xp, S, parity, beta, seed, H, W):
    y, x = xp.arange(H)[:, None], xp.arange(W)[None, :]
    bits = _philox(xp, seed, xp.asarray(y * W + x, dtype=xp.uint64))
    u = xp.asarray(bits >> 8, dtype=xp.float32) * (1 / 16777216)
    flips = ((y + x) % 2 == parity) & (u < xp.exp(-2 * beta * S * _around(xp, S * 1.0)))
    return xp.where(flips, -S, S)


def csr_spmm(xp, START, COL, VALUE, B, M):
    rows = []
    for i in range(M):
        e = slice(int(START[i]), int(START[i + 1]))
        rows.append(VALUE[e] @ B[COL[e]])
    return xp.stack(rows)


def su3_links(xp, U, W, NEXT, TRACE, V):
    next_ = xp.clip(NEXT, 0, V - 1)
    a, b, c, d = U[..., 0], U[..., 1], W[next_][..., 0], -W[next_][..., 1]
    re, im = a @ c - b @ d, a @ d + b @ c
    return xp.stack([re, im], -1), TRACE + xp.einsum("vkk->", re)


def small_batched_products(xp, A, X, C, alpha, beta):
    return alpha * (A @ X) + beta * C

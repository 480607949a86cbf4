"""Points, pictures, fields and lattices."""


def neighborhood_attention(xp, Q, K, V, scale, H, W):
    y = xp.clip(xp.arange(H) - 3, 0, H - 7)[:, None] + xp.arange(7)
    x = xp.clip(xp.arange(W) - 3, 0, W - 7)[:, None] + xp.arange(7)
    k = K[y[:, None, :, None], x[None, :, None, :]]
    v = V[y[:, None, :, None], x[None, :, None, :]]
    s = xp.einsum("hwd,hwabd->hwab", Q, k) * scale
    s = s.reshape(H, W, 49)
    p = xp.exp(s - xp.amax(s, -1)[..., None])
    p = p / p.sum(-1)[..., None]
    return xp.einsum("hwn,hwnd->hwd", p, v.reshape(H, W, 49, v.shape[-1]))


def deformable_attention(xp, V, SHAPE, START, LOC, WT, Q, H, L, P, D):
    acc = xp.zeros((Q, H, D))
    heads = xp.arange(H)[None, :, None]
    for level in range(L):
        hh, ww = SHAPE[level, 0] + 5, SHAPE[level, 1] + 6
        start = START[level] + 30 * level
        x, y = LOC[:, :, level, :, 0] * ww - 0.5, LOC[:, :, level, :, 1] * hh - 0.5
        x0, y0 = xp.floor(x), xp.floor(y)
        for dy in range(2):
            for dx in range(2):
                u, v = x0 + dx, y0 + dy
                on = (v >= 0) & (v < hh) & (u >= 0) & (u < ww)
                w = (1 - abs(x - u)) * (1 - abs(y - v)) * WT[:, :, level]
                at = xp.asarray(xp.where(on, start + v * ww + u, 0 * u), dtype=xp.int64)
                acc = acc + (xp.where(on, w, 0.0)[..., None] * V[at, heads]).sum(2)
    return acc


def cost_volume(xp, A, B, C, H, W):
    b = xp.pad(B, ((0, 0), (4, 4), (4, 4)))
    return xp.stack([(A * b[:, d // 9 : d // 9 + H, d % 9 : d % 9 + W]).mean(0) for d in range(81)], 0)


def hash_encode(xp, X, TABLE, L, S):
    out = []
    for level in range(L):
        x = X * (2.0 ** (level * 0.5) * 16 - 1) + 0.5
        cell = xp.asarray(xp.floor(x), dtype=xp.int64)
        f, y = x - xp.floor(x), 0.0
        for c in range(8):
            h, w = 0, 1.0
            for k, factor in enumerate((1, 2654435761, 805459861)):
                bit = c >> k & 1
                h = h ^ (((cell[:, k] + bit) * factor) & 0xFFFFFFFF)
                w = w * (f[:, k] if bit else 1 - f[:, k])
            y = y + w[:, None] * TABLE[level, h % S]
        out.append(y)
    return xp.stack(out, 1)


EX = (0, 1, -1, 0, 0, 0, 0, 1, -1, 1, -1, 1, -1, 1, -1, 0, 0, 0, 0)
EY = (0, 0, 0, 1, -1, 0, 0, 1, -1, -1, 1, 0, 0, 0, 0, 1, -1, 1, -1)
EZ = (0, 0, 0, 0, 0, 1, -1, 0, 0, 0, 0, 1, -1, -1, 1, 1, -1, -1, 1)
BACK = (0, 2, 1, 4, 3, 6, 5, 8, 7, 10, 9, 12, 11, 14, 13, 16, 15, 18, 17)


def lbm_d3q19(xp, F, omega, D, H, W):
    z, y, x = xp.arange(D)[:, None, None], xp.arange(H)[None, :, None], xp.arange(W)[None, None, :]
    p = xp.pad(F, ((0, 0), (1, 1), (1, 1), (1, 1)))
    f, rho, u = [], 0.0, [0.0, 0.0, 0.0]
    for k in range(19):
        a, b, c = z - EZ[k], y - EY[k], x - EX[k]
        on = (a >= 0) & (a < D) & (b >= 0) & (b < H) & (c >= 0) & (c < W)
        moved = p[k, 1 - EZ[k] : 1 - EZ[k] + D, 1 - EY[k] : 1 - EY[k] + H, 1 - EX[k] : 1 - EX[k] + W]
        f.append(xp.where(on, moved, F[BACK[k]]))
        rho = rho + f[k]
        u = [s + f[k] * e[k] for s, e in zip(u, (EX, EY, EZ))]
    u = [s / rho for s in u]
    square = 1.5 * sum(s * s for s in u)
    out = []
    for k in range(19):
        weight = 0.33333333 if k == 0 else 0.05555556 if k < 7 else 0.02777778
        c = 3 * sum(s * e[k] for s, e in zip(u, (EX, EY, EZ)))
        out.append(f[k] + omega * (weight * rho * (1 + c + 0.5 * c * c - square) - f[k]))
    return xp.stack(out, 0)


def householder_qr(xp, A, B, M, N):
    a, tau = A + 0, []
    row, col = xp.arange(M)[:, None], xp.arange(N)[None, :]
    for k in range(N):
        x = a[:, :, k]
        below = xp.where(xp.arange(M) > k, x, 0.0)
        s = (below * below).sum(1)
        top = x[:, k]
        norm = xp.sqrt(top * top + s)
        beta = xp.where(top > 0, -norm, norm)
        flat = s == 0
        t = xp.where(flat, 0.0, (beta - top) / xp.where(flat, 1.0, beta))
        v = xp.where(xp.arange(M) == k, 1.0, below / xp.where(flat, 1.0, top - beta)[:, None])
        w = (v[:, :, None] * a).sum(1) * t[:, None]
        after = xp.where((row >= k) & (col >= k), a - v[:, :, None] * w[:, None, :], a)
        a = xp.where((col == k) & (row > k), v[:, :, None], after)
        tau.append(t)
    return a, xp.stack(tau, 1)


def bsr_matvec(xp, ROW, COL, A, X, R, NB):
    part = xp.searchsorted(ROW[1:], xp.arange(NB), side="right")
    products = xp.einsum("nij,nj->ni", A, X[COL])
    y = xp.zeros((R, 4), dtype=A.dtype)
    if hasattr(y, "index_add_"):
        return y.index_add_(0, part, products)
    xp.add.at(y, part, products)
    return y


def csr_spmv(xp, PTR, COL, VAL, X, R, N):
    row = xp.searchsorted(PTR[1:], xp.arange(N), side="right")
    y = xp.zeros((R,), dtype=VAL.dtype)
    if hasattr(y, "index_add_"):
        return y.index_add_(0, row, VAL * X[COL])
    xp.add.at(y, row, VAL * X[COL])
    return y


def lennard_jones(xp, X, LIST, box, cut, N):
    d = X[:, None] - X[LIST]
    d = d - box * xp.round(d / box)
    r2 = (d * d).sum(-1)
    on = (r2 < cut * cut) & (LIST != xp.arange(N)[:, None])
    inv = 1 / xp.where(on, r2 + 0.3, 1.0)
    s6 = inv**3
    f = xp.where(on, (48 * s6 * s6 - 24 * s6) * inv, 0.0)
    return (f[..., None] * d).sum(1), xp.where(on, 4 * s6 * (s6 - 1), 0.0).sum(1)


def chacha20(xp, KEY, NONCE, X, N):
    wide = lambda v: xp.asarray(v, dtype=xp.int64) & 0xFFFFFFFF  # noqa: E731
    key, nonce = wide(KEY), wide(NONCE)
    zero = xp.zeros((N,), dtype=xp.int64)
    start = [zero + c for c in (0x61707865, 0x3320646E, 0x79622D32, 0x6B206574)]
    start += [zero + key[k] for k in range(8)] + [xp.arange(N)] + [zero + nonce[k] for k in range(3)]
    w = list(start)
    for _ in range(10):
        for q in range(8):
            s = q % 4
            i = [s] + [4 * (n + 1) + (s if q < 4 else (s + n + 1) % 4) for n in range(3)]
            for left, right in ((16, 12), (8, 7)):
                for x, y, z, by in ((i[0], i[1], i[3], left), (i[2], i[3], i[1], right)):
                    w[x] = (w[x] + w[y]) & 0xFFFFFFFF
                    v = w[z] ^ w[x]
                    w[z] = (v << by | v >> (32 - by)) & 0xFFFFFFFF
    return xp.stack([wide(X)[:, k] ^ ((w[k] + start[k]) & 0xFFFFFFFF) for k in range(16)], 1)

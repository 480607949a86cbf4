"""Chains of attention, recurrences and gradients."""


def group_norm_gradient(xp, X, DY, GAMMA, MEAN, RSTD, DGAMMA, DBETA, B, C, S, G):
    m, r = MEAN.reshape(B, G, 1, 1), RSTD.reshape(B, G, 1, 1)
    dy, g = DY.reshape(B, G, C // G, S), GAMMA.reshape(1, G, C // G, 1)
    xh = (X.reshape(B, G, C // G, S) - m) * r
    n = 1 / (C // G * S)
    s1 = (dy * g * xh).sum((2, 3), keepdims=True)
    s2 = (dy * g).sum((2, 3), keepdims=True)
    dx = (r * (dy * g - n * (s2 + xh * s1))).reshape(B, C, S)
    return dx, DGAMMA + (dy * xh).sum((0, 3)).reshape(C), DBETA + dy.sum((0, 3)).reshape(C)


def ring_attention_step(xp, X, K, V, O, LSE, scale):
    s = xp.einsum("hqd,hsd->hqs", X, K) * scale
    top = xp.maximum(xp.amax(s, -1), LSE)[..., None]
    p, old = xp.exp(s - top), xp.exp(LSE[..., None] - top)
    l = p.sum(-1)[..., None] + old
    return (xp.einsum("hqs,hsd->hqd", p, V) + old * O) / l, (top + xp.log(l))[..., 0]


def swin_attention(xp, QKV, BIAS, by, B, H, Y, X, D):
    y0, x0 = xp.arange(Y), xp.arange(X)
    t = QKV[:, (y0 + by) % Y][:, :, (x0 + by) % X]
    t = t.reshape(B, Y // 8, 8, X // 8, 8, 3, H, D)
    windows = (B, H, Y // 8, X // 8, 64, D)
    q, k, v = [xp.einsum("byixjhd->bhyxijd", t[:, :, :, :, :, n]).reshape(windows) for n in range(3)]
    ry = (y0 >= Y - 8) * 1 + (y0 >= Y - by) * 1
    rx = (x0 >= X - 8) * 1 + (x0 >= X - by) * 1
    reg = (ry[:, None] * 3 + rx[None, :]).reshape(Y // 8, 8, X // 8, 8)
    reg = xp.einsum("yixj->yxij", reg).reshape(Y // 8, X // 8, 64)
    at = xp.arange(64)
    dy = (at // 8)[:, None] - (at // 8)[None, :] + 7
    dx = (at % 8)[:, None] - (at % 8)[None, :] + 7
    s = xp.einsum("bhyxid,bhyxjd->bhyxij", q, k) / D**0.5 + BIAS[:, dy * 15 + dx][None, :, None, None]
    s = s + xp.where(reg[..., :, None] == reg[..., None, :], 0.0, -100.0)
    e = xp.exp(s - xp.amax(s, -1)[..., None])
    o = xp.einsum("bhyxij,bhyxjd->bhyxid", e / e.sum(-1)[..., None], v).reshape(B, H, Y // 8, X // 8, 8, 8, D)
    o = xp.einsum("bhyxijd->byixjhd", o).reshape(B, Y, X, H, D)
    return o[:, (y0 - by) % Y][:, :, (x0 - by) % X]


def decode_int4_kv(xp, X, KQ, VQ, KS, VS, LEN, B, H, S, G, D):
    def wide(q, s):
        c = xp.stack([q & 15, q >> 4], -1).reshape(B, H, S, D)
        return (c - s[..., 1:]) * s[..., :1]
    k, v = wide(KQ, KS), wide(VQ, VS)
    s = xp.einsum("bhgd,bhsd->bhgs", X, k) / D**0.5
    n = (LEN + 1)[:, None, None]
    per = (n + 7) // 8
    part, at = xp.arange(8)[None, :, None], xp.arange(S)[None, None, :]
    on = ((at >= part * per) & (at < (part + 1) * per) & (at < n))[:, None, :, None, :]
    t = xp.where(on, s[:, :, None], -1e300)
    m = xp.amax(t, -1)[..., None]
    p = xp.where(on, xp.exp(t - m), 0.0)
    l = p.sum(-1)
    some = xp.where(l > 0, l, 1.0)
    o = xp.einsum("bhpgs,bhsd->bhpgd", p, v) / some[..., None]
    return o, xp.where(l > 0, m[..., 0] + xp.log(some), -xp.inf)


def mlstm_recurrent(xp, Q, X, VV, I, F, H, L, V, K):
    c, n, m, out = xp.zeros((H, K, V)), xp.zeros((H, K)), xp.zeros((H,)), []
    for t in range(L):
        f, i = F[:, t], I[:, t]
        logf = xp.where(f < 0, f, 0.0 * f) - xp.log(1 + xp.exp(-abs(f)))
        top = xp.maximum(logf + m, i)
        a, b, m = xp.exp(logf + m - top), xp.exp(i - top), top
        c = a[:, None, None] * c + b[:, None, None] * X[:, t, :, None] * VV[:, t, None, :]
        n = a[:, None] * n + b[:, None] * X[:, t]
        q = Q[:, t] / K**0.5
        num, den = (c * q[..., None]).sum(1), abs((n * q).sum(1))
        out.append(num / xp.maximum(den, xp.exp(-m))[:, None])
    return xp.stack(out, 1), c


def ttt_linear(xp, Q, K, V, W0, eta, L, D):
    w, out = W0, []
    low = xp.arange(16)[:, None] >= xp.arange(16)[None, :]
    for c in range(L // 16):
        q, k, v = (x[:, c * 16 : c * 16 + 16] for x in (Q, K, V))
        e = xp.einsum("hik,hkj->hij", k, w) - v
        s = xp.where(low[None], xp.einsum("hid,hjd->hij", q, k), 0.0)
        out.append(xp.einsum("hik,hkj->hij", q, w) - eta * xp.einsum("hij,hjd->hid", s, e))
        w = w - eta * xp.einsum("hik,hij->hkj", k, e)
    return xp.concatenate(out, 1), w


def min_lstm_scan(xp, F, I, X, B, L, D):
    f, i = 1 / (1 + xp.exp(-F)), 1 / (1 + xp.exp(-I))
    f, i, h, out = f / (f + i), i / (f + i), 0.0, []
    for t in range(L):
        h = f[:, t] * h + i[:, t] * (X[:, t] + 0.5)
        out.append(h)
    return xp.stack(out, 1)

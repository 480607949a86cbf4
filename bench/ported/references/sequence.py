"""Linear attention, state space models, optimizers and quantized formats."""


def _sigmoid(xp, x):
    return 1 / (1 + xp.exp(-x))


def _softplus(xp, x):
    return xp.where(x <= 20.0, xp.log(1 + xp.exp(xp.clip(x, None, 20.0))), x)


def gla_recurrent(xp, Q, KEY, VAL, G, scale, T):
    s, out = 0.0, []
    for t in range(T):
        s = s * xp.exp(-G[:, t, :, :, None]) + KEY[:, t, :, :, None] * VAL[:, t, :, None, :]
        out.append(xp.sum(Q[:, t, :, :, None] * scale * s, axis=-2))
    return xp.stack(out, 1)


def delta_rule_recurrent(xp, Q, KEY, VAL, BETA, STATE, scale, T):
    k = KEY / xp.sqrt(xp.sum(KEY * KEY, axis=-1, keepdims=True) + 1e-6)
    s, out = STATE, []
    for t in range(T):
        kt = k[:, t, :, :, None]
        u = (VAL[:, t, :, None, :] - xp.sum(s * kt, axis=-2, keepdims=True)) * BETA[:, t, :, None, None]
        s = s + kt * u
        out.append(xp.sum(Q[:, t, :, :, None] * scale * s, axis=-2))
    return s, xp.stack(out, 1)


def rwkv6_recurrent(xp, R, KEY, VAL, W, U, T):
    s, out = 0.0, []
    for t in range(T):
        kv = KEY[:, :, t, :, None] * VAL[:, :, t, None, :]
        out.append(xp.sum(R[:, :, t, :, None] * (s + U[None, :, :, None] * kv), axis=-2))
        s = s * xp.exp(-xp.exp(W[:, :, t, :, None])) + kv
    return xp.stack(out, 2)


def hgrn_recurrent(xp, X, G, H, T):
    h, out = H, []
    for t in range(T):
        h = xp.exp(-G[:, t]) * h + X[:, t]
        out.append(h)
    return h, xp.stack(out, 1)


def retention_chunk(xp, Q, KEY, VAL, LOG2, T):
    apart = (xp.arange(T)[:, None] - xp.arange(T)[None, :])[None]
    decay = xp.where(apart >= 0, 2.0 ** (-xp.abs(LOG2)[:, None, None] * xp.clip(apart, 0, None)), 0.0)
    return ((Q @ xp.swapaxes(KEY, -1, -2)) * decay) @ VAL


def token_shift(xp, X, MIX):
    before = xp.concatenate([X[:, :1] * 0, X[:, :-1]], axis=1)
    return X + (before - X) * MIX


def conv1d_update(xp, X, STATE, WEIGHT, BIAS, W):
    taps = xp.concatenate([STATE, X[:, None, :]], axis=1)
    y = xp.sum(taps * WEIGHT[None], axis=1) + (0 if BIAS is None else BIAS)
    return taps[:, 1:], y * _sigmoid(xp, y)


def selective_state_update(xp, S, X, DT, A, BM, CM, SKIP, Z, BIAS, H, G):
    dt = _softplus(xp, DT + BIAS)[..., None]
    group = xp.arange(H) // (H // G)
    b, c = BM[:, group][:, :, None, :], CM[:, group][:, :, None, :]
    s = S * xp.exp(dt * -A) + dt * b * X[..., None]
    return s, (xp.sum(s * c, axis=-1) + X * SKIP) * Z * _sigmoid(xp, Z)


def chunk_cumsum(xp, DT, A, BIAS, most, B, T, H, L):
    dt = xp.clip(_softplus(xp, DT + BIAS), None, most)
    dt = xp.concatenate([dt] + [dt[:, :1] * 0] * (-T % L), axis=1)
    dt = xp.swapaxes(dt, 1, 2).reshape(B, H, -1, L)
    return dt, xp.cumsum(dt * -A[None, :, None, None], axis=3)


def adamw(xp, P, G, M, V, lr, beta1, beta2, eps, decay, fix1, fix2):
    m, v = beta1 * M + (1 - beta1) * G, beta2 * V + (1 - beta2) * G * G
    return P * (1 - lr * decay) - lr * (m / fix1) / (xp.sqrt(v / fix2) + eps), m, v


def lion(xp, P, G, M, lr, beta1, beta2, decay):
    step = xp.sign(beta1 * M + (1 - beta1) * G)
    return P - lr * (step + decay * P), beta2 * M + (1 - beta2) * G


def adam_8bit(xp, P, G, M, V, SM, SV, lr, beta1, beta2, eps, N):
    def each(scales):
        return xp.repeat(scales, 256)[:N] if hasattr(xp, "add") else scales.repeat_interleave(256)[:N]

    def most(x):
        x = xp.concatenate([x, x[:1].repeat(-N % 256) * 0]) if N % 256 else x
        return xp.clip(xp.amax(x.reshape(-1, 256), axis=1), 1e-12, None)

    m = beta1 * (M * (each(SM) / 127)) + (1 - beta1) * G
    v = beta2 * (V * (each(SV) / 255)) + (1 - beta2) * G * G
    sm, sv = most(xp.abs(m)), most(v)
    codes = xp.floor(m * (127 / each(sm)) + 0.5), xp.floor(v * (255 / each(sv)) + 0.5)
    return P - lr * m / (xp.sqrt(v) + eps), codes[0], codes[1], sm, sv


def adafactor_rows(xp, G, R, C, beta, eps, mean):
    r = beta * R + (1 - beta) * xp.mean(G * G + eps, axis=1)
    return G / xp.sqrt(r / mean + eps)[:, None] / xp.sqrt(C + eps), r


NF4 = [-1.0, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453, -0.28444138169288635]
NF4 += [-0.18477343022823334, -0.09105003625154495, 0.0, 0.07958029955625534, 0.16093020141124725]
NF4 += [0.24611230194568634, 0.33791524171829224, 0.44070982933044434, 0.5626170039176941]
NF4 += [0.7229568362236023, 1.0]


def nf4_dequantize(xp, CODE, SCALE, B, N):
    pairs = xp.asarray(xp.stack([CODE >> 4, CODE & 15], -1), dtype=xp.int64)
    return (xp.asarray(NF4)[pairs].reshape(B, 64) * SCALE[:, None]).reshape(N)


def mxfp4_dequantize(xp, CODE, EXP, M, G, N):
    c = xp.asarray(xp.stack([CODE & 15, CODE >> 4], -1), dtype=xp.int64).reshape(M, G, 32)
    x = xp.asarray((0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0))[c & 7] * (1.0 - (c >> 3) * 2.0)
    return (x * 2.0 ** (EXP * 1.0 - 127)[:, :, None]).reshape(M, N)


def quantize_rows_int8(xp, X, threshold):
    kept = xp.where(xp.abs(X) < threshold, X, 0.0)
    most = xp.amax(xp.abs(kept), axis=1)
    return xp.floor(kept * (127 / xp.clip(most, 1e-20, None))[:, None] + 0.5), most


def _e4m3(xp, x):
    """The bits of finite values up to 448, rounded to nearest even."""
    a = xp.abs(x)
    e = xp.clip(xp.floor(xp.log2(xp.clip(a, 2.0**-9, None))), -6, 8)
    m = xp.round(a / 2.0 ** (e - 3))
    return xp.where(x < 0, 128, 0) + (e + 6) * 8 + m


def group_quant_fp8(xp, X, eps, M, G):
    x = X.reshape(M, G, 128)
    s = xp.clip(xp.amax(xp.abs(x), axis=2), eps, None) / 448
    return _e4m3(xp, x / s[:, :, None]).reshape(M, G * 128), s


def awq_dequantize(xp, W, Z, S, K, G, N, R):
    def nibbles(word):
        w = xp.asarray(word, dtype=xp.int64)
        codes = xp.stack([(w >> s) & 15 for s in (0, 16, 4, 20, 8, 24, 12, 28)], -1)
        return codes.reshape(w.shape[0], N) * 1.0

    def rows(x):
        return xp.stack([x] * R, 1).reshape(K, N)

    return (nibbles(W) - rows(nibbles(Z))) * rows(S)


def q8_0_matvec(xp, W, SW, X, SX):
    return xp.sum((W * 1.0 * X).sum(-1) * SW * SX, axis=1)


def ternary_matvec(xp, W, X, scale, M):
    w = xp.stack([((W >> 2 * k) & 3) * 1.0 - 1 for k in range(4)], 1).reshape(M, -1)
    return w @ (X * 1.0).reshape(-1) * scale


def gated_delta_rule(xp, Q, KEY, VAL, G, BETA, STATE, scale, T, H, HV):
    def heads(x):
        x = x / (xp.sqrt(xp.sum(x * x, axis=-1)) + 1e-6)[..., None]
        return xp.stack([x[:, :, h // (HV // H)] for h in range(HV)], 2)

    q, k = heads(Q) * scale, heads(KEY)
    s, out = STATE, []
    for t in range(T):
        s = s * xp.exp(-G[:, t])[..., None, None]
        u = (VAL[:, t] - xp.sum(s * k[:, t][..., None], axis=-2)) * BETA[:, t][..., None]
        s = s + k[:, t][..., None] * u[..., None, :]
        out.append(xp.sum(s * q[:, t][..., None], axis=-2))
    return s, xp.stack(out, 1)


def rope_2d(xp, Q, base, Y, X, D):
    d = xp.arange(D)
    freq = base ** (-(d % (D // 4)) / (D // 4))
    y, x = xp.arange(Y)[:, None, None], xp.arange(X)[None, :, None]
    angle = xp.where(d < D // 2, y + 0 * x, x + 0 * y) * freq
    quarter = D // 4
    a, b, c, e = (Q[..., k * quarter : (k + 1) * quarter] for k in range(4))
    other = xp.concatenate([-b, a, -e, c], axis=-1)
    return Q * xp.cos(angle) + other * xp.sin(angle)


def block_sparse_attention(xp, Q, KEYS, VALS, LIST, scale, H, N, D, L):
    blocks = -(-N // 32)
    pad = ((0, 0), (0, blocks * 32 - N), (0, 0))
    q, k, v = (xp.pad(x, pad).reshape(H, blocks, 32, D) for x in (Q, KEYS, VALS))
    h = xp.arange(H)[:, None, None]
    out = blocks * 32 - N
    lists = xp.asarray(LIST, dtype=xp.int64)
    kk, vv = k[h, lists].reshape(H, blocks, L * 32, D), v[h, lists].reshape(H, blocks, L * 32, D)
    on = (lists[..., None] * 32 + xp.arange(32)).reshape(H, blocks, 1, L * 32) < N
    s = xp.where(on, (q @ xp.swapaxes(kk, -1, -2)) * scale, -1e30)
    p = xp.where(on, xp.exp(s - xp.amax(s, -1)[..., None]), 0.0)
    l = xp.sum(p, axis=-1)[..., None]
    o = (p @ xp.asarray(vv, dtype=p.dtype)) / xp.clip(l, 1e-20, None)
    return o.reshape(H, blocks * 32, D)[:, : N if out else blocks * 32]


def lstm_cell(xp, X, H0, C0, W, U, BIAS):
    g = [X @ W[k].T + H0 @ U[k].T + BIAS[k] for k in range(4)]
    s = [1 / (1 + xp.exp(-x)) for x in g]
    c = s[1] * C0 + s[0] * xp.tanh(g[2])
    return s[3] * xp.tanh(c), c

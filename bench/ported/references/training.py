"""Norms, activations, rotations and losses of training libraries, with their gradients."""


def _sum(xp, x, axis=-1):
    return xp.sum(x, axis=axis, keepdims=True)


def _sigmoid(xp, x):
    return 1 / (1 + xp.exp(-x))


def _groups(xp, x, rows):
    return xp.stack([xp.sum(x[i : i + rows], axis=0) for i in range(0, x.shape[0], rows)])


def _log_softmax(xp, x):
    x = x - xp.amax(x, axis=-1, keepdims=True)
    return x - xp.log(_sum(xp, xp.exp(x)))


def rms_norm_gradient(xp, DY, X, W, R, N, ROWS):
    r = R[:, None]
    m = DY * W
    return r * m - r**3 / N * _sum(xp, m * X) * X, _groups(xp, DY * X * r, ROWS)


def fused_add_rms_norm(xp, X, RES, W, eps, N):
    z = X + RES
    return z / xp.sqrt(_sum(xp, z * z) / N + eps) * W, z


def dyt(xp, X, G, B, a):
    return xp.tanh(a * X) * G + B


def dyt_gradient(xp, DY, X, G, a, ROWS):
    t = xp.tanh(a * X)
    inner = DY * G * (1 - t * t)
    return a * inner, _groups(xp, inner * X, ROWS), _groups(xp, DY * t, ROWS), _groups(xp, DY, ROWS)


def geglu(xp, A, B):
    return 0.5 * A * (1 + xp.tanh(0.7978845608028654 * (A + 0.044715 * A**3))) * B


def geglu_gradient(xp, DC, A, B):
    root = 0.7978845608028654
    t = xp.tanh(root * (A + 0.044715 * A**3))
    slope = 0.5 * (1 + t) + 0.5 * A * (1 - t * t) * root * (1 + 3 * 0.044715 * A * A)
    return DC * B * slope, DC * 0.5 * A * (1 + t)


def swiglu_gradient(xp, DW, E, G):
    s = _sigmoid(xp, E)
    f = s * E
    return f * G, DW * f, DW * G * s * (1 + E * (1 - s))


def poly_norm(xp, X, W, B, eps, N):
    def normed(x):
        return x / xp.sqrt(_sum(xp, x * x) / N + eps)

    return W[0] * normed(X**3) + W[1] * normed(X * X) + W[2] * normed(X) + B[0]


def cross_entropy_smoothed(xp, X, LABEL, smoothing, cap, z_scale, V):
    t = xp.tanh(X / cap)
    x = cap * t
    most = xp.amax(x, axis=-1, keepdims=True)
    lse = most + xp.log(_sum(xp, xp.exp(x - most)))
    hit = xp.arange(V)[None, :] == LABEL[:, None]
    c = xp.sum(xp.where(hit, x, 0.0), axis=-1)
    z = (z_scale * lse * lse)[:, 0]
    flat = lse[:, 0]
    loss = (flat - c) * (1 - smoothing) + smoothing * flat - smoothing / V * xp.sum(x, axis=-1) + z
    g = xp.exp(x - lse) * (1 + 2 * z_scale * lse) - smoothing / V - xp.where(hit, 1 - smoothing, 0.0)
    return g * (1 - t * t), loss, z


def linear_cross_entropy(xp, E, C, LABEL):
    return -xp.take_along_axis(_log_softmax(xp, E @ C.T), LABEL[:, None], axis=1)[:, 0]


def kl_div(xp, LOGP, TARGET, eps):
    return xp.sum(TARGET * (xp.log(xp.clip(TARGET, eps, None)) - LOGP), axis=-1)


def jsd(xp, X, Y, beta):
    bp, bq = beta * xp.exp(Y), (1 - beta) * xp.exp(X)
    lm = xp.log(bp + bq)
    return xp.sum(bp * Y + bq * X - (bp + bq) * lm, axis=-1), bq * (X - lm)


def tvd(xp, P, Q):
    return xp.sum(0.5 * xp.abs(P - Q), axis=-1), xp.where(P > Q, 0.5, -0.5)


def sparsemax(xp, X, N):
    z = xp.flip(xp.sort(X, axis=1), (1,))
    on = z > (xp.cumsum(z, axis=1) - 1) / (xp.arange(N) + 1)
    tau = (_sum(xp, xp.where(on, z, 0.0)) - 1) / xp.sum(on, axis=1, keepdims=True)
    return xp.clip(X - tau, 0, None)


def sparsemax_gradient(xp, Y, G):
    on = Y > 0
    count = xp.sum(on, axis=1, keepdims=True)
    return xp.where(on, G - _sum(xp, xp.where(on, G, 0.0)) / xp.clip(count, 1e-6, None), 0.0)


def softmax_gradient(xp, Y, DY):
    return Y * (DY - _sum(xp, Y * DY))


def qk_norm_rope(xp, QKV, WQ, WK, POS, FREQ, eps, H, K, D):
    x = QKV[:, : H + K]
    w = xp.concatenate([xp.stack([WQ] * H), xp.stack([WK] * K)])
    x = x / xp.sqrt(_sum(xp, x * x) / D + eps) * w
    angle = (POS[:, None] * FREQ[None, :])[:, None, :]
    c, d = xp.cos(angle), xp.sin(angle)
    a, b = x[..., : D // 2], x[..., D // 2 :]
    return xp.concatenate([xp.concatenate([a * c - b * d, b * c + a * d], axis=-1), QKV[:, H + K :]], axis=1)


def mrope(xp, Q, COS, SIN, A, B, D):
    def table(t):
        return xp.concatenate([t[0, :, :A], t[1, :, A : A + B], t[2, :, A + B :]], axis=-1)[:, None, :]

    x, y, c, d = Q[..., : D // 2], Q[..., D // 2 :], table(COS), table(SIN)
    return xp.concatenate([x * c - y * d, y * c + x * d], axis=-1)


def rope_pairs(xp, Q, CS):
    x, y, c, d = Q[..., 0::2], Q[..., 1::2], CS[:, None, 0::2], CS[:, None, 1::2]
    return xp.stack([x * c - y * d, x * d + y * c], -1).reshape(Q.shape)


def gated_rms_norm(xp, X, Z, W, eps, D):
    x = X * Z * _sigmoid(xp, Z)
    return x / xp.sqrt(_sum(xp, x * x) / D + eps) * W


def embedding_gradient(xp, G, ID, W):
    w = W + 0
    if hasattr(xp, "add"):
        xp.add.at(w, ID, G)
        return w
    return w.index_add_(0, ID, G)


def focal_loss(xp, X, T, alpha, gamma):
    t = xp.where(T > 0, 1.0, 0.0)
    p = _sigmoid(xp, X)
    ce = xp.clip(X, 0, None) - X * t + xp.log(1 + xp.exp(-xp.abs(X)))
    pt = p * t + (1 - p) * (1 - t)
    a = alpha * t + (1 - alpha) * (1 - t)
    q = 1 - pt
    return a * ce * q**gamma, a * (2 * t - 1) * (-gamma * ce * q**gamma * pt - q ** (gamma + 1))


def logcumsumexp(xp, X):
    if hasattr(xp, "logcumsumexp"):
        return xp.logcumsumexp(X, 1)
    return xp.logaddexp.accumulate(X, axis=1)


def dpo_loss(xp, CHOSEN, REJECTED, RC, RR, MC, MR, beta):
    c = xp.sum(xp.where(MC, CHOSEN - RC, 0.0), axis=1)
    r = xp.sum(xp.where(MR, REJECTED - RR, 0.0), axis=1)
    z = beta * (c - r)
    g = -beta / (1 + xp.exp(z))
    loss = xp.clip(-z, 0, None) + xp.log(1 + xp.exp(-abs(z)))
    return loss, xp.where(MC, g[:, None], 0.0), xp.where(MR, -g[:, None], 0.0), z


def lora_linear(xp, X, W, A, B, BIAS, s):
    return X @ W.T + ((X @ A.T) * s) @ B.T + BIAS

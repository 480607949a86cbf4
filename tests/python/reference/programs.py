"""Random programs: memory and statements around the expressions of expressions.py. A statement is a function
of a dictionary, which holds the variables of the program and the tensors by their names."""

import numpy as np

from expressions import Expression, Expressions, call
from meaning import COMBINE_TEXT, OPERATORS, REAL, TYPES, WHOLE, rest, value

HEAD = COMBINE_TEXT + (
    "const i32 TAB[5] = { 3, -1, 70, 0, 1000 };\nconst f16 HALVES[3] = { 0.5, -2, 1e3 };\n"
    "const u8 BYTES[4] = { 0, 255, 7, 128 };\n"
)
ATOMICS = {
    "add": lambda a, b: a + b,
    "max": max,
    "min": min,
    "xor": lambda a, b: a ^ b,
    "and": lambda a, b: a & b,
    "or": lambda a, b: a | b,
    "exch": lambda a, b: b,
}


class Left(Exception):
    """A program, or a function with its result, has ended early."""


def whole(x):
    return int(np.asarray(x)[()])


class Programs(Expressions):
    def __init__(self, seed):
        super().__init__(seed)
        self.lines, self.functions, self.depth, self.trips = [], [], 0, 1
        self.names = self.loops = 0
        self.kept = {}  # name: type, extents
        self.budget = self.random.randint(5, 24)

    def name(self):
        self.names += 1
        return f"v{self.names}"

    def line(self, text):
        self.lines.append("    " * (self.depth + 1) + text)

    # --- memory: inputs X [M, N], and outputs O [G, P, Q], of which a program has one place of G

    def tensor(self, t, own):
        name = ("O" if own else "X") + t
        self.tensors[name] = (t, own)
        return name

    def memory(self, e, name):
        return e[name][int(e["w"])] if name[0] == "O" else e[name]

    def base(self):
        if self.chance(50):
            v = self.one_of(0, 0, 1, -1, 3, -4, 7, 30)
            return Expression(str(v), 99 if v >= 0 else 11, "index", (), lambda e: v)
        return self.leaf(self.one_of("index", "i32", "u8", "i64"), ())

    def window(self, name, shape):
        """The text of a window, and a function that gives its rows and columns."""
        texts, places = [], []
        for n in shape:
            b, step = self.base(), self.one_of(1, 1, 1, 2, 3)
            texts.append(f"{b.within(9)} +: {n}{f' : {step}' if step > 1 else ''}")
            places.append(lambda e, b=b, n=n, step=step: [whole(b.get(e)) + step * i for i in range(n)])
        while len(texts) < 2:
            b, k = self.base(), self.random.randint(0, len(texts))
            texts.insert(k, b.within(9))
            places.insert(k, lambda e, b=b: [whole(b.get(e))])
        text = f"{name}[{'w, ' if name[0] == 'O' else ''}{', '.join(texts)}]"
        return text, lambda e: [(i, j) for i in places[0](e) for j in places[1](e)]

    def load(self, t, shape):
        if len(shape) > 2:
            return None
        name = self.tensor(t, not self.in_function and self.chance(40))
        (text, places), pad = self.window(name, shape), self.one_of(0, 0, 1, 3)

        def get(e):
            m = self.memory(e, name)
            read = [m[p] if inside(m, p) else TYPES[t](pad) for p in places(e)]
            return np.array(read, TYPES[t]).reshape(shape)

        return call(f"load({text}{f', pad = {pad}' if pad else ''})", t, shape, get)

    def gathered(self, t, shape, depth):
        if t not in ("i32", "u8", "f32", "i64", "bool", "f16", "u64"):
            return None
        name = self.tensor(t, not self.in_function and self.chance(40))
        i, j = (
            self.expression(self.one_of("i32", "index", "i64", "u8", "u64"), shape, depth) for _ in range(2)
        )
        mask, pad = self.expression("bool", shape, depth), int(t != "bool" and self.chance(50))

        def get(e):
            m, out = self.memory(e, name), np.full(shape, pad, TYPES[t])
            a, b, live = (np.broadcast_to(x.get(e), shape) for x in (i, j, mask))
            for k in np.ndindex(shape):
                p = int(a[k]), int(b[k])
                if live[k] and inside(m, p):
                    out[k] = m[p]
            return out

        own = "w, " if name[0] == "O" else ""
        text = f"gather({name}[{own}{i.text}, {j.text}], mask = {mask.text}{', pad = 1' * pad})"
        return call(text, t, shape, get)

    def store(self):
        t, shape = self.one_of("i32", "u8", "i64", "f32", "bool", "u16", "f64", "i8", "u64"), self.one_of(
            (), (4,), (3, 4), (1, 5)
        )
        x = self.expression(t, shape, 3)
        name = self.tensor(t, True)
        text, places = self.window(name, shape)
        self.line(f"store({text}, {x.text});")

        def run(e):
            m = self.memory(e, name)
            for p, v in zip(places(e), np.broadcast_to(x.get(e), shape).ravel()):
                if inside(m, p):
                    m[p] = v

        return run

    def atomic(self):
        t, n, f = self.one_of("i32", "u32", "i64", "u64"), self.name(), self.one_of(*ATOMICS)
        x, i, j = self.expression(t, (), 2), self.base(), self.base()
        name = self.tensor(t, True)
        self.line(f"let {n} = atomic_{f}({name}[w, {i.text}, {j.text}], {x.text});")
        self.scope.append((n, t, (), False))

        def run(e):
            m, p, v = self.memory(e, name), (whole(i.get(e)), whole(j.get(e))), np.asarray(x.get(e))[()]
            e[n] = m[p] if inside(m, p) else TYPES[t](0)
            if inside(m, p):
                m[p] = ATOMICS[f](m[p], v)

        return run

    def scatter(self):
        """To places that differ, or additions of whole numbers to any."""
        adds = self.chance(50)
        t, shape = (
            self.one_of("i32", "u64") if adds else self.one_of("i32", "u8", "f32", "i64", "f16")
        ), self.one_of((4,), (8,))
        x, mask = self.expression(t, shape, 2), self.expression("bool", shape, 1)
        i = (
            self.expression("i32", shape, 1)
            if adds
            else call(f"2*arange({shape[0]}) - 3", "index", shape, lambda e: 2 * np.arange(shape[0]) - 3)
        )
        name = self.tensor(t, True)
        self.line(
            f"{'atomic_add' if adds else 'scatter'}({name}[w, 1, {i.text}], {x.text}, mask = {mask.text});"
        )

        def run(e):
            m = self.memory(e, name)
            for v, k, live in zip(*(np.broadcast_to(y.get(e), shape) for y in (x, i, mask))):
                if live and inside(m, (1, int(k))):
                    m[1, int(k)] = m[1, int(k)] + v if adds else v

        return run

    # --- variables

    def declare(self):
        t, shape, n, var = self.some_type(), self.some_shape(), self.name(), self.chance(60)
        x = self.expression(t, shape, 3)
        self.line(f"{'var' if var else 'let'} {n} = {x.text};")
        self.scope.append((n, t, shape, var))
        return lambda e: e.update({n: np.asarray(x.get(e)).astype(TYPES[t])})

    def array(self):
        t, shape, n, count = self.some_type(), self.some_shape(), self.name(), self.random.randint(2, 3)
        x = self.expression(t, shape, 2)
        self.line(f"var {n}[{count}] = {x.text};")
        parts = [f"{n}[{k}]" for k in range(count)]
        self.scope += [(part, t, shape, True) for part in parts]
        return lambda e: e.update(dict.fromkeys(parts, np.asarray(x.get(e)).astype(TYPES[t])))

    def assign(self):
        there = [v for v in self.scope if v[3]]
        if not there:
            return self.declare()
        n, t, shape, _ = self.random.choice(there)
        others = [v[0] for v in there if v[1:3] == (t, shape) and v[0] != n]
        if others and self.chance(25):
            m = self.random.choice(others)
            self.line(f"({n}, {m}) = ({m}, {n});")
            return lambda e: e.update({n: e[m], m: e[n]})
        if t in WHOLE and t != "index" and self.chance(40):
            o, x = self.one_of("+", "-", "*", "/", "%", "&", "|", "^", "<<", ">>"), self.beside(t, shape, 2)
            self.line(f"{n} {o}= {x.text};")
            return lambda e: e.update({n: OPERATORS[o](np.asarray(e[n]), np.asarray(x.get(e)))})
        x = self.expression(t, shape, 3)
        if t == "index":
            x = Expression(
                f"{x.within(10)} % 60", 10, t, shape, lambda e, x=x: rest(np.asarray(x.get(e)), value(60, t))
            )
        self.line(f"{n} = {x.text};")
        return lambda e: e.update({n: np.asarray(x.get(e)).astype(TYPES[t])})

    # --- control

    def block(self, trips=1):
        known, self.depth, self.trips = len(self.scope), self.depth + 1, self.trips * trips
        body = [s for s in (self.statement() for _ in range(self.random.randint(1, 3))) if s]
        self.depth, self.trips = self.depth - 1, self.trips // trips
        del self.scope[known:]

        def run(e):
            for s in body:
                s(e)

        return run

    def branch(self):
        c = self.expression("bool", (), 2)
        self.line(f"if {c.text} {{")
        yes, no = self.block(), None
        if self.chance(50):
            self.line("} else {")
            no = self.block()
        self.line("}")
        return lambda e: yes(e) if np.asarray(c.get(e))[()] else no(e) if no else None

    def loop(self):
        i, unrolled, step = f"k{self.loops}", self.chance(25), self.one_of(1, 1, 2)
        self.loops += 1
        low, high = self.random.randint(-2, 2), self.random.randint(-1, 4)
        texts, bounds = [str(low), str(high)], lambda e: (low, high)
        if not unrolled and self.chance(60):
            b = self.leaf(self.one_of("i32", "index", "i64", "i8"), ())
            texts = ["w - 1", f"min({b.text}, 3)"]
            bounds = lambda e: (int(e["w"]) - 1, min(whole(b.get(e)), 3))
        self.line(
            f"{'const ' * unrolled}for {i} in {' .. '.join(texts)}{f' : {step}' if step > 1 else ''} {{"
        )
        # An unrolled counter is a constant, by which a division by zero is an error: not so `x`.
        x = f"c{i[1:]}" if unrolled else i
        if unrolled:
            self.lines.append("    " * (self.depth + 2) + f"let {x} = {i} + (w - w);")
        self.scope.append((x, "index", (), False))
        body = self.block(5)
        self.scope.pop()
        self.line("}")

        def run(e):
            for k in range(*bounds(e), step):
                e[x] = np.int64(k)
                body(e)

        return run

    def repeat(self):
        n, most = self.name(), self.random.randint(1, 4)
        self.line(f"var {n} = i32(0);")
        c = self.expression("bool", (), 2)
        self.line(f"while {n} < {most} && {c.within(3)} {{")
        self.lines.append("    " * (self.depth + 2) + f"{n} += 1;")
        body = self.block(4)
        self.line("}")

        def run(e):
            e[n] = np.int32(0)
            while e[n] < most and np.asarray(c.get(e))[()]:
                e[n] = np.int32(e[n] + 1)
                body(e)

        return run

    def leave(self):
        c, inside_function = self.expression("bool", (), 2), self.in_function
        self.line(f"if {c.text} {{ return{' result' if inside_function else ''}; }}")

        def run(e):
            if np.asarray(c.get(e))[()]:
                raise Left

        return run

    def function(self):
        """Statements with parameters of their own, which end early; called once."""
        arguments = [v for v in self.scope if "[" not in v[0]]
        if self.in_function or len(self.functions) > 2 or not arguments:
            return self.declare()
        arguments = self.random.sample(arguments, min(len(arguments), self.random.randint(1, 3)))
        (_, t, shape, _), outer = arguments[0], (self.lines, self.scope, self.depth)
        parameters = [f"p{k}" for k in range(len(arguments))]
        self.lines, self.depth, self.in_function = [], 0, True
        self.scope = [(p, a[1], a[2], False) for p, a in zip(parameters, arguments)]
        first = self.expression(t, shape, 1)
        self.line(f"var result = {first.text};")
        self.scope.append(("result", t, shape, True))
        body = [s for s in (self.statement() for _ in range(self.random.randint(2, 4))) if s]
        self.line("return result;")
        used = [m for m in self.tensors if any(m + "[" in text for text in self.lines)]
        f, n = f"f{len(self.functions)}", self.name()
        self.functions.append(
            "\n".join([f"fn {f}({', '.join([*parameters, 'w', *used])}) {{", *self.lines, "}\n"])
        )
        (self.lines, self.scope, self.depth), self.in_function = outer, False
        self.line(f"let {n} = {f}({', '.join([*(a[0] for a in arguments), 'w', *used])});")
        self.scope.append((n, t, shape, False))

        def run(e):
            inner = {k: v for k, v in e.items() if k[0] in "XOw"} | {
                p: e[a[0]] for p, a in zip(parameters, arguments)
            }
            inner["result"] = np.asarray(first.get(inner)).astype(TYPES[t])
            try:
                for s in body:
                    s(inner)
            except Left:
                pass
            e[n] = inner["result"]

        return run

    def statement(self):
        self.budget -= 1
        if self.budget < 0:
            return None
        ways = [self.declare] * 5 + [self.assign] * 4 + [self.array]
        if not self.in_function:
            ways += [self.store] * 4 + [self.atomic, self.scatter, self.function]
        if self.in_function or self.chance(40):
            ways += [self.leave]
        if self.depth < 3 and self.trips < 31:
            ways += [self.branch, self.branch, self.loop, self.loop, self.repeat]
        return self.random.choice(ways)()

    def keep(self, n, t, shape):
        """What a value is at the end, in an output of its own."""
        name = f"V{len(self.kept)}"
        self.kept[name] = ("i64" if t == "index" else t, shape)
        windows = "".join(f", 0 +: {m}" for m in shape)
        self.line(f"store({name}[w{windows}], {f'i64({n})' if t == 'index' else n});")
        return lambda e: e[name].__setitem__(int(e["w"]), e[n])

    def program(self):
        """The text of the kernel k, and its statements."""
        body = []
        self.tensor("i32", True)
        self.scope.append(("w", "index", (), False))
        for t in ("i32", "u8"):
            x, n = self.load(t, self.one_of((), (4,))), self.name()
            self.line(f"let {n} = {x.text};")
            self.scope.append((n, t, x.shape, False))
            body.append(lambda e, n=n, x=x: e.update({n: x.get(e)}))
        while self.budget > 0:
            body.append(self.statement())
        body += [self.keep(*v[:3]) for v in self.scope[1:]]
        tensors = [
            (own, f"{t} {name}[{'G, P, Q' if own else 'M, N'}]") for name, (t, own) in self.tensors.items()
        ]
        tensors += [
            (True, f"{t} {name}[{', '.join(map(str, ('G', *shape)))}]")
            for name, (t, shape) in self.kept.items()
        ]
        tensors = ", ".join(f"{'inout' if own else 'in'} {text}" for own, text in tensors)
        lines = ["    let w = program_id();", *self.lines]
        return (
            "\n".join(
                [HEAD + "".join(self.functions) + f"kernel k({tensors}) grid (G)", "{", *lines, "}", ""]
            ),
            body,
        )


def inside(m, place):
    return all(0 <= p < n for p, n in zip(place, m.shape))


def make(seed):
    """A program: its text, {name: array}, and a function that does to the arrays what the text says."""
    p = Programs(seed)
    text, body = p.program()
    r = np.random.default_rng(seed)
    shapes = [
        [int(r.integers(low, high)) for low, high in sizes]
        for sizes in (((0, 4), (1, 17)), ((1, 4), (1, 7), (1, 10)))
    ]
    tensors = {name: filled(r, t, shapes[own]) for name, (t, own) in p.tensors.items()}
    tensors |= {name: np.zeros((shapes[True][0], *shape), TYPES[t]) for name, (t, shape) in p.kept.items()}

    def run(tensors):
        for w in range(shapes[True][0]):
            e = dict(tensors, w=np.int64(w))
            try:
                for s in body:
                    s(e)
            except Left:
                pass

    return text, tensors, run


def filled(r, t, shape):
    if t in WHOLE and r.integers(3) == 0:  # any bits
        return r.integers(0, 256, (*shape, TYPES[t]().itemsize), dtype=np.uint8).view(TYPES[t])[..., 0].copy()
    low, high = (0, 2) if t == "bool" else (0 if t[0] == "u" else -9, 10)
    return r.integers(low, high, shape).astype(TYPES[t])

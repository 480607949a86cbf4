; Written by tools/syntax.py from the compiler's tables; a test compares them.
(comment) @comment
(string) @string
(integer) @number
(float) @number.float
[
  "true" "false" "None"
] @constant.builtin
[
  "kernel" "fn" "in" "out" "inout" "const" "let" "var" "for" "while" "if" "else" "return" "import" "tune"
  "instantiate" "ladder"
] @keyword
[
  "+:" ".." "&&" "||" "==" "!=" "<=" ">=" "<<" ">>" "+=" "-=" "*=" "/=" "%=" "&=" "|=" "^=" "<<=" ">>=" ":"
  "=" "?" "+" "-" "*" "/" "%" "<" ">" "!" "~" "&" "|" "^"
] @operator
["(" ")" "[" "]" "{" "}"] @punctuation.bracket
["," ";" "."] @punctuation.delimiter
(identifier) @variable
(kernel . "kernel" (identifier) @function)
(fn . "fn" (identifier) @function)
(clause . (identifier) @attribute)
(loop_hint . (identifier) @attribute)
(call function: (identifier) @function.call)
((call function: (identifier) @function.builtin)
  (#match? @function.builtin "^(abs|all|any|arange|argmax|argmin|assert|atomic_add|atomic_and|atomic_cas|atomic_exch|atomic_max|atomic_min|atomic_or|atomic_xor|bitcast|broadcast|cast|cdiv|ceil|clamp|clz|concat|cos|cummax|cumprod|cumsum|div|erf|exp|exp2|extent|ffs|floor|fma|full|gather|has|load|log|log2|max|maxnum|min|minnum|mma|num_programs|pass_steps|permute|philox|popcount|print|prod|program_id|random_bits|reduce|reshape|round|rsqrt|scan|scatter|shift|sigmoid|sin|sort|split|sqrt|store|stride|sum|tanh|topk|transpose|where|zeros)$"))
((identifier) @type.builtin
  (#match? @type.builtin "^(bf16|bool|f16|f32|f64|f8e4m3|f8e5m2|float|i16|i32|i64|i8|index|int|type|u16|u32|u64|u8)$"))
((identifier) @constant.builtin
  (#match? @constant.builtin "^(inf|nan)$"))

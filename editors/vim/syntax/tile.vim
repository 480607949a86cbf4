" Written by tools/syntax.py from the compiler's tables; a test compares them.
if exists("b:current_syntax")
  finish
endif
syn keyword tileKeyword kernel fn in out inout const let var for while if else return import tune instantiate ladder
syn keyword tileBoolean true false None
syn keyword tileConstant inf nan
syn keyword tileType bool i8 i16 i32 i64 u8 u16 u32 u64 index f8e4m3 f8e5m2 f16 bf16 f32 f64
" Names that mean something at some places only.
syn match tileKind /\v(<const\s+)@<=(float|int|type)>/
syn match tileFunction /\v<(program_id|num_programs|extent|stride|has|load|store|gather|scatter|atomic_add|pass_steps|atomic_max|atomic_min|atomic_exch|atomic_and|atomic_or|atomic_xor|atomic_cas|mma|abs|fma|minnum|maxnum|clamp|cdiv|popcount|clz|ffs|div|exp|exp2|log|log2|sqrt|rsqrt|sin|cos|tanh|erf|sigmoid|floor|ceil|round|where|min|max|sum|prod|any|all|argmax|argmin|reduce|scan|cumsum|cumprod|cummax|sort|topk|reshape|transpose|permute|broadcast|concat|split|shift|arange|full|zeros|cast|bitcast|philox|random_bits|print|assert)>\ze\s*\(/
syn match tileOption /\v<(approx|axis|cache|cluster|cluster_axis|combine|cp_async_producer|descending|deterministic|drop|fill|ftz|init|latency|mask|occupancy|order|pack|pad|persistent|pingpong|precision|raster_group|reverse|scope|semaphore|split_k|stages|start|step|stream_k|unroll|warp_specialize|warps)>\ze\s*(\=[^=]|in\s*\{)/
syn match tileClause /\v<(grid|remap|raster|hint|config|fit|key|require)>\ze\s*(\(|\=[^=])/
syn match tileName /\v(<(kernel|fn|tune|instantiate)\s+)@<=\h\w*/
syn match tileOperator /\v[-+*\/%<>=!~&|^?:]|\.\./
syn match tileNumber /\v<\d[0-9_]*(\.\d[0-9_]*|\.\.@!)?([eE][-+]?\d+)?/
syn match tileNumber /\v\.\d[0-9_]*([eE][-+]?\d+)?/
syn match tileNumber /\v<0[xX][0-9a-fA-F_]+|<0[bB][01_]+/
syn region tileString start=/"/ skip=/\\./ end=/"/ oneline contains=tileEscape
syn match tileEscape /\v\\[nt"\\]/ contained
syn match tileComment /\v\/\/.*/ contains=@Spell
syn region tileComment start=/\/\*/ end=/\*\// contains=@Spell
hi def link tileKeyword Keyword
hi def link tileBoolean Boolean
hi def link tileConstant Constant
hi def link tileType Type
hi def link tileKind Type
hi def link tileFunction Function
hi def link tileOption Identifier
hi def link tileClause PreProc
hi def link tileName Function
hi def link tileNumber Number
hi def link tileOperator Operator
hi def link tileString String
hi def link tileEscape SpecialChar
hi def link tileComment Comment
let b:current_syntax = "tile"

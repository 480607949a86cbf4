/* parser.y: the grammar; docs/language.md prints it for users. Each action is one call of parse.c.
 * Precedence is C's. Recovery: a bad statement ends at its `;` or block, a bad item at the next item's keyword. */
%require "3.8"
%define api.pure full
%define api.prefix {tile_yy}
%define api.location.type {Loc}
%define parse.lac full
%define parse.error custom
%locations
%expect 0
%param {void *scanner}
%parse-param {Parse *p}

%code requires {
#include "frontend/parse/parse.h"
#define YYLLOC_DEFAULT(out, rhs, n) \
    do { \
        if (n) (out) = loc_join(YYRHSLOC(rhs, 1), YYRHSLOC(rhs, n)); \
        else (out) = (Loc){ YYRHSLOC(rhs, 0).file, YYRHSLOC(rhs, 0).end, YYRHSLOC(rhs, 0).end }; \
    } while (0)
}
%code {
int tile_yylex(TILE_YYSTYPE *, Loc *, void *scanner);
/* Remembers where the token before the next one ends: a missing `;` is reported there. */
#undef yylex
#define yylex(value, loc, scanner) \
    (p->before = *(loc), p->formula ? (p->formula = false, FORMULA) : tile_yylex((value), (loc), (scanner)))
/* The stacks never grow, so nothing is allocated outside the arena: deeper input is an error of its own (parse_too_deep). */
#define YYINITDEPTH 4000
#define YYMAXDEPTH 4000
#define YYMALLOC(n) NULL
#define YYFREE(q) ((void)(q))
#undef yyerror
#define yyerror(loc, scanner, p, text) parse_too_deep((p), *(loc))
#define NODE(kind, loc, ...) parse_node_of(p, (kind), (loc), (Node *[]){ __VA_ARGS__ }, sizeof((Node *[]){ __VA_ARGS__ }) / sizeof(Node *))
#define NAMED(kind, name, name_loc, loc, ...) parse_named(p, NODE((kind), (loc), __VA_ARGS__), (name), (name_loc))
#define OPER(kind, op, loc, ...) parse_oper(NODE((kind), (loc), __VA_ARGS__), (op))
#define BIN(op, loc, a, b) OPER(N_BINARY, (op), (loc), (a), (b))
}

%union { const char *name; Node *node; NodeList list; int op; }

%token END 0 "end of file"
%token <name> IDENT "a name"
%token <node> INT "a number" FLOAT "a floating number" STRING "a string"
%token KERNEL "`kernel`" FN "`fn`" IN "`in`" OUT "`out`" INOUT "`inout`" CONST "`const`" LET "`let`" VAR "`var`"
%token FOR "`for`" WHILE "`while`" IF "`if`" ELSE "`else`" RETURN "`return`" IMPORT "`import`" TUNE "`tune`"
%token INSTANTIATE "`instantiate`" LADDER "`ladder`" TRUE "`true`" FALSE "`false`" NONE "`None`"
%token PLUSCOLON "`+:`" DOTDOT "`..`" ANDAND "`&&`" OROR "`||`" EQ "`==`" NE "`!=`" LE "`<=`" GE "`>=`" SHL "`<<`" SHR "`>>`"
%token ADDEQ "`+=`" SUBEQ "`-=`" MULEQ "`*=`" DIVEQ "`/=`" REMEQ "`%=`" ANDEQ "`&=`" OREQ "`|=`" XOREQ "`^=`"
%token SHLEQ "`<<=`" SHREQ "`>>=`"
%token FORMULA "a formula"      /* not of the scanner: it begins an expression that stands alone */
%token '(' "`(`" ')' "`)`" '[' "`[`" ']' "`]`" '{' "`{`" '}' "`}`" ',' "`,`" ';' "`;`" ':' "`:`" '.' "`.`" '=' "`=`" '?' "`?`"
%token '+' "`+`" '-' "`-`" '*' "`*`" '/' "`/`" '%' "`%`" '<' "`<`" '>' "`>`" '!' "`!`" '~' "`~`" '&' "`&`" '|' "`|`" '^' "`^`"

%type <list> items params param_list dims expr_list exprs clauses fn_params fn_param_list domains domain_list entries
%type <list> rungs changes change_list
%type <node> rung change
%type <name> hyphen_name
%type <list> statements args arg_list axes
%type <node> step loop_hint item kernel fn param fn_param clause domain entry block statement if_chain name_list target target_name
%type <node> expr cond lor land bor bxor band equality relation shift sum product unary postfix primary arg axis
%type <op> io assign optional


%%

file: items END                         { parse_file(p, @$, $1); }
    | items FORMULA expr END            { p->result = $3; }
    ;
items: %empty                           { $$ = (NodeList){ 0 }; }
    | items item                        { $$ = parse_push(p, $1, $2); }
    | items error                       { $$ = $1; }
    ;
item: kernel
    | fn
    | IMPORT STRING ';'                 { $$ = parse_import(p, @$, $2); }
    | TUNE IDENT '{' entries '}'        { $$ = parse_named(p, parse_list(p, N_TUNE, @$, $4), $2, @2); }
    | LADDER IDENT '{' rungs '}'        { $$ = parse_named(p, parse_list(p, N_LADDER, @$, $4), $2, @2); }
    | INSTANTIATE IDENT '(' domains ')' ';'     { $$ = parse_named(p, parse_list(p, N_INSTANCE, @$, $4), $2, @2); }
    | CONST IDENT IDENT '=' expr ';'    { $$ = NAMED(N_CONSTANT, $3, @3, @$, parse_word(p, $2, @2), $5); }
    | CONST IDENT IDENT '[' expr ']' '=' '{' exprs comma '}' ';'
                                        { $$ = NAMED(N_CONSTANT, $3, @3, @$, parse_word(p, $2, @2), parse_table(p, loc_join(@8, @11), $5, $9)); }
    | KERNEL error block                { yyerrok; $$ = parse_node(p, N_ERROR, @$); }
    | FN error block                    { yyerrok; $$ = parse_node(p, N_ERROR, @$); }
    | TUNE error '}'                    { yyerrok; $$ = parse_node(p, N_ERROR, @$); }
    | LADDER error '}'                  { yyerrok; $$ = parse_node(p, N_ERROR, @$); }
    | IMPORT error semicolon            { yyerrok; $$ = parse_node(p, N_ERROR, @$); }
    | INSTANTIATE error semicolon       { yyerrok; $$ = parse_node(p, N_ERROR, @$); }
    | CONST error semicolon             { yyerrok; $$ = parse_node(p, N_ERROR, @$); }
    ;
semicolon: ';'                          /* Where it is missing, what follows begins an item and is kept. */
    | %empty
    ;

kernel: KERNEL IDENT '(' params ')' clauses block
        { $$ = NAMED(N_KERNEL, $2, @2, @$, parse_list(p, N_LIST, @4, $4), parse_list(p, N_LIST, @6, $6), $7); }
    ;
params: %empty                          { $$ = (NodeList){ 0 }; }
    | param_list
    | param_list ','
    ;
param_list: param                       { $$ = parse_push(p, (NodeList){ 0 }, $1); }
    | param_list ',' param              { $$ = parse_push(p, $1, $3); }
    ;
param: io IDENT IDENT '[' dims ']' optional
        { $$ = parse_optional(parse_tensor(p, @$, $1, $2, @2, $3, @3, $5), $7); }
    | IDENT IDENT                       { $$ = NAMED(N_PSCALAR, $2, @2, @$, parse_word(p, $1, @1), NULL); }
    | IDENT IDENT '=' expr              { $$ = NAMED(N_PSCALAR, $2, @2, @$, parse_word(p, $1, @1), $4); }
    | CONST IDENT IDENT                 { $$ = NAMED(N_PCONST, $3, @3, @$, parse_word(p, $2, @2), NULL); }
    | CONST IDENT IDENT '=' expr        { $$ = parse_auto(p, NAMED(N_PCONST, $3, @3, @$, parse_word(p, $2, @2), $5)); }
    ;
optional: %empty { $$ = 0; } | '?' { $$ = 1; }
    ;
io: IN { $$ = IO_IN; } | OUT { $$ = IO_OUT; } | INOUT { $$ = IO_INOUT; }
    ;
dims: %empty                            { $$ = (NodeList){ 0 }; }
    | exprs
    ;
clauses: %empty                         { $$ = (NodeList){ 0 }; }
    | clauses clause                    { $$ = parse_push(p, $1, $2); }
    ;
clause: IDENT '(' args ')'              { $$ = NAMED(N_CLAUSE, $1, @1, @$, parse_list(p, N_LIST, @3, $3), NULL); }
    | IDENT '(' args ')' '=' expr       { $$ = NAMED(N_CLAUSE, $1, @1, @$, parse_list(p, N_LIST, @3, $3), $6); }
    | IDENT '=' IDENT                   { $$ = NAMED(N_CLAUSE, $1, @1, @$, parse_list(p, N_LIST, @3, (NodeList){ 0 }), parse_word(p, $3, @3)); }
    ;

fn: FN IDENT '(' fn_params ')' block    { $$ = NAMED(N_FN, $2, @2, @$, parse_list(p, N_LIST, @4, $4), $6); }
    ;
fn_params: %empty                       { $$ = (NodeList){ 0 }; }
    | fn_param_list
    | fn_param_list ','
    ;
fn_param_list: fn_param                 { $$ = parse_push(p, (NodeList){ 0 }, $1); }
    | fn_param_list ',' fn_param        { $$ = parse_push(p, $1, $3); }
    ;
fn_param: IDENT                         { $$ = NAMED(N_PFN, $1, @1, @$, NULL); }
    | IDENT '=' expr                    { $$ = NAMED(N_PFN, $1, @1, @$, $3); }
    ;

entries: %empty                         { $$ = (NodeList){ 0 }; }
    | entries entry ';'                 { $$ = parse_push(p, $1, $2); }
    | entries error ';'                 { yyerrok; $$ = $1; }
    ;
entry: domain
    | IDENT '(' args ')'                { $$ = NAMED(N_CLAUSE, $1, @1, @$, parse_list(p, N_LIST, @3, $3), NULL); }
    ;
rungs: %empty                           { $$ = (NodeList){ 0 }; }
    | rungs rung ';'                    { $$ = parse_push(p, $1, $2); }
    | rungs error ';'                   { yyerrok; $$ = $1; }
    ;
rung: IDENT hyphen_name STRING              { $$ = parse_step(p, @$, $1, @1, parse_named(p, NODE(N_STEP, @$, $3), $2, @2)); }
    | IDENT hyphen_name STRING '(' changes ')'
        { $$ = parse_step(p, @$, $1, @1, parse_named(p, parse_list(p, N_STEP, @$, parse_prepend(p, $3, $5)), $2, @2)); }
    | IDENT '(' args ')'                { $$ = NAMED(N_CLAUSE, $1, @1, @$, parse_list(p, N_LIST, @3, $3), NULL); }
    ;
changes: %empty                         { $$ = (NodeList){ 0 }; }
    | change_list
    | change_list ','
    ;
change_list: change                     { $$ = parse_push(p, (NodeList){ 0 }, $1); }
    | change_list ',' change            { $$ = parse_push(p, $1, $3); }
    ;
change: IDENT '=' expr                  { $$ = NAMED(N_DOMAIN, $1, @1, @$, $3); }
    | IDENT hyphen_name                   { $$ = NAMED(N_CLAUSE, $1, @1, @$, parse_word(p, $2, @2)); }
    | TUNE                              { $$ = parse_named(p, parse_node(p, N_CLAUSE, @$), "tune", @1); }
    ;
hyphen_name: IDENT
    | hyphen_name '-' IDENT               { $$ = parse_hyphen(p, $1, $3); }
    ;
domains: %empty                         { $$ = (NodeList){ 0 }; }
    | domain_list
    | domain_list ','
    ;
domain_list: domain                     { $$ = parse_push(p, (NodeList){ 0 }, $1); }
    | domain_list ',' domain            { $$ = parse_push(p, $1, $3); }
    ;
domain: IDENT IN '{' expr_list '}'      { $$ = parse_named(p, parse_list(p, N_DOMAIN, @$, $4), $1, @1); }
    | IDENT '=' expr                    { $$ = NAMED(N_DOMAIN, $1, @1, @$, $3); }
    ;

block: '{' statements '}'               { $$ = parse_list(p, N_BLOCK, @$, $2); }
    | '{' statements error '}'          { yyerrok; $$ = parse_list(p, N_BLOCK, @$, $2); }
    ;
statements: %empty                      { $$ = (NodeList){ 0 }; }
    | statements statement              { $$ = parse_push(p, $1, $2); }
    ;
statement: LET target '=' expr ';'      { $$ = parse_bind(p, N_LET, @$, $2, $4); }
    | VAR target '=' expr ';'           { $$ = parse_bind(p, N_VAR, @$, $2, $4); }
    | CONST IDENT IDENT '=' expr ';'    { $$ = NAMED(N_CONSTANT, $3, @3, @$, parse_word(p, $2, @2), $5); }
    | CONST IDENT IDENT '[' expr ']' '=' '{' exprs comma '}' ';'
                                        { $$ = NAMED(N_CONSTANT, $3, @3, @$, parse_word(p, $2, @2), parse_table(p, loc_join(@8, @11), $5, $9)); }
    | VAR IDENT '[' expr ']' '=' expr ';'   { $$ = NAMED(N_ARRAY, $2, @2, @$, $4, $7); }
    | expr assign expr ';'              { $$ = OPER(N_ASSIGN, $2, @$, $1, $3); }
    | expr ';'                          { $$ = NODE(N_EXPR, @$, $1); }
    | FOR IDENT IN expr DOTDOT expr step loop_hint block         { $$ = parse_for(p, @$, 0, $2, @2, $4, $6, $7, $8, $9); }
    | CONST FOR IDENT IN expr DOTDOT expr step block             { $$ = parse_for(p, @$, 1, $3, @3, $5, $7, $8, NULL, $9); }
    | WHILE expr block                  { $$ = NODE(N_WHILE, @$, $2, $3); }
    | if_chain
    | CONST if_chain                    { $$ = parse_const_if($2); }
    | RETURN ';'                        { $$ = NODE(N_RETURN, @$, NULL); }
    | RETURN expr ';'                   { $$ = NODE(N_RETURN, @$, $2); }
    | block
    | error ';'                         { yyerrok; $$ = parse_node(p, N_ERROR, @$); }
    | error block                       { yyerrok; $$ = parse_node(p, N_ERROR, @$); }
    | FOR error block                   { yyerrok; $$ = parse_node(p, N_ERROR, @$); }
    | WHILE error block                 { yyerrok; $$ = parse_node(p, N_ERROR, @$); }
    | CONST FOR error block             { yyerrok; $$ = parse_node(p, N_ERROR, @$); }
    ;
step: %empty                            { $$ = NULL; }
    | ':' expr                          { $$ = $2; }
    ;
loop_hint: %empty                       { $$ = NULL; }
    | IDENT '(' args ')'                { $$ = NAMED(N_CLAUSE, $1, @1, @$, parse_list(p, N_LIST, @3, $3), NULL); }
    ;
if_chain: IF expr block                 { $$ = NODE(N_IF, @$, $2, $3, NULL); }
    | IF expr block ELSE block          { $$ = NODE(N_IF, @$, $2, $3, $5); }
    | IF expr block ELSE if_chain       { $$ = NODE(N_IF, @$, $2, $3, $5); }
    | IF error block                    { yyerrok; $$ = parse_node(p, N_ERROR, @$); }
    | IF error block ELSE block         { yyerrok; $$ = parse_node(p, N_ERROR, @$); }
    | IF error block ELSE if_chain      { yyerrok; $$ = parse_node(p, N_ERROR, @$); }
    | IF expr block ELSE error block    { yyerrok; $$ = parse_node(p, N_ERROR, @$); }
    ;
assign: '=' { $$ = OPR_NONE; } | ADDEQ { $$ = OPR_ADD; } | SUBEQ { $$ = OPR_SUB; } | MULEQ { $$ = OPR_MUL; } | DIVEQ { $$ = OPR_DIV; }
    | REMEQ { $$ = OPR_REM; } | ANDEQ { $$ = OPR_AND; } | OREQ { $$ = OPR_OR; } | XOREQ { $$ = OPR_XOR; } | SHLEQ { $$ = OPR_SHL; } | SHREQ { $$ = OPR_SHR; }
    ;
target: target_name
    | '(' name_list ')'                 { $$ = $2; }
    ;
name_list: target_name ','              { $$ = NODE(N_TUPLE, @$, $1); }
    | target_name ',' target_name       { $$ = NODE(N_TUPLE, @$, $1, $3); }
    | name_list ',' target_name         { $$ = parse_append(p, $1, $3); }
    ;
target_name: IDENT                      { $$ = parse_word(p, $1, @1); }
    ;

expr: cond
    ;
cond: lor
    | lor '?' cond ':' cond             { $$ = NODE(N_COND, @$, $1, $3, $5); }
    ;
lor: land | lor OROR land               { $$ = BIN(OPR_LOR, @$, $1, $3); }
    ;
land: bor | land ANDAND bor             { $$ = BIN(OPR_LAND, @$, $1, $3); }
    ;
bor: bxor | bor '|' bxor                { $$ = BIN(OPR_OR, @$, $1, $3); }
    ;
bxor: band | bxor '^' band              { $$ = BIN(OPR_XOR, @$, $1, $3); }
    ;
band: equality | band '&' equality      { $$ = BIN(OPR_AND, @$, $1, $3); }
    ;
equality: relation
    | equality EQ relation              { $$ = BIN(OPR_EQ, @$, $1, $3); }
    | equality NE relation              { $$ = BIN(OPR_NE, @$, $1, $3); }
    ;
relation: shift
    | relation '<' shift                { $$ = BIN(OPR_LT, @$, $1, $3); }
    | relation LE shift                 { $$ = BIN(OPR_LE, @$, $1, $3); }
    | relation '>' shift                { $$ = BIN(OPR_GT, @$, $1, $3); }
    | relation GE shift                 { $$ = BIN(OPR_GE, @$, $1, $3); }
    ;
shift: sum
    | shift SHL sum                     { $$ = BIN(OPR_SHL, @$, $1, $3); }
    | shift SHR sum                     { $$ = BIN(OPR_SHR, @$, $1, $3); }
    ;
sum: product
    | sum '+' product                   { $$ = BIN(OPR_ADD, @$, $1, $3); }
    | sum '-' product                   { $$ = BIN(OPR_SUB, @$, $1, $3); }
    ;
product: unary
    | product '*' unary                 { $$ = BIN(OPR_MUL, @$, $1, $3); }
    | product '/' unary                 { $$ = BIN(OPR_DIV, @$, $1, $3); }
    | product '%' unary                 { $$ = BIN(OPR_REM, @$, $1, $3); }
    ;
unary: postfix
    | '-' unary                         { $$ = OPER(N_UNARY, OPR_NEG, @$, $2); }
    | '+' unary                         { $$ = OPER(N_UNARY, OPR_PLUS, @$, $2); }
    | '!' unary                         { $$ = OPER(N_UNARY, OPR_NOT, @$, $2); }
    | '~' unary                         { $$ = OPER(N_UNARY, OPR_BITNOT, @$, $2); }
    ;
postfix: primary
    | postfix '[' axes ']'              { $$ = parse_index(p, @$, $1, $3); }
    | IDENT '(' args ')'                { $$ = parse_named(p, parse_list(p, N_CALL, @$, $3), $1, @1); }
    ;
primary: IDENT                          { $$ = parse_word(p, $1, @1); }
    | INT
    | FLOAT
    | STRING
    | TRUE                              { $$ = parse_bool(p, @$, 1); }
    | FALSE                             { $$ = parse_bool(p, @$, 0); }
    | NONE                              { $$ = parse_node(p, N_NONE, @$); }
    | '(' expr ')'                      { $$ = $2; }
    | '(' expr ',' ')'                  { $$ = NODE(N_TUPLE, @$, $2); }
    | '(' expr ',' exprs comma ')'      { $$ = parse_tuple(p, @$, $2, $4); }
    | '[' expr_list ']'                 { $$ = parse_list(p, N_LIST, @$, $2); }
    ;
expr_list: %empty                       { $$ = (NodeList){ 0 }; }
    | exprs comma                       { $$ = $1; }
    ;
comma: %empty | ','
    ;
exprs: expr                             { $$ = parse_push(p, (NodeList){ 0 }, $1); }
    | exprs ',' expr                    { $$ = parse_push(p, $1, $3); }
    ;
args: %empty                            { $$ = (NodeList){ 0 }; }
    | arg_list
    | arg_list ','
    ;
arg_list: arg                           { $$ = parse_push(p, (NodeList){ 0 }, $1); }
    | arg_list ',' arg                  { $$ = parse_push(p, $1, $3); }
    ;
arg: expr
    | IDENT '=' expr                    { $$ = parse_arg(p, @$, NULL, $1, @1, $3); }
    | IDENT '.' IDENT '=' expr          { $$ = parse_arg(p, @$, $1, $3, loc_join(@1, @3), $5); }
    ;
axes: axis                              { $$ = parse_push(p, (NodeList){ 0 }, $1); }
    | axes ',' axis                     { $$ = parse_push(p, $1, $3); }
    | %empty                            { $$ = (NodeList){ 0 }; }
    ;
axis: expr
    | ':'                               { $$ = parse_node(p, N_ALL, @$); }
    | expr PLUSCOLON expr               { $$ = NODE(N_WINDOW, @$, $1, $3, NULL); }
    | expr PLUSCOLON expr ':' expr      { $$ = NODE(N_WINDOW, @$, $1, $3, $5); }
    ;

%%

/* Tokens that only carry an expression on: never what is missing. */
static bool continues(yysymbol_kind_t k)
{
    const char *name = yysymbol_name(k);
    if (name[0] != '`') return false;
    return strchr("[?=+-*/%<>&|^", name[1]) || (name[1] == '!' && name[2] == '=') || (name[1] == '.' && name[2] == '`');
}

/* Names the offending token and, when there are few, what could stand there instead. */
static int yyreport_syntax_error(const yypcontext_t *ctx, void *scanner, Parse *p)
{
    enum { ALL = 80, MOST = 5 };
    yysymbol_kind_t expected[ALL];
    const char *names[ALL];
    int n = yypcontext_expected_tokens(ctx, expected, ALL), shown = 0;
    for (int i = 0; i < n; i++) {
        bool again = continues(expected[i]);
        for (int k = 0; k < shown; k++) again |= !strcmp(names[k], yysymbol_name(expected[i]));
        if (!again) names[shown++] = yysymbol_name(expected[i]);
    }
    yysymbol_kind_t token = yypcontext_token(ctx);
    for (int i = 0; i < n && n <= MOST && !shown; i++) names[i] = yysymbol_name(expected[i]);       /* nothing else could stand here */
    if (!shown && n <= MOST) shown = n;
    if (shown > MOST) {
        /* Too many to list: a number among them means that an operand is missing. */
        bool operand = false, statement = false, item = false;
        for (int i = 0; i < shown; i++) {
            operand |= !strcmp(names[i], "a number");
            statement |= !strcmp(names[i], "`let`");
            item |= !strcmp(names[i], "`kernel`");
        }
        bool end = yypcontext_token(ctx) == YYSYMBOL_YYEOF;
        names[0] = statement && end ? "`}`" : statement ? "a statement" : operand ? "an expression" : "a kernel or another item of the file";
        shown = operand || item;
    }
    parse_syntax_error(p, *yypcontext_location(ctx), token == YYSYMBOL_YYEMPTY ? NULL : yysymbol_name(token), names, shown);
    return 0;
}

int parse_run(void *scanner, Parse *p) { return yyparse(scanner, p); }

"""What the binding compiles, and the headers that users compile against."""

from __future__ import annotations

import posixpath
import re

from c_text import NOTICE, constants_text, defines_text, types_text
from model import Const, Function, Header, Model

# Lines that no table holds: function-like macros and attributes that programs use by name.
_EXTRA = {
    "acl/acl_base_rt.h": """#define ACL_FUNC_VISIBILITY
#define ACL_APP_LOG(level, ...) aclAppLog(level, __func__, __FILE__, __LINE__, __VA_ARGS__)
""",
}
_MISS_ANSWERS = {
    "status": "return 207000;",
    "profiling off": "return 0;",
    "pointer": "return NULL;",
    "value": "return 0;",
    "void": "return;",
}


def _include(path: str, from_header: str) -> str:
    if "/" not in path:
        return f"#include <{path}>"
    relative = posixpath.relpath(path, posixpath.dirname(from_header))
    return f'#include "{relative}"'


def _public_header(model: Model, header: Header) -> str:
    def wanted(path: str) -> bool:
        return path == header.path

    guard = "ASCENDRT_SDK_" + re.sub(r"\W", "_", header.path).upper() + "_"
    functions = "\n".join(f"{f.signature(f.name)};" for f in model.functions if wanted(f.header))
    parts = [
        defines_text(model, wanted),
        types_text(model, wanted),
        constants_text(model, wanted),
        _EXTRA.get(header.path, "").rstrip(),
        functions,
    ]
    body = "\n\n".join(p for p in parts if p)
    includes = "\n".join(_include(i, header.path) for i in header.include)
    if body:
        body = f"""#ifdef __cplusplus
extern "C" {{
#endif

{body}

#ifdef __cplusplus
}}
#endif
"""
    return f"""/* {NOTICE} */
#ifndef {guard}
#define {guard}

{includes}

{body}
#endif /* {guard} */
"""


def emit_public_headers(model: Model) -> dict[str, str]:
    """Path below the include folder -> text."""
    return {h.path: _public_header(model, h) for h in model.headers if h.path}


def emit_all_h(model: Model) -> str:
    """Everything the cffi module includes: the vendor names become the trampolines' names first."""
    renames = "\n".join(f"#define {f.name} art_{f.name}" for f in model.functions)
    includes = "\n".join(f'#include "{h.path}"' for h in model.headers if h.path)
    hidden = "\n".join(f"{f.signature(f.name)};" for f in model.functions if not f.header)
    return f"""/* {NOTICE} */
/* The ABI as the binding sees it: `aclX` means art_aclX, so no vendor name is defined here. */
#ifndef ASCENDRT_GEN_ALL_H_
#define ASCENDRT_GEN_ALL_H_

{renames}

{includes}

{hidden}

#endif /* ASCENDRT_GEN_ALL_H_ */
"""


def _cdef_const(const: Const) -> str:
    if const.is_string:
        return f"static char *const {const.name};"
    return f"#define {const.name} ..."


def emit_cdef(model: Model) -> str:
    types = types_text(model, constructor=False, scoped=False).replace("__extension__ ", "")
    consts = "\n".join(_cdef_const(c) for c in model.consts if c.value is not None)
    functions = "\n".join(f"{f.signature(f.name)};" for f in model.functions)
    return f"/* {NOTICE} */\n{types}\n{consts}\n{functions}\n"


def _arguments(function: Function) -> str:
    return ", ".join(p.name for p in function.params)


def _miss(function: Function) -> str:
    name = function.name
    unused = "".join(f"(void){p.name}; " for p in function.params)
    answer = _MISS_ANSWERS[function.answer]
    head = f"static {function.signature('miss_' + name)}"
    return f'{head} {{ {unused}note_missing("{name}"); {answer} }}'


def _trampoline(function: Function) -> str:
    if function.variadic:
        return f"/* {function.name} takes `...`: written by hand in binding.c */"
    call = f"g_table.{function.name}({_arguments(function)})"
    keyword = "" if function.ret == "void" else "return "
    return f"ART_BIND {function.signature(f'art_{function.name}')} {{ {keyword}{call}; }}"


def emit_table(model: Model) -> str:
    slots = "\n".join(f"  {f.signature(f'(*{f.name})')};" for f in model.functions)
    names = "\n".join(f'  "{f.name}",' for f in model.functions)
    misses = "\n".join(_miss(f) for f in model.functions)
    initial = "\n".join(f"  miss_{f.name}," for f in model.functions)
    trampolines = "\n".join(_trampoline(f) for f in model.functions)
    return f"""/* {NOTICE} */
/* Included by binding.c, which declares note_missing before. */

static const char *const g_names[] = {{
{names}
}};
#define ART_SLOTS ((int)(sizeof(g_names) / sizeof(g_names[0])))

struct art_table {{
{slots}
}};

{misses}

static const struct art_table g_misses = {{
{initial}
}};

static struct art_table g_table = {{
{initial}
}};

{trampolines}
"""

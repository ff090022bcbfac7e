"""The ctypes declarations agree with the headers: every argument, every struct's layout, every enumerator."""

import ctypes
import re
import subprocess

from support import ROOT, Case

from zest import _library as library

HEADERS = [path for path in (ROOT / "include" / name for name in ("zest.h", "zest_lm.h")) if path.exists()]

SCALARS = {
    "void": None,
    "int": ctypes.c_int,
    "size_t": ctypes.c_size_t,
    "uint64_t": ctypes.c_uint64,
    "unsigned": ctypes.c_uint,
    "uint32_t": ctypes.c_uint32,
    "int32_t": ctypes.c_int32,
    "double": ctypes.c_double,
    "float": ctypes.c_float,
}


def code():
    """The headers without comments and preprocessor lines."""
    text = "\n".join(path.read_text() for path in HEADERS)
    text = re.sub(r"/\*.*?\*/", " ", text, flags=re.DOTALL)
    return re.sub(r"^\s*#.*$", " ", text, flags=re.MULTILINE)


def split_arguments(text):
    """At commas outside parentheses."""
    parts, depth = [""], 0
    for character in text:
        depth += (character == "(") - (character == ")")
        if character == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += character
    return [part.strip() for part in parts]


def functions():
    """name -> (result, arguments) as C writes them."""
    found = {}
    for declaration in re.findall(r"ZEST_API\s+([^;]*);", code()):
        declaration = " ".join(declaration.split())
        match = re.match(r"(.*?[ *])(\w+)\((.*)\)$", declaration)
        arguments = split_arguments(match.group(3))
        assert match, declaration
        found[match.group(2)] = (match.group(1).strip(), [] if arguments == ["void"] else arguments)
    return found


class Declarations(Case):
    def agrees(self, c_text, declared, is_result=False):
        """One argument or result: does the ctypes type pass what C takes?"""
        text = re.sub(r"\bconst\b", "", c_text)
        stars, callback = text.count("*"), "(*" in text
        words = re.findall(r"\w+", text)
        base = words[0]
        if callback or base in self.callbacks:
            return issubclass(declared, ctypes._CFuncPtr)
        if stars == 0:
            if base in self.enums:
                return declared is ctypes.c_int
            return declared is SCALARS[base]
        if base == "char" and stars == 1:
            return declared is ctypes.c_char_p
        if declared is ctypes.c_void_p:  # arrays and opaque handles
            return stars == 1 and (base in SCALARS or base in self.opaque)
        pointed = declared._type_
        if base in library.STRUCTS:
            return stars == 1 and pointed is library.STRUCTS[base]
        if base == "char":
            return stars == 2 and pointed is ctypes.c_char_p
        if base in self.opaque:
            return stars == 2 and pointed is ctypes.c_void_p
        return stars == 1 and pointed is SCALARS[base]

    def setUp(self):
        super().setUp()
        text = code()
        self.enums = set(re.findall(r"typedef enum \{[^}]*\}\s*(\w+);", text))
        self.callbacks = set(re.findall(r"typedef [\w ]+[ *]\(\*(\w+)\)", text))
        self.opaque = set(re.findall(r"typedef struct (\w+) \1;", text))

    def test_functions(self):
        headers = functions()
        self.assertGreater(len(headers), 40)
        for name, (result, arguments) in library.FUNCTIONS.items():
            with self.subTest(name):
                self.assertIn(name, headers)
                c_result, c_arguments = headers[name]
                self.assertEqual(len(arguments), len(c_arguments), c_arguments)
                self.assertTrue(self.agrees(c_result, result), f"result: {c_result}, {result}")
                for declared, c_argument in zip(arguments, c_arguments):
                    self.assertTrue(self.agrees(c_argument, declared), f"{c_argument}, {declared}")

    def test_layout(self):
        """Sizes, offsets and enumerators, as a C compiler sees them."""
        lines = []
        for name, struct in library.STRUCTS.items():
            lines.append(f'printf("%zu\\n", sizeof({name}));')
            lines += [f'printf("%zu\\n", offsetof({name}, {field}));' for field, *_ in struct._fields_]
        lines += [f'printf("%d\\n", (int){name});' for name in library.ENUMS]
        includes = "".join(f'#include "{path.name}"\n' for path in HEADERS)
        source = f"#include <stdio.h>\n{includes}int main(void) {{\n" + "\n".join(lines) + "\nreturn 0;\n}\n"
        printed = subprocess.run([self.compile(source)], capture_output=True, check=True).stdout.split()
        expected = []
        for struct in library.STRUCTS.values():
            expected.append(ctypes.sizeof(struct))
            expected += [getattr(struct, field).offset for field, *_ in struct._fields_]
        expected += library.ENUMS.values()
        self.assertEqual([int(number) for number in printed], expected)

    def same_field(self, c_text, declared):
        """One field of a struct, without its name."""
        text = re.sub(r"\b(const|volatile)\b", "", c_text)
        array = re.search(r"\[(\w+)\]", text)
        if array:
            base = {**SCALARS, "char": ctypes.c_char}[text.split()[0]]
            return declared._length_ == int(array.group(1)) and declared._type_ is base
        base = text.split()[0].strip("*")
        if base in library.STRUCTS and "*" not in text:
            return declared is library.STRUCTS[base]
        if base == "sig_atomic_t":
            return declared._type_ is ctypes.c_int
        return self.agrees(text, declared)

    def test_fields(self):
        """No field of a struct is missing; order and types are C's."""
        for name, struct in library.STRUCTS.items():
            body = re.search(r"typedef struct(?: \w+)? \{([^{}]*)\}\s*" + name + ";", code()).group(1)
            fields = []
            for line in filter(None, (" ".join(line.split()) for line in body.split(";"))):
                callback = re.search(r"\(\*(\w+)\)", line)
                if callback:
                    fields.append((callback.group(1), line))
                    continue
                line = re.sub(r"\b(const|volatile)\b", "", line).strip()
                kind = re.match(r"\w+", line).group(0)  # before the first name
                for each in line[len(kind) :].split(","):
                    stars, field, array = re.fullmatch(r"\s*([* ]*)\s*(\w+)\s*(\[\w+\])?", each).groups()
                    fields.append((field, f"{kind} {stars}{array or ''}"))
            self.assertEqual([field for field, _ in fields], [field for field, *_ in struct._fields_], name)
            for (field, text), (_, declared) in zip(fields, struct._fields_):
                self.assertTrue(self.same_field(text, declared), f"{name}.{field}: {text}, {declared}")

"""Writes docs/functions.md from the translator's tables: every name of Spark's builtin functions, whether it is served,
and by what. Run by hand after a change of the tables: python docs/functions.py

Supported means that there is a row; what a row refuses (spark__not_supported in its builder) and where results differ
from Spark's is said in the last column."""
import json
import pathlib
import re

ROOT = pathlib.Path(__file__).resolve().parent.parent
TABLES = ROOT / "src/frontend/spark/translate"
ROW = re.compile(r'^    \{"((?:[^"\\]|\\.)+)",\s*"[^"]*",\s*(?:NULL|"[^"]*"),\s*(NULL|"[^"]*"),\s*(NULL|\w+),(.*)\}', re.M | re.S)
ROW_START = re.compile(r'^    (?:\{"|[A-Z]+_ROW\()', re.M)
MACRO = re.compile(r'^    ([A-Z]+)_ROW\("([^"]+)"', re.M)
REFUSES = re.compile(r'spark__not_supported\((?:b|&\w+|\w+), "([^"]+)"\)')
BUILDER = re.compile(r"^static trn_status (\w+)\(spark_builder \*b, const trn_expr \*\*out\) \{.*?^\}", re.M | re.S)

# Where a result may differ from Spark's, found by comparing with Spark 4.2.
DIFFERS = {
    "kurtosis": "the last digits are those of one partition", "skewness": "the last digits are those of one partition",
    "regr_slope": "the last digits are those of one partition",
    "regr_intercept": "the last digits are those of one partition",
    "regr_r2": "the last digits are those of one partition", "regr_sxy": "the last digits are those of one partition",
    "regr_sxx": "the last digits are those of one partition", "regr_syy": "the last digits are those of one partition",
    "rand": "a seed's numbers are those of the first partition", "random": "a seed's numbers are those of the first partition",
    "randn": "a seed's numbers are those of the first partition, but for last digits",
    "uuid": "a seed's texts are those of the first partition",
    "shuffle": "a seed's order is that of the first partition, anew for every batch",
    "spark_partition_id": "always 0", "monotonically_increasing_id": "rows are numbered from 0, as of one partition",
    "input_file_name": "where no file is read", "input_file_block_start": "where no file is read",
    "input_file_block_length": "where no file is read",
    "parse_url": "the key is no regular expression", "try_parse_url": "the key is no regular expression",
    "mask": "case of letters beyond Latin-1 is not known",
    "transform": "structs inside of elements show as nullable",
    "filter": "structs inside of elements show as nullable",
    "from_json": "options: formats of dates and timestamps, mode, columnNameOfCorruptRecord, allowSingleQuotes",
    "to_json": "options: formats of dates and timestamps, ignoreNullFields, sortKeys",
    "from_csv": "options: sep, quote, escape, formats, columnNameOfCorruptRecord",
    "to_csv": "options: sep, quoteAll, nullValue, formats; no nested values",
    "schema_of_json": "option: primitivesAsString", "schema_of_csv": "option: sep",
    "map_zip_with": "keys of one type only",
    "mode": "of several most frequent values Spark's for one partition; the least of types without a known hash",
    "percentile": "all of a group's values are kept", "median": "all of a group's values are kept",
    "approx_percentile": "all of a group's values are kept; the summary of one partition",
    "percentile_approx": "all of a group's values are kept; the summary of one partition",
    "histogram_numeric": "all of a group's values are kept; the bins of one partition",
    "listagg": "DISTINCT alone is in order", "string_agg": "DISTINCT alone is in order",
    "sentences": "the rules of English, whatever the locale", "collate": "UTF8_BINARY only",
    "session_window": "a gap that is a literal", "window": "sizes that are literals",
}

# Why a name has no row.
REASONS = [
    (("java_method", "reflect", "try_reflect"), "calls classes of the JVM"),
    (("python_worker_logs",), "there are no Python workers"),
    (("hll_", "theta_", "kll_", "tuple_", "approx_top_k"), "the formats of Apache DataSketches"),
    (("parse_json", "try_parse_json", "is_variant_null", "is_valid_variant", "schema_of_variant", "to_variant", "variant_",
      "try_variant_get"), "the type VARIANT"),
    (("st_",), "the types GEOMETRY and GEOGRAPHY"),
    (("xpath", "from_xml", "to_xml", "schema_of_xml"), "XML"),
    (("from_avro", "to_avro", "schema_of_avro", "from_protobuf", "to_protobuf"), "files' formats as values"),
    (("collations", "sql_keywords"), "tables of names"),
    (("measure",), "metric views"),
]


def reason_of(name):
    for starts, reason in REASONS:
        if name.startswith(starts):
            return "needs: " + reason if not reason.startswith(("calls", "there", "the engine")) else reason
    return ""



def rows_of(path):
    text = path.read_text()
    refuses = {m.group(1): REFUSES.findall(m.group(0)) for m in BUILDER.finditer(text)}
    starts = [m.start() for m in ROW_START.finditer(text)] + [len(text)]
    for start, end in zip(starts, starts[1:]):
        piece = text[start:end].split("\n};")[0]
        macro = MACRO.match(piece)
        row = ROW.match(piece)
        if macro:
            yield macro.group(2), "kernel" if macro.group(1) == "DOUBLE" else "native", []
        elif row and "SPARK_NO_NAMES" not in row.group(4):
            run, build = row.group(2).strip('"'), row.group(3)
            how = "engine" if run.startswith("@") else "native" if run.startswith("=") else "kernel"
            yield row.group(1), how if build == "NULL" or run.startswith(("@", "trn.")) else "composed", refuses.get(build, [])


def main():
    names = json.loads((ROOT / "tests/data/spark/function_names.json").read_text())
    served = {}
    for path in sorted([*TABLES.glob("functions_*.c"), TABLES / "time_window.c"]):
        for name, how, refuses in rows_of(path):
            served.setdefault(name.lower(), (how, refuses))
    generators = set(re.findall(r'"(\w+)"', (TABLES / "generator.c").read_text()))
    lines, count = [], 0
    for name in names:
        how, refuses = served.get(name.lower(), (None, []))
        if how is None and (name in generators or name in ("case", "cast", "grouping", "grouping_id")):
            how = "composed"
        count += how is not None
        notes = ([DIFFERS[name]] if name in DIFFERS and how else []) + (["not: " + ", ".join(refuses)] if refuses else [])
        notes += [reason_of(name)] if not how and reason_of(name) else []
        shown = name.replace("|", "\\|")
        lines.append(f"| `{shown}` | {'yes' if how else 'no'} | {how or ''} | {'; '.join(notes)} |")
    head = f"""# Spark's functions

Generated by docs/functions.py from the translator's tables; {count} of Spark's {len(names)} builtin names are served.

How: *native* is an operator of plans, *engine* a function of the engine that gives exactly Spark's results, *kernel* one
of the function library, *composed* made of several of these. A call that is not served, or an argument listed after
"not:", is refused with UNIMPLEMENTED; it never gives another result silently.

Higher-order functions run on the engine's array_transform, array_filter and array_any_match; aggregate, reduce and
array_sort with a comparator on functions of the shim's, which evaluate the lambda for all rows at once.

| Function | Served | How | Differences and limits |
|---|---|---|---|
"""
    (ROOT / "docs/functions.md").write_text(head + "\n".join(lines) + "\n")
    print(f"{count} of {len(names)}")


if __name__ == "__main__":
    main()

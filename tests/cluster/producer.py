"""Plans made by others, as files: run by the Python of an environment that has PyPI's datafusion.
usage: producer.py DIRECTORY < requests (JSON: {"tables": {name: path}, "queries": {name: sql}, "formats": [..]})"""
import json, pathlib, sys
import datafusion
from datafusion import SessionContext, substrait

out = pathlib.Path(sys.argv[1])
request = json.load(sys.stdin)
context = SessionContext(datafusion.SessionConfig().set("datafusion.execution.parquet.schema_force_view_types", "false")
                         .set("datafusion.sql_parser.map_string_types_to_utf8view", "false")
                         .set("datafusion.optimizer.enable_dynamic_filter_pushdown", "false").with_target_partitions(2))
for name, path in request["tables"].items():
    (context.register_csv if path.endswith(".csv") else context.register_parquet)(name, path)
failed = {}
for name, sql in request["queries"].items():
    try:
        frame = context.sql(sql)
        if "logical" in request["formats"]:
            (out / f"{name}.logical").write_bytes(frame.optimized_logical_plan().to_bytes())
        if "physical" in request["formats"]:
            (out / f"{name}.physical").write_bytes(frame.execution_plan().to_bytes())
        if "substrait" in request["formats"]:
            (out / f"{name}.substrait").write_bytes(substrait.Producer.to_substrait_plan(frame.logical_plan(), context).encode())
    except BaseException as error:
        failed[name] = f"{type(error).__name__}: {error}"[:300]
print(json.dumps({"version": datafusion.__version__, "failed": failed}))
